"The `z80lit` command as a shell sees it: what it prints where, what it writes, and its exit status."
import json, subprocess, sys

import pytest
from typer.testing import CliRunner

import z80lit
from z80lit.cli import app

runner = CliRunner()
commands = ('asm', 'dis', 'run', 'reproduce', 'verify', 'conform', 'bench')
def call(*args, input=None): return runner.invoke(app, list(map(str, args)), input=input)

def shell(*args, input=b''):
    "The command in a process of its own"
    return subprocess.run([sys.executable, '-c', 'from z80lit.cli import main; main()', *map(str, args)], input=input, capture_output=True)

def refused(result, *words):
    "Did it leave with status 2, nothing on the output and one line on the error stream that holds `words`?"
    return result.returncode == 2 and result.stdout == b'' and len(result.stderr.splitlines()) == 1 and all(w in result.stderr.decode() for w in words)

def test_version_and_help():
    assert call('--version').output == f'z80lit {z80lit.__version__}\n'
    overview = call('--help')
    assert overview.exit_code == 0 and all(c in overview.output for c in commands)
    for command in commands: assert call(command, '--help').exit_code == 0

def test_help_is_light():
    "Help and assembly need neither Numba nor torch"
    code = "import sys\nfrom z80lit.cli import app\nfrom typer.testing import CliRunner\n" \
           "assert CliRunner().invoke(app, ['asm', '-c', 'HALT']).exit_code == 0\nprint(*{'numba', 'torch', 'matplotlib', 'fastcore'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout == '\n'

def test_asm_to_each_form(tmp_path):
    source = tmp_path/'a.asm'
    source.write_text('start: LD A,8\n JR start\n')
    assert call('asm', source).output == '3E 08 18 FC\n'
    assert shell('asm', source, '--to', 'bin').stdout == bytes.fromhex('3E0818FC')
    assert shell('asm', '-', input=source.read_bytes()).stdout == b'3E 08 18 FC\n'
    assert [line.split()[0] for line in call('asm', source, '--to', 'listing', '--origin', '8000h').output.splitlines()] == ['8000', '8002']

def test_asm_writes_whole_or_not_at_all(tmp_path):
    out = tmp_path/'a.bin'
    assert call('asm', '-c', 'LD A,8', '-o', out).exit_code == 0 and out.read_bytes() == bytes.fromhex('3E08')
    assert refused(shell('asm', '-c', 'LD A,8 : LD A,Q', '-o', out), '-c', '1') and out.read_bytes() == bytes.fromhex('3E08')
    assert refused(shell('asm', '-c', 'HALT', '-o', tmp_path/'none'/'a.bin'), 'a.bin')
    assert [p.name for p in tmp_path.iterdir()] == ['a.bin']

def test_asm_names_file_and_line(tmp_path):
    source = tmp_path/'bad.asm'
    source.write_text('NOP\nLD A,Q\n')
    assert refused(shell('asm', source), 'bad.asm', '2')

@pytest.mark.parametrize('args', [
    ('asm',), ('asm', 'nothere.asm'), ('asm', 'nothere.asm', '-c', 'NOP'), ('asm', '-c', 'NOP', '--origin', 'x'), ('asm', '-c', 'NOP', '--origin', '10000h'),
    ('dis', '-c', '3E 0'), ('dis', '-c', 'xyz'), ('run',), ('run', '-c', 'HALT', 'a=300'), ('run', '-c', 'HALT', 'zz=1'), ('run', '-c', 'HALT', 'a='),
    ('run', 'one', 'two'), ('run', '-c', 'HALT', '-m', '9000h'), ('run', '-c', 'HALT', '-m', '9000h=1'), ('run', '-c', 'HALT', '-m', 'FFFFh=0102'),
    ('run', '-c', 'HALT', '-m', '0FFFFh=0102'), ('run', '--from', 'hex', '-c', '7')], ids=' '.join)
def test_bad_input_is_refused_in_one_line(args): assert refused(shell(*args)), shell(*args)

def test_bad_bytes_are_no_source():
    assert refused(shell('asm', '-', input=b'NOP\n\xff\xfe'), '<stdin>')

def test_dis_reads_hex_and_bytes(tmp_path):
    binary = tmp_path/'a.bin'
    binary.write_bytes(bytes.fromhex('3E0876'))
    text = call('dis', '-c', '3e0876').output
    assert [line.split()[0] for line in text.splitlines()] == ['0000', '0002']
    assert call('dis', binary).output == text == shell('dis', '-', input=b'3E 08\n76\n').stdout.decode()

def test_dis_can_be_told():
    "The bytes 33h 33h are two instructions, and the digits 33 are one"
    assert len(shell('dis', '-', input=b'33').stdout.splitlines()) == 1
    assert len(shell('dis', '--from', 'bin', '-', input=b'33').stdout.splitlines()) == 2

def test_asm_and_dis_round_trip():
    code = shell('asm', '-c', 'LD (IX+5),12h : BIT 7,(HL) : LDIR : JP NZ,1234h').stdout
    assert b'LDIR' in shell('dis', '-', input=code).stdout

def test_run_shows_the_machine():
    r = call('run', '-c', 'ADD A,B : LD (8000h),A : HALT', 'a=3', 'B=4')
    assert r.exit_code == 0 and 'AF 07' in r.output and '21 T-states, stop: halted' in r.output and '8000  07' in r.output

def test_run_takes_hex_memory_and_origin():
    r = call('run', '--from', 'hex', '-c', '7E 76', '--origin', '100h', 'hl=9000h', '-m', '9000h=2A')
    assert r.exit_code == 0 and 'AF 2A' in r.output and 'PC 0102' in r.output

def test_run_fails_on_its_budget():
    r = call('run', '-c', 'here: JR here', '--budget', 1000)
    assert r.exit_code == 1 and 'stop: budget' in r.output

def test_conform_runs_what_it_finds(data_dir, tmp_path):
    "A pack that passes, and a folder without a suite"
    good = shell('conform', data_dir/'sst_z80_edge.npz', '--record', tmp_path/'run.jsonl')
    assert good.returncode == 0 and b'3,012 of' in good.stdout and (tmp_path/'run.jsonl').exists()
    (tmp_path/'empty').mkdir()
    assert shell('conform', tmp_path/'empty').returncode == 2

@pytest.mark.parametrize('solved, status', [(16, 0), (15, 1), (0, 1)])
def test_reproduce_tells_whether_it_solved_all(monkeypatch, solved, status):
    sft, seen = pytest.importorskip('z80lit.sft'), {}
    monkeypatch.setattr(sft, 'reproduce', lambda **kw: seen.update(kw) or solved)
    assert call('reproduce', '--seed', 3).exit_code == status and seen['seed'] == 3

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
    table = tmp_path/'table.csv'
    table.write_text('program,spec,clobbers\n"ADD A,A",A -> A*2 & 0xFF,F\n"ADD A,A",A -> A*3 & 0xFF,F\n')
    found = call('verify', table)
    assert found.exit_code == 1 and len(found.output.splitlines()) == 2
    for args, word in [(('-c', 'LD Q,1', *spec), 'expected'), (('-c', 'NOP', '--spec', 'A >> B'), '->'), (('-c', 'name\n1'), 'row 1'), ((tmp_path/'none.csv',), 'none.csv')]:
        assert refused(shell('verify', *args), word)
