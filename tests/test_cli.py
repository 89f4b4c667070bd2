"The `z80lit` command: what it prints where, what it writes, and its exit status. Refusals are in test_bad_cli.py, CP/M in test_cpm.py."
import json, os, re, subprocess, sys, time

import pytest
from typer.testing import CliRunner

import z80lit
from z80lit.cli import app

runner = CliRunner()
commands = 'asm dis run trace time reproduce conform verify write optimise info bench'.split()

def call(*args, input=None):
    "The command in this process"
    return runner.invoke(app, list(map(str, args)), input=input, prog_name='z80lit')

def shell(*args, input=b'', **options):
    "The command in a process of its own"
    return subprocess.run([sys.executable, '-m', 'z80lit.cli', *map(str, args)], input=input, capture_output=True, **options)

def test_version_and_help():
    assert call('--version').output == f'z80lit {z80lit.__version__}\n'
    overview = call('--help')
    assert overview.exit_code == 0 and all(re.search(rf'^  {c} ', overview.output, re.M) for c in commands)

@pytest.mark.parametrize('command', [[c] for c in commands if c != 'bench'] + [['bench', 'emulator'], ['bench', 'design']], ids=' '.join)
def test_every_help_has_an_example(command):
    r = call(*command, '--help')
    assert r.exit_code == 0 and f"Example: z80lit {' '.join(command)}" in ' '.join(r.output.split()) and '--json' in r.output

def test_help_is_light():
    "Help and assembly need neither Numba nor torch"
    code = "import sys\nfrom z80lit.cli import app\nfrom typer.testing import CliRunner\n" \
           "assert CliRunner().invoke(app, ['asm', '-c', 'HALT']).exit_code == 0\nprint(*{'numba', 'torch', 'matplotlib', 'fastcore'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout == '\n'

@pytest.mark.parametrize('shell_name', ['bash', 'zsh', 'fish'])
def test_tab_completion(shell_name, monkeypatch):
    "The scripts are there, and the shell is told commands and registers"
    monkeypatch.setattr('shellingham.detect_shell', lambda *a: (shell_name, shell_name))
    assert 'z80lit' in call('--show-completion').output

def test_completions():
    code = 'import sys; sys.argv[0] = "z80lit"; from z80lit.cli import main; main()'
    def offered(words, at):
        env = os.environ | {'_Z80LIT_COMPLETE': 'complete_bash', 'COMP_WORDS': words, 'COMP_CWORD': str(at)}
        return subprocess.run([sys.executable, '-c', code], env=env, capture_output=True, text=True).stdout.split()
    assert set(commands) <= set(offered('z80lit ', 1))
    assert {'time', 'trace'} == set(offered('z80lit t', 1))
    assert {'hl=', 'hl_='} == set(offered('z80lit run a.asm hl', 3))


# asm and dis

def test_asm_to_each_form(tmp_path):
    source = tmp_path/'a.asm'
    source.write_text('start: LD A,8\n JR start\n')
    assert call('asm', source).output == '3E 08 18 FC\n'
    assert call('asm', source, '--to', 'bin').stdout_bytes == bytes.fromhex('3E0818FC')
    assert call('asm', '-', input=source.read_bytes()).output == '3E 08 18 FC\n'
    assert call('asm', source, '--to', 'ihex', '--origin', '8000h').output == ':048000003E0818FC22\n:00000001FF\n'
    assert [line.split()[0] for line in call('asm', source, '--listing', '-', '--origin', '8000h').output.splitlines()[:2]] == ['8000', '8002']

@pytest.mark.parametrize('name, content', [('a.bin', b'\x3e\x08'), ('a', b'\x3e\x08'), ('a.hex', b':020000003E08B8\n:00000001FF\n'), ('A.IHX', b':020000003E08B8\n:00000001FF\n'), ('a.com', b'\x3e\x08')])
def test_asm_output_by_name(tmp_path, name, content):
    r = call('asm', '-c', 'LD A,8', '-o', tmp_path/name)
    assert r.exit_code == 0 and r.output == '' and (tmp_path/name).read_bytes() == content

def test_com_is_assembled_for_100h(tmp_path):
    call('asm', '-c', 'here: JP here', '-o', tmp_path/'a.com')
    assert (tmp_path/'a.com').read_bytes() == bytes.fromhex('C30001')

def test_asm_listing_and_symbols(tmp_path):
    "Both files, and the symbol table assembles again"
    r = call('asm', '-c', 'ORG 9000h\nloop: DJNZ loop\ncount EQU 3', '-o', tmp_path/'a.bin', '--listing', tmp_path/'a.lst', '--symbols', tmp_path/'a.sym')
    assert r.exit_code == 0 and '9000  10 FE' in (tmp_path/'a.lst').read_text()
    again = tmp_path/'b.asm'
    again.write_text((tmp_path/'a.sym').read_text() + 'JP loop : LD A,count\n')
    assert call('asm', again).output == 'C3 00 90 3E 03\n'

def test_asm_json_and_defines():
    r = json.loads(call('asm', '-c', 'ORG 8000h : here: LD A,n', '-D', 'n=2Ah', '--json').output)
    assert (r['origin'], r['code']) == (0x8000, '3e2a') and r['symbols']['here'] == 0x8000

def test_asm_includes_beside_the_file(tmp_path, monkeypatch):
    (tmp_path/'part.inc').write_text('LD A,7\n')
    (tmp_path/'a.asm').write_text('include "part.inc"\n HALT\n')
    assert call('asm', tmp_path/'a.asm').output == '3E 07 76\n'
    assert call('run', tmp_path/'a.asm').exit_code == 0
    (tmp_path/'sub').mkdir()
    (tmp_path/'sub'/'b.asm').write_text('include "../part.inc"\n')
    assert call('asm', tmp_path/'sub'/'b.asm').exit_code == 2
    assert call('asm', tmp_path/'sub'/'b.asm', '--root', tmp_path).output == '3E 07\n'

def test_asm_writes_whole_or_not_at_all(tmp_path):
    out = tmp_path/'a.bin'
    assert call('asm', '-c', 'LD A,8', '-o', out).exit_code == 0 and out.read_bytes() == bytes.fromhex('3E08')
    assert call('asm', '-c', 'LD A,8 : LD A,Q', '-o', out).exit_code == 2 and out.read_bytes() == bytes.fromhex('3E08')
    assert [p.name for p in tmp_path.iterdir()] == ['a.bin']

def test_dis_reads_hex_and_bytes(tmp_path):
    binary = tmp_path/'a.bin'
    binary.write_bytes(bytes.fromhex('3E0876'))
    text = call('dis', '-c', '3e0876').output
    assert [line.split()[0] for line in text.splitlines()] == ['0000', '0002']
    assert call('dis', binary).output == text == call('dis', '-', input=b'3E 08\n76\n').output

def test_dis_can_be_told():
    "The bytes 33h 33h are two instructions, and the digits 33 are one"
    assert len(call('dis', '-', input=b'33').output.splitlines()) == 1
    assert len(call('dis', '--from', 'bin', '-', input=b'33').output.splitlines()) == 2

def test_dis_json():
    first, second = json.loads(call('dis', '-c', '20 FE CB 30', '--origin', '100h', '--json').output)
    assert first == {'address': 0x100, 'code': '20fe', 'text': 'JR NZ,0100h', 'tstates': [7, 12], 'note': ''} and second['address'] == 0x102

def test_asm_and_dis_round_trip(tmp_path):
    for to in 'hex', 'ihex', 'bin':
        code = call('asm', '-c', 'ORG 4000h : LD (IX+5),12h : BIT 7,(HL) : LDIR : JP NZ,1234h', '--to', to).stdout_bytes
        assert 'LDIR' in call('dis', '-', input=code).output

def test_intel_hex_with_gaps_and_a_start(tmp_path):
    "Two blocks keep their places; the last record says where to start"
    path = tmp_path/'two.hex'
    path.write_text(':0201000018FEE7\n:02900000760077\n'.replace('760077', '76C92F') + ':00900001' + '6F\n')
    rows = call('dis', path).output.splitlines()
    assert [r.split()[0] for r in rows] == ['0100', '9000', '9001']
    assert 'PC 9001' in call('run', path).output
    path.write_text('76')
    assert call('run', path).exit_code == 0            # .hex with plain digits


# run, trace, time

def test_run_shows_the_machine():
    r = call('run', '-c', 'ADD A,B : LD (8000h),A : HALT', 'a=3', 'B=4')
    assert r.exit_code == 0 and 'AF 07' in r.output and '21 T-states, stop: halted' in r.output and '8000  07' in r.output

@pytest.mark.parametrize('to', ['hex', 'ihex', 'bin'])
def test_asm_into_run(to):
    "What asm prints may go into a pipe, in each form"
    code = call('asm', '-c', 'LD A,5 : HALT', '--to', to).stdout_bytes
    for command in 'run', 'trace', 'time': assert '2 ' in call(command, '-', input=code).output and call(command, '-', input=code).exit_code == 0
    assert 'AF 05' in call('run', '-', input=code).output and 'AF 05' in call('run', '-', input=b'LD A,5 : HALT ; na\xc3\xafve').output

def test_run_takes_hex_digits():
    assert 'AF 05' in call('run', '-c', '3E 05 76').output and 'AF 05' in call('run', '-c', '3E0576').output
    assert call('run', '-c', 'DAA\nCCF').output.count('2 instructions')       # these are none

def test_run_starts_where_end_says(tmp_path):
    source = 'ORG 8000h\n DB 0FFh,0FFh\ngo: LD A,5\n HALT\n END go'
    assert 'AF 05' in call('run', '-c', source).output and json.loads(call('asm', '-c', source, '--json').output)['start'] == 0x8002
    (tmp_path/'a.hex').write_bytes(call('asm', '-c', source, '--to', 'ihex').stdout_bytes)
    assert 'AF 05' in call('run', tmp_path/'a.hex').output and call('dis', tmp_path/'a.hex').output.startswith('8000')

def test_run_shows_ports():
    source = 'LD BC,1234h : OUT (C),B : OUT (7),A'
    assert 'ports written  1234=12 0507=05\n' in call('run', '-c', source, 'a=5').output and json.loads(call('run', '-c', source, 'a=5', '--json').output)['ports'] == [[0x1234, 0x12], [0x507, 5]]

def test_runaway_output_is_cut():
    "And a line says how much is left out, and how to see it"
    run = call('run', '-c', 'next: LD (HL),0FFh : INC HL : INC HL : JR next', 'hl=100h', '--limit', 400_000)
    assert len(run.output.splitlines()) < 50 and re.search(r'\.\.\. [\d,]+ more; --json has all', run.output)
    trace = call('trace', '-c', 'JR $')
    assert len(trace.output.splitlines()) == 122 and '... 714 steps left out; --all shows them' in trace.output and trace.output.endswith('834 steps, 10008 T-states, stop: limit\n')
    assert len(call('trace', '-c', 'JR $', '--all').output.splitlines()) == 835 and len(call('trace', '-c', 'JR $', '--json').stdout.splitlines()) == 834

def test_dash_is_the_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call('asm', '-c', 'HALT', '-o', '-').output == '76\n' == call('asm', '-c', 'HALT').output
    assert call('asm', '-c', 'HALT', '-o', '-', '--to', 'bin').stdout_bytes == b'v' and call('asm', '-c', 'x: HALT', '--symbols', '-').output == 'x equ 0000h\n'
    assert call('asm', '-c', 'HALT', '-o', 'a.bin', '--listing', '-').output.startswith('0000  76') and [p.name for p in tmp_path.iterdir()] == ['a.bin']

def test_asm_help_lists_the_directives():
    from z80lit.asm import _DIRECTIVES, _FLOW, _SPELLINGS
    said = set(re.findall(r'\b[A-Z]+\b|=', call('asm', '--help').output))
    assert said >= {*_DIRECTIVES, *_FLOW} | {other for other, word in _SPELLINGS.items() if word in {*_DIRECTIVES, *_FLOW}}

def test_reproduce_help_lists_the_studies():
    from z80lit import attempts, causes, dissect
    said = set(re.findall(r'\w+', call('reproduce', '--help').output.split('--study')[1]))
    assert said >= {*attempts.STUDIES, *causes.STUDIES, *dissect.STUDIES}

def test_run_takes_hex_memory_and_origin():
    r = call('run', '--from', 'hex', '-c', '7E 76', '--origin', '100h', 'hl=9000h', '-m', '9000h=2Ah')
    assert r.exit_code == 0 and 'AF 2A' in r.output and 'PC 0102' in r.output

def test_run_ends_with_a_return_or_behind_the_program():
    for source in 'INC A : RET', 'INC A':
        r = call('run', '-c', source, '--json')
        assert r.exit_code == 0 and json.loads(r.output)['stop'] == 'returned' and json.loads(r.output)['registers']['af'] >> 8 == 1

def test_run_fails_on_its_limit():
    for option in '--limit', '--budget':
        r = call('run', '-c', 'here: JR here', option, 1000)
        assert r.exit_code == 1 and 'stop: limit' in r.output

def test_run_json():
    r = json.loads(call('run', '-c', 'LD HL,9000h : LD (HL),1 : INC L : LD (HL),2 : HALT', "af'=1234h", '--json').output)
    assert r['memory'] == [{'address': 0x9000, 'bytes': '0102'}] and r['registers']['af_'] == 0x1234 and r['stop'] == 'halted' and r['tstates'] == 38

def test_trace():
    r = call('trace', '-c', 'LD A,(HL) : INC A : LD (9001h),A : OUT (7),A', 'hl=9000h', '-m', '9000h=41h')
    assert r.exit_code == 0 and [line.split()[0] for line in r.output.splitlines()[:-1]] == ['0000', '0001', '0002', '0005']
    assert '(9001)=42' in r.output and 'port 4207=42' in r.output and r.output.endswith('4 steps, 35 T-states, stop: returned\n')
    assert call('trace', '-c', 'JR $').exit_code == 1 and len(call('trace', '-c', 'JR $', '--limit', 1200).output.splitlines()) == 101

def test_trace_json():
    "A JSON object a line, and nothing else on the output"
    r = call('trace', '-c', 'LD (8000h),A : HALT', 'a=1', '--json')
    first, second = map(json.loads, r.stdout.splitlines())
    assert first == {'address': 0, 'code': '320080', 'text': 'LD (8000h),A', 'tstates': 13, 'registers': {}, 'memory': {'32768': 1}, 'ports': {}} and second['text'] == 'HALT'

@pytest.mark.parametrize('source, said', [
    ('LD A,1 : RET', 'a way through: 17 T-states\n'), ('OR A : JR Z,end : LD A,1 : end: RET', 'a way through: 26 T-states to 28'), ('top: DJNZ top', '8 T-states or more, there is a loop'),
    ('JR $', 'not known, there is no way out'), ('CALL 5 : RET', 'not known, CALL 0005h at 0000 leads elsewhere'), ('JP (HL)', 'leads elsewhere'), ('LD A,(HL) : CPIR', 'or more'), ('JP 8000h', 'a way through: 10 T-states\n'),
    ('RET NZ : HALT', 'a way through: 9 T-states to 11'), ('JR over : DB 21h : over: RET', 'a way through: 22 T-states\n'), ('JP go : DB "text", 0CDh : go: LD A,1 : RET', 'a way through: 27 T-states\n'), ('JR $+3 : LD A,0AFh : RET', 'a way through: 26 T-states\n'), ('LD A,1', 'a way through: 7 T-states\n')])
def test_time_of_the_ways(source, said):
    r = call('time', '-c', source)
    assert r.exit_code == 0 and said in r.output and 'with these inputs' not in r.output

def test_time_shows_data_as_data():
    "What is not reached is data; what a jump through a register reached in the measured run is not"
    r = json.loads(call('time', '-c', 'CALL help : JR over : DB 21h,1 : over: RET : help: RET : DB 1,2', '--json').output)
    assert [i['text'] for i in r['instructions']] == ['CALL 0008h', 'JR 0007h', 'RET', 'RET'] and r['data'] == [{'address': 5, 'bytes': '2101'}, {'address': 9, 'bytes': '0102'}] and r['bytes'] == 11
    rows = call('time', '-c', 'JR over : DB 21h,1 : over: RET').output.splitlines()
    assert rows[2].split() == ['0002', 'DB', '21h,1', '2', 'data']
    jump = 'LD HL,go : JP (HL) : DB 0FFh : go: RET'
    assert 'RET' not in call('time', '-c', jump).output and 'RET' in call('time', '-c', jump, 'a=1').output

def test_time_measured():
    r = json.loads(call('time', '-c', 'top: ADD A,(HL) : INC HL : DJNZ top : RET', 'b=4', '--json').output)
    assert (r['bytes'], r['once'], r['shortest'], r['longest'], r['measured'], r['stop']) == (5, [31, 36], 31, None, 109, 'returned')
    assert [i['measured'] for i in r['instructions']] == [[4, 28], [4, 24], [4, 47], [1, 10]]
    assert call('time', '-c', 'JR $', 'a=1', '--limit', 100).exit_code == 1

def test_com_starts_at_100h_everywhere(tmp_path):
    (tmp_path/'a.com').write_bytes(b'\xc9')
    assert call('dis', tmp_path/'a.com').output.startswith('0100 ') and call('trace', tmp_path/'a.com').output.startswith('0100 ') and '0100 ' in call('time', tmp_path/'a.com').output

def test_run_under_cpm(tmp_path):
    "A .com file, and assembly with --cpm; arguments, input and status"
    source = 'LD C,1 : CALL 5 : LD HL,82h : ADD A,(HL) : SUB 48 : LD E,A : LD C,2 : CALL 5 : RET'
    call('asm', '-c', source, '-o', tmp_path/'add.com')
    assert call('run', tmp_path/'add.com', '3', input=b'4').output == '47' == call('run', '--cpm', '-c', source, '3', input=b'4').output
    r = json.loads(call('run', tmp_path/'add.com', '3', '--json', input=b'4').output)
    assert r['stop'] == 'end' and r['output'] == '47'
    starved = call('run', '--cpm', '-c', 'again: LD C,1 : CALL 5 : JR again')
    assert starved.exit_code == 1 and 'waits for input' in starved.output
    assert call('run', '--cpm', '-c', 'JR $', '--limit', 10_000).exit_code == 1
    assert call('run', '--no-cpm', tmp_path/'add.com', '--limit', 1000).exit_code == 1

def test_cpm_files_through_the_command(tmp_path):
    (tmp_path/'disk').mkdir()
    make = 'LD DE,5Ch : LD C,22 : CALL 5 : LD DE,5Ch : LD C,21 : CALL 5 : RET'
    assert call('run', '--cpm', '-c', make, 'NEW.DAT', '--folder', tmp_path/'disk').exit_code == 0
    assert (tmp_path/'disk'/'NEW.DAT').stat().st_size == 128
    refused = call('run', '--cpm', '-c', make, '../out.dat', '--folder', tmp_path/'disk')
    assert refused.exit_code == 1 and "'../OUT.DAT' is not the name of a file in the folder" in refused.output and [p.name for p in tmp_path.iterdir()] == ['disk']

def test_a_terminal(tmp_path):
    "Keys arrive one by one, are shown once, and the terminal is left as it was"
    pty = pytest.importorskip('pty')
    import termios
    call('asm', '-c', 'again: LD C,1 : CALL 5 : CP 113 : JR NZ,again : RET', '-o', tmp_path/'echo.com')
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(theirs)
    process = subprocess.Popen([sys.executable, '-c', 'from z80lit.cli import main; main()', 'run', str(tmp_path/'echo.com')], stdin=theirs, stdout=theirs, stderr=theirs)
    while termios.tcgetattr(theirs)[3] & termios.ECHO and process.poll() is None: time.sleep(0.01)
    shown = b''
    for key in b'a', b'b', b'q':
        os.write(ours, key)
        shown += os.read(ours, 100)
    assert process.wait(timeout=60) == 0 and shown == b'abq' and termios.tcgetattr(theirs) == before
    os.close(ours), os.close(theirs)

def test_closed_pipe_is_no_traceback():
    "`z80lit run ... | head -1`"
    r, w = os.pipe()
    source = 'again: LD C,9 : LD DE,t : CALL 5 : JR again\nt: DB "line", 10, 36'
    process = subprocess.Popen([sys.executable, '-c', 'from z80lit.cli import main; main()', 'run', '--cpm', '-c', source], stdin=subprocess.DEVNULL, stdout=w, stderr=subprocess.PIPE)
    os.close(w)
    assert os.read(r, 5) == b'line\n'
    os.close(r)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and b'Traceback' not in err


# The long jobs, verify, info

def test_conform_runs_what_it_finds(data_dir, tmp_path):
    "A pack that passes, its record and its JSON, and a folder without a suite"
    good = call('conform', data_dir/'sst_z80_edge.npz', '--record', tmp_path/'run.jsonl')
    assert good.exit_code == 0 and '3,012 of' in good.output and (tmp_path/'run.jsonl').exists()
    row = json.loads(call('conform', data_dir/'prelim.com', '--json').output)
    assert (row['file'], row['tstates'], row['passed']) == ('prelim.com', 8721, 1)
    (tmp_path/'empty').mkdir()
    assert call('conform', tmp_path/'empty').exit_code == 2

@pytest.mark.parametrize('solved, status', [(16, 0), (15, 1), (0, 1)])
def test_reproduce_tells_whether_it_solved_all(monkeypatch, solved, status):
    sft, seen = pytest.importorskip('z80lit.sft'), {}
    monkeypatch.setattr(sft, 'reproduce', lambda **kw: seen.update(kw) or print('talk') or solved)
    assert call('reproduce', '--seed', 3).exit_code == status and seen['seed'] == 3
    assert json.loads(call('reproduce', '--json').stdout) == {'seed': 0, 'solved': solved, 'of': 16}

def test_a_finished_training_is_no_crash_to_torchrun(monkeypatch):
    "torchrun begins anew what ends with another status than 0"
    monkeypatch.setattr('z80lit.sft.reproduce', lambda **options: 3)
    assert call('reproduce').exit_code == 1
    monkeypatch.setenv('TORCHELASTIC_RUN_ID', 'none')
    assert call('reproduce').exit_code == 0

def test_reproduce_trains_and_reports(tmp_path):
    "One epoch is too little to solve the benchmark, and the status says so"
    r = shell('reproduce', '--epochs', 1, '--out', tmp_path)
    assert r.returncode == 1 and b'of 16' in r.stdout and any(tmp_path.iterdir())

def test_verify(tmp_path):
    spec = ('--spec', 'A -> A*4 & 0xFF', '--clobbers', 'F')
    assert call('verify', '-c', '87 87', *spec).exit_code == 0
    wrong = call('verify', '-c', 'RLA : ADD A,A', *spec, '--json')
    row, = json.loads(wrong.output)
    assert wrong.exit_code == 1 and row['kind'] in ('counterexample', 'reads junk')
    hint = call('verify', '-c', 'LD B,A : ADD A,B', '--spec', 'A -> A*2 & 0xFF')
    assert hint.exit_code == 1 and re.search(r"must stay as before, being no output; .*--clobbers '(B|F)'", hint.stderr)
    table = tmp_path/'table.csv'
    table.write_text('program,spec,clobbers\n"ADD A,A",A -> A*2 & 0xFF,F\n"ADD A,A",A -> A*3 & 0xFF,F\n')
    found = call('verify', table)
    assert found.exit_code == 1 and len(found.output.splitlines()) == 2

def test_a_missing_extra_is_named():
    "In one line, by the command and by the import"
    code = "import sys\nsys.modules['torch'] = None\n"
    bare = subprocess.run([sys.executable, '-c', code + 'import z80lit.sft'], capture_output=True, text=True)
    assert bare.stderr.splitlines()[-1] == "ModuleNotFoundError: torch is missing; it comes with the extra learn: pip install 'z80lit[learn]'"
    said = subprocess.run([sys.executable, '-c', code + "sys.argv[1:] = ['write', 'A -> A']\nfrom z80lit.cli import main\nmain()"], capture_output=True, text=True)
    assert said.returncode == 2 and said.stderr == "z80lit: torch is missing: the learner is an extra, pip install 'z80lit[learn]'\n"

def test_bench_json(monkeypatch, tmp_path):
    "The record goes to the output, the talk to the error stream"
    from z80lit import bench
    def fake(*args): print('talk'); args[-1] and args[-1].write_text('{"row": 1}\n'); return 0
    for name in 'bench_emulator', 'bench_design': monkeypatch.setattr(bench, name, fake)
    for name in 'emulator', 'design':
        r = call('bench', name, '--json')
        assert r.exit_code == 0 and r.stdout == '{"row": 1}\n' and r.stderr == 'talk\n'
        assert call('bench', name).stdout == 'talk\n'
        assert call('bench', name, '--record', tmp_path/name).exit_code == 0 and (tmp_path/name).exists()

def test_info():
    f = json.loads(call('info', '--json').output)
    assert f['z80lit'] == z80lit.__version__ and f['compiled'] in (True, False) and 'torch' in f['extras']['learn'] and f['versions']['numpy'] and f['machine']['cores']
    text = call('info').output
    assert all(re.search(rf'^{k} ', text, re.M) for k in ('z80lit', 'versions', 'machine', 'core', 'extra learn', 'GPU'))

def test_first_use_is_announced(tmp_path):
    "Compiling takes a while, so both the emulator and the prover say that they do"
    for args in ('run', '-c', 'HALT'), ('verify', '-c', 'NOP', '--spec', 'A -> A'):
        process = subprocess.Popen([sys.executable, '-c', 'from z80lit.cli import main; main()', *args], env=os.environ | {'NUMBA_CACHE_DIR': str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        line = process.stderr.readline()
        process.kill()
        process.communicate()
        assert b'compiling' in line
