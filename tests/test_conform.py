"""`z80lit conform` on the real suites where they are at hand, and on small files made here where they are not."""
import gzip, hashlib, json
from itertools import islice

import numpy as np
import pytest

from z80lit import conform as module
from z80lit.conform import OUTDATED, TOTALS, cases_of, check_fuse, check_tape, conform, cpm_calls, fuse_tests, run_cases, run_tape, spectrum_text, suites, tape_blocks
from z80lit.record import read_run
from z80lit.emulator import NAMES
from z80lit.asm import assemble

slow = pytest.mark.slow


# The exerciser

@pytest.fixture(scope='session')
def checkpoints(data_dir): return json.loads((data_dir/'zex_checkpoints.json').read_text())

@pytest.mark.parametrize('program', ['zexdoc.com', 'zexall.com'])
def test_first_eight_groups(data_dir, checkpoints, program):
    "The banner and two lines a group, each at its exact T-state and instruction"
    calls = list(islice(cpm_calls((data_dir/program).read_bytes()), 1 + 2*8))
    assert [list(c[:3]) for c in calls] == checkpoints[program.removesuffix('.com')][:17]
    assert [c.text.split()[-1] for c in calls[2::2]] == ['OK']*8

def test_prelim(data_dir):
    calls = list(cpm_calls((data_dir/'prelim.com').read_bytes()))
    assert len(calls) == 2 and 'Preliminary tests complete' in calls[0].text
    assert calls[-1] == (0, 8_721, 899, '')

@slow
@pytest.mark.parametrize('program', ['zexdoc.com', 'zexall.com'])
def test_whole_exerciser(data_dir, capsys, program):
    assert conform(data_dir/program) == 0
    assert capsys.readouterr().out.split()[3:] == '67 of 67 46,734,978,649 T-states, 5,764,169,747 instructions, 136 checkpoints'.split()

def test_exerciser_that_fails(tmp_path, capsys, monkeypatch):
    "A line with ERROR, a count that is off and a checkpoint that is off are three differences"
    code = assemble('LD C,9 : LD DE,text : CALL 5 : LD C,2 : LD E,2Ah : CALL 5 : JP 0\ntext: DB "aaa OK", 10, "bbb ERROR ****", 10, "$"', origin=0x100)
    calls = list(cpm_calls(code))
    assert [c.text for c in calls] == ['aaa OK\nbbb ERROR ****\n', '*', '']
    assert calls[-1].instructions == 3 + 2 + 3 + 2 + 1 + 1
    (tmp_path/'zexdoc.com').write_bytes(code)
    (tmp_path/'zex_checkpoints.json').write_text(json.dumps({'zexdoc': [list(calls[0][:3]), [2, 7, 7]]}))
    monkeypatch.setitem(TOTALS, hashlib.sha256(code).hexdigest()[:16], (calls[-1].tstates + 1, calls[-1].instructions))
    assert conform(tmp_path) == 1
    out = capsys.readouterr().out
    assert '1 of         2' in out and 'bbb ERROR' in out and 'T-states expected 129, got 128' in out and 'call 1 expected [2, 7, 7]' in out

def test_program_that_never_ends_is_given_up(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(module, 'LIMIT', 1_000_000)
    monkeypatch.setattr(module, 'SLICE', 100_000)
    (tmp_path/'zexall.com').write_bytes(assemble('JR $'))
    assert conform(tmp_path) == 1 and 'does not come to its end' in capsys.readouterr().out
    (tmp_path/'zexall.com').write_bytes(assemble('HALT'))
    assert conform(tmp_path) == 2 and 'halts at 0100h' in capsys.readouterr().err


# Packs and JSON

def test_packs_pass(data_dir, tmp_path, capsys):
    "Every pack, through the command, with its record"
    for f in data_dir.iterdir():
        if not f.name.startswith('zex'): (tmp_path/f.name).symlink_to(f)
    assert conform(tmp_path, record=tmp_path/'run.jsonl') == 0
    header, rows, summary = read_run(tmp_path/'run.jsonl')
    assert header['format'] == 'z80lit.run/1' and summary == {'cases': 90_343, 'passed': 90_343, 'all': True}
    assert {r['file']: r['passed'] for r in rows} == {'sst_z80_dev50.npz': 80_200, 'sst_z80_edge.npz': 3_012, 'gap_cases.jsonl.gz': 3_130, 'program_cases.jsonl.gz': 4_000, 'prelim.com': 1}

def test_the_one_open_question(data_dir):
    "With Q cleared by an ineffective prefix three cases of the edge pack differ, in F and Q alone"
    wrong = run_cases(module.cases_of_pack(data_dir/'sst_z80_edge.npz'), keep_q=0)
    assert len(wrong) == 3 and all(w[:5] in ('dd 37', 'dd 3f', 'fd 37', 'fd 3f') and [d.split()[0] for d in w.split(': ')[1].split('; ')] == ['F', 'Q'] for w in wrong)

def pack_as_dicts(data_dir, count):
    "The first cases of the edge pack in the format of the JSON files"
    c = module.cases_of_pack(data_dir/'sst_z80_edge.npz')
    theirs = {v: k for k, v in module.OURS.items()}
    state = lambda columns, memory, k: {theirs[n]: int(v[k]) for n, v in columns.items()} | {'ram': [list(m) for m in memory[k]]}
    return [dict(name=c.names[k], initial=state(c.before, c.memory, k), final=state(c.after, c.memory_after, k), cycles=[[0, None, '----']]*int(c.tstates[k]), ports=[list(p) for p in c.ports[k]]) for k in range(count)]

def test_json_folder(data_dir, tmp_path, capsys):
    "Many files, one suite; a wrong case is named with what is wrong"
    dicts = pack_as_dicts(data_dir, 60)
    (tmp_path/'v1').mkdir()
    (tmp_path/'v1'/'00.json').write_text(json.dumps(dicts[:30]))
    (tmp_path/'v1'/'dd cb __ 06.json').write_text(json.dumps(dicts[30:]))
    assert conform(tmp_path) == 0 and '2 files' in capsys.readouterr().out
    dicts[3]['final']['b'] ^= 1
    dicts[7]['cycles'].append([0, None, '----'])
    (tmp_path/'v1'/'00.json').write_text(json.dumps(dicts[:30]))
    assert conform(tmp_path/'v1'/'00.json') == 1
    out = capsys.readouterr().out
    assert '28 of        30' in out and f"{dicts[3]['name']}: B expected" in out and f"{dicts[7]['name']}: T-states expected" in out

@pytest.mark.parametrize('field', [n for n in module.OURS])
def test_every_register_is_compared(data_dir, field):
    case = pack_as_dicts(data_dir, 1)[0]
    assert run_cases(cases_of([case]), keep_q=1) == []
    case['final'][field] ^= 1
    assert len(run_cases(cases_of([case]), keep_q=1)) == 1

def test_memory_and_ports_are_compared():
    "A byte that should not be written, a port that should be, the right byte from the right port only"
    zero = {n: 0 for n in module.OURS} | dict(pc=0x100, hl_=0)
    def case(code, initial, final, ports=(), extra=()):
        ram = [[0x100 + k, b] for k, b in enumerate(assemble(code))]
        return dict(name=code, initial=zero | initial | {'ram': ram}, final=zero | initial | final | {'ram': ram + list(extra)}, t=final.pop('t'), ports=list(ports))
    store = dict(a=7, wz=0x0701, pc=0x103, r=1, t=13)
    wrong = lambda c: run_cases(cases_of([c]))
    assert not wrong(case('LD (9000h),A', dict(a=7), dict(store), extra=[[0x9000, 7]]))
    assert wrong(case('LD (9000h),A', dict(a=7), dict(store))) == ['LD (9000h),A: wrote to 9000h']
    assert wrong(case('LD (9000h),A', dict(a=7), dict(store), extra=[[0x9000, 8]])) == ['LD (9000h),A: (9000h) expected 08, got 07']
    out = dict(wz=0x0713, pc=0x102, r=1, t=11)
    assert not wrong(case('OUT (12h),A', dict(a=7), dict(out), ports=[[0x0712, 7, 'w']]))
    assert 'ports written' in wrong(case('OUT (12h),A', dict(a=7), dict(out)))[0]
    into = dict(a=0x55, wz=0x0713, pc=0x102, r=1, t=11)
    assert not wrong(case('IN A,(12h)', dict(a=7), dict(into), ports=[[0x0712, 0x55, 'r']]))
    assert 'A expected 55, got AA' in wrong(case('IN A,(12h)', dict(a=7), dict(into), ports=[[0x0812, 0x55, 'r']]))[0]


# Tapes

def block(flag, data):
    body = bytes([flag]) + data
    return (len(body) + 1).to_bytes(2, 'little') + body + bytes([int(np.bitwise_xor.reduce(np.frombuffer(body, np.uint8)))])

def tape(code, at, basic=True):
    "A tape as z80test comes: a BASIC loader, then the code"
    header = lambda kind, size, start: block(0, bytes([kind]) + b'loader    ' + size.to_bytes(2, 'little') + start.to_bytes(2, 'little') + bytes(2))
    program = bytes(20)
    return (header(0, len(program), 10) + block(0xFF, program) if basic else b'') + header(3, len(code), at) + block(0xFF, code)

PRINTER = '''
        DI : PUSH IY : EXX : PUSH HL
        LD A,2 : CALL 1601h
        LD HL,text
next:   LD A,(HL) : INC HL : OR A : JR Z,done
        PUSH HL : LD IY,5C3Ah : EI : RST 10h : DI : POP HL
        JR next
done:   IN A,(0FEh) : CP 0BFh : JR NZ,$
        POP HL : EXX : POP IY : EI : RET
text:   DB {text}, 0'''

def printing(text): return tape(assemble(PRINTER.format(text=text), origin=0x8000), 0x8000)

def test_tape_passes(tmp_path):
    (tmp_path/'z80full.tap').write_bytes(printing('"000 SELF TEST", 23, 30, 1, "OK", 13, "001 SCF", 23, 30, 1, "OK", 13, 13, "Result: all tests passed.", 13'))
    r = check_tape(tmp_path/'z80full.tap')
    assert (r.cases, r.passed, r.differences) == (2, 2, [])
    assert conform(tmp_path) == 0

def test_tape_fails(tmp_path):
    (tmp_path/'z80ccf.tap').write_bytes(printing('"000 SELF TEST", 23, 30, 1, "OK", 13, "001 SCF", 23, 26, 1, "FAILED", 13, "CRC:01234567   Expected:89ABCDEF", 13, "Result: 001 of 002 tests failed.", 13'))
    r = check_tape(tmp_path/'z80ccf.tap')
    assert (r.cases, r.passed) == (2, 1) and r.differences == ['001 SCF FAILED CRC:01234567 Expected:89ABCDEF']
    assert conform(tmp_path) == 1

def test_tape_without_result(tmp_path):
    (tmp_path/'z80ccf.tap').write_bytes(printing('"000 SELF TEST", 23, 30, 1, "OK", 13'))
    assert check_tape(tmp_path/'z80ccf.tap').differences == ['does not come to its end']

def test_broken_tapes(tmp_path, capsys):
    good = printing('"x"')
    assert [flag for flag, _ in tape_blocks(good)] == [0, 0xFF, 0, 0xFF]
    for bad, what in [(good[:-3], 'byte 66: a block of'), (good[:10] + b'\x99' + good[11:], 'byte 0: the checksum'), (b'', 'no machine code'), (b'\1', 'a block of')]:
        (tmp_path/'z80doc.tap').write_bytes(bad)
        assert conform(tmp_path) == 2
        err = capsys.readouterr().err
        assert 'z80doc.tap' in err and what in err and err.count('\n') == 1

def test_tape_that_halts():
    with pytest.raises(RuntimeError, match='halts at 8000h'): run_tape(tape(assemble('HALT'), 0x8000))

def test_spectrum_codes():
    assert spectrum_text([22, 3, 4, *b'A', 16, 7, *b'B', 6, 127, 200, 13, *b'C', 23]) == 'AB(c)?\nC'


# FUSE

def fuse(name, before, after, tstates, end, code, changed='', events='', r=1):
    "One test as it stands in the two files; registers are 13 words"
    words = lambda d: ' '.join(f'{d.get(n, 0):04x}' for n in module.FUSE_PAIRS)
    return (f'{name}\n{words(before)}\n00 00 0 0 0 0    {tstates}\n0000 {code} -1\n-1\n\n',
            f'{name}\n{events}{words(before | after)}\n00 {r:02x} 0 0 0 0 {end}\n{changed}\n')

SAMPLES = [fuse('3c', dict(af=0x7F00), dict(af=0x8094, pc=1), 1, 4, '3c'),
           fuse('32', dict(af=0x5500), dict(pc=3, wz=0x5501), 1, 13, '32 00 c0', 'c000 55 -1\n', '   10 MC c000\n   10 MW c000 55\n'),
           fuse('10', dict(bc=0x0300), dict(bc=0, pc=2, wz=0), 30, 34, '10 fe', r=3),
           fuse('d3', dict(af=0xA200), dict(pc=2, wz=0xA2ED), 1, 11, 'd3 ec', events='    8 PW a2ec a2\n'),
           fuse('db', dict(af=0xC100), dict(af=0xC100, pc=2, wz=0xC1E4), 1, 11, 'db e3', events='    8 PR c1e3 c1\n'),
           fuse('76', {}, dict(pc=0), 1, 4, '76')]     # as FUSE has it: HALT stands still

@pytest.fixture
def fuse_folder(tmp_path):
    for name, k in ('tests.in', 0), ('tests.expected', 1): (tmp_path/name).write_text(''.join(s[k] for s in SAMPLES))
    return tmp_path

def test_fuse_passes(fuse_folder, capsys):
    "Where the suite is out of date a difference is expected"
    r = check_fuse(fuse_folder/'tests.in')
    assert (r.cases, r.passed, r.differences) == (6, 5, []) and '1 more differ' in r.note
    assert conform(fuse_folder) == 0
    (fuse_folder/'tests.in').write_bytes((fuse_folder/'tests.in').read_bytes().replace(b'\n', b'\r\n'))
    assert check_fuse(fuse_folder/'tests.in').passed == 5

@pytest.mark.parametrize('old, new, said', [
    ('8094', '8095', '3c: AF expected 8095, got 8094'), ('0 13\n', '0 14\n', '32: T-states expected 14, got 13'), ('c000 55 -1', 'c001 55 -1', '32: (C000h) expected DE, got 55'),
    ('PW a2ec a2', 'PW a2ec a3', 'd3: ports written expected'), ('00 03 0', '00 04 0', '10: R expected 04, got 03'), ('\n00 01 0 0 0 0 11', '\n00 01 0 0 1 0 11', 'IM expected 01, got 00')])
def test_fuse_differences(fuse_folder, capsys, old, new, said):
    text = (fuse_folder/'tests.expected').read_text()
    assert old in text
    (fuse_folder/'tests.expected').write_text(text.replace(old, new))
    assert conform(fuse_folder) == 1
    assert said in capsys.readouterr().out

def test_fuse_outdated_case_that_passes(fuse_folder, capsys):
    "If HALT agrees with the old view of FUSE, the machine is wrong"
    (fuse_folder/'tests.in').write_text(fuse('76', {}, {}, 1, 4, '00')[0])
    (fuse_folder/'tests.expected').write_text(fuse('76', {}, dict(pc=1), 1, 4, '00')[1])
    assert '76' in OUTDATED and conform(fuse_folder) == 1
    assert '76: passes, but the right machine would not' in capsys.readouterr().out

def test_fuse_files_that_do_not_fit(fuse_folder, capsys):
    (fuse_folder/'tests.expected').write_text(SAMPLES[0][1])
    assert conform(fuse_folder) == 2 and 'only one of the two files' in capsys.readouterr().err
    (fuse_folder/'tests.expected').unlink()
    assert conform(fuse_folder) == 2 and 'tests.expected' in capsys.readouterr().err
    with pytest.raises(ValueError, match='test 3c cannot be read'): fuse_tests('3c\n0000 zz\n00 00 0 0 0 0 1\n')

def test_fuse_older_format_without_wz():
    state, memory, sent = fuse_tests('3c\n' + '0001 '*12 + '\n3f 80 1 0 2 0     7\n0000 3c -1\n8000 1 2 3 -1\n-1\n')['3c']
    assert 'wz' not in state and state['pc'] == 1 and (state['i'], state['r'], state['im'], state['tstates']) == (0x3F, 0x80, 2, 7)
    assert memory == [(0, b'\x3c'), (0x8000, b'\1\2\3')] and sent == []
    assert set(state) <= set(NAMES) | {'tstates'}


# What is found, and what is not

def test_nothing_known(tmp_path, capsys):
    (tmp_path/'notes.txt').write_text('x')
    assert conform(tmp_path) == 2 and 'no test suite' in capsys.readouterr().err
    assert conform(tmp_path/'notes.txt') == 2
    assert conform(tmp_path/'missing') == 2 and 'no such file or folder' in capsys.readouterr().err

def test_what_is_recognised(tmp_path):
    names = ['00.json', 'FD CB __ FF.json', 'notes.json', 'sst_z80_dev50.npz', 'sst_z80_dev50_trace.npz', 'ZEXALL.COM', 'other.com', 'z80full.tap', 'game.tap', 'tests.in', 'gap_cases.jsonl.gz', 'program_cases_2.jsonl.gz']
    for n in names: (tmp_path/n).write_bytes(b'')
    assert sorted(p.name for p, _ in suites(tmp_path)) == sorted({*names} - {'FD CB __ FF.json', 'notes.json', 'sst_z80_dev50_trace.npz', 'other.com', 'game.tap'})

@pytest.mark.parametrize('name, data', [('00.json', b'{'), ('00.json', b'[{"name": 1}]'), ('sst_z80_x.npz', b'junk'), ('gap_cases.jsonl.gz', b'junk'), ('gap_cases.jsonl.gz', gzip.compress(b'{}', mtime=0))])
def test_files_that_are_not_what_they_say(tmp_path, capsys, name, data):
    (tmp_path/name).write_bytes(data)
    assert conform(tmp_path) == 2
    err = capsys.readouterr().err
    assert name in err and err.count('\n') == 1
