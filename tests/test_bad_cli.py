"What the `z80lit` command refuses: each line of the table names what is wrong and where, on the error stream alone, writes nothing, and leaves with status 2, or 1 where a program failed its job."
import os

import pytest
from typer.testing import CliRunner

from z80lit.cli import app

FILES = {
    'good.asm': b'start: LD A,8\n HALT\n', 'bad.asm': b'NOP\nLD A,Q\n', 'empty.asm': b'', 'comment.asm': b'; nothing\n', 'latin.asm': b'NOP\n; caf\xe9\n', 'long.asm': b' LD A,' + b'x'*5000 + b'\n', 'include.asm': b'include "../secret.inc"\n',
    'gone.asm': b'include "gone.inc"\n', 'empty.bin': b'', 'large.bin': bytes(65537), 'nul.bin': b'\0', 'odd.hex': b'3E 0', 'letters.hex': b'xyz\n', 'sum.hex': b':0100000076FF\n:00000001FF\n', 'cut.hex': b':010000007689\n', 'high.hex': b':02000004000\xff\n',
    'upper.hex': b':020000040001F9\n:010000007689\n:00000001FF\n', 'twice.hex': b':010000007689\n:010000007689\n:00000001FF\n', 'none.hex': b':00000001FF\n', 'good.hex': b':010000007689\n:00000001FF\n',
    'large.com': bytes(64769), 'empty.com': b'', 'halt.com': b'\x76', 'loop.com': b'\x18\xfe', 'ask.com': bytes.fromhex('0E01CD050018F9'), 'drive.com': bytes.fromhex('3E0932 5C00 0E0F 115C00 CD0500 C9'.replace(' ', '')),
    'damaged.txt': b':0400', 'high.txt': b':01000000\xff', 'main.asm': b'include "part.inc"\nincbin "data.bin"\n', 'part.inc': b' NOP\n', 'data.bin': b'x', 'macro.asm': b'mm macro q1\n ld a,q1\n endm\n mm 300\n',
    'table.csv': b'program,spec\nNOP\n', 'words.csv': b'name,text\na,b\n', 'broken.json': b'[{"program": ', 'z.json': b'{"a": 1}', 'other.txt': b'hello'}

SPEC = '--spec', 'A -> A'
CASES = [
    # where the input comes from
    ('asm', 'give one of FILE'), ('dis', 'give one of FILE'), ('run', 'give one of FILE'), ('trace', 'give one of FILE'), ('time', 'give one of FILE'), ('verify', 'give one of FILE'),
    ('asm good.asm -c NOP', 'give one of FILE'), ('asm none.asm', 'none.asm: No such file'), ('dis none.bin', 'none.bin: No such file'), ('run none.asm', 'none.asm: No such file'), ('run none.com', 'none.com: No such file'), ('verify none.csv', 'none.csv: No such file'),
    ('asm folder', 'folder: Is a directory'), ('run .', '.: Is a directory'), (['asm', ''], 'Is a directory'), (['asm', 'a\0b'], 'null'), (['asm', 'a\nb'], 'a\\nb: No such file'), (['dis', 'x'*5000], 'File name too long'), ('asm -c', 'requires an argument'),
    # what it holds
    ('asm bad.asm', 'bad.asm:2:6: Q', "'LD A,Q'"), ('run bad.asm', 'bad.asm:2:6: Q'), ('trace bad.asm', 'bad.asm:2:6: Q'), ('time bad.asm', 'bad.asm:2:6: Q'), (['asm', '-c', 'LD A,8 : LD A,Q'], '-c:1:15: Q'), ('asm latin.asm', 'latin.asm: byte 9 is not text'),
    ('asm long.asm', 'long.asm:1:7: xxx', ' ... '), ('asm include.asm', 'include.asm:1:9: '), ('asm gone.asm', 'gone.asm:1:9: ', 'gone.inc'), ('run gone.asm', 'gone.asm:1:9: '),
    ('asm empty.asm', 'empty.asm: there is no code in it'), ('asm comment.asm', 'comment.asm: there is no code'), (['asm', '-c', ''], '-c: there is no code'), (['dis', '-c', ''], '-c: there is no code'), ('dis empty.bin', 'empty.bin: there is no code'), ('run empty.asm', 'empty.asm: there is no code'),
    ('run empty.bin', 'empty.bin: there is no code'), ('run empty.com', 'empty.com: there is no code'), ('trace empty.bin', 'there is no code'), ('time empty.bin', 'there is no code'), ('dis none.hex', 'none.hex: there is no code'), ('dis empty.asm', 'empty.asm: there is no code'), ('dis -', '<stdin>: there is no code'), ('run -', '<stdin>: there is no code'), ('asm -', '<stdin>: there is no code'),
    ('dis good.asm', 'good.asm: dis reads machine code, and this is text'), ('dis --from asm good.asm', 'dis reads machine code'), ('dis other.txt', 'other.txt: dis reads machine code'), ('dis damaged.txt', 'damaged.txt: dis reads'), ('run high.txt', 'high.txt: no Intel HEX'), ('dis large.bin', 'large.bin: 65,537 bytes do not fit at 0'), ('run large.bin', 'large.bin: 65,537 bytes do not fit at 0'), ('run large.com', 'large.com: 64,769 bytes do not fit'),
    ('dis nul.bin --origin 10000h', '--origin: 10000h is more than 0FFFFh'), (['dis', '-c', '00 00', '--origin', 'FFFFh'], "--origin: 'FFFFh' is no number"), (['dis', '-c', '00 00', '--origin', '0FFFFh'], '2 bytes do not fit at 0FFFFh'), (['run', '-c', 'ORG 0FFFFh : NOP : NOP'], '-c:1:', 'memory'),
    ('dis odd.hex', 'odd.hex: an odd number of hex digits'), ('dis --from hex letters.hex', 'letters.hex: not hex digits'), (['dis', '-c', 'xyz'], '-c: not hex digits'), (['dis', '-c', '3E 0'], '-c: an odd number'), (['run', '--from', 'hex', '-c', '7'], '-c: an odd number'),
    ('dis sum.hex', 'sum.hex: no Intel HEX (Record at line 1 has invalid checksum)'), ('run cut.hex', 'cut.hex: the last record of Intel HEX is missing'), ('dis twice.hex', 'twice.hex: no Intel HEX', 'line 2'), ('dis upper.hex', 'upper.hex: 1 bytes do not fit at 10000h'),
    ('dis --from ihex other.txt', 'other.txt: no Intel HEX', 'line 1'), ('run high.hex --from ihex', 'high.hex: no Intel HEX'), ('dis good.hex --origin 100h', '--origin: good.hex is Intel HEX'), ('run --from cake good.asm', '--from', 'cake'),
    # what is made of it
    ('asm good.asm --to cake', '--to', 'cake'), ('asm good.asm -o folder', 'folder: not the name of a file'), ('asm good.asm -o none/a.bin', 'none/a.bin: No such file'), ('asm good.asm -o good.asm', 'good.asm: this is the source itself'), ('asm good.asm --listing good.asm', 'this is the source itself'),
    ('asm good.asm -o a.bin --listing a.bin', 'a.bin: named twice'), ('asm main.asm -o part.inc', 'part.inc: this is the source itself, or a part of it'), ('asm main.asm --listing data.bin', 'data.bin: this is the source itself'), ('asm main.asm --symbols folder/../part.inc', 'part of it'),
    ('asm good.asm -o - --listing -', '-o and --listing: only one of them can have the output'), ('asm good.asm --symbols - --json', '--symbols and --json: only one'), ('asm good.asm --json --to bin', '--to: with --json there is nothing else to make'), ('conform good.asm --record -', '-: not the name of a file'),
    ('optimise A->A*3 --live A', '--live: this is for a program'), ('optimise A->A*3 --origin 0', '--origin: this is for a program'), ('optimise good.asm --free B', '--free: this is for a specification'), ('optimise good.asm --budget 3', '--budget: this is for a spec'), ('time good.asm --limit 9', '--limit: without registers or memory nothing is run'),
    ('verify table.csv --clobbers F', '--clobbers: without --spec'), ('verify table.csv --method smt', '--method: without --spec'), ('reproduce --study changes --out folder --seed 3', '--seed: a study has its own'), ('asm good.asm -o a.bin --symbols none/a.sym', 'none/a.sym: No such file'), ('asm good.asm -o a.com --origin 200h', 'a.com: a .com program begins at 100h, this one at 200h'), ('asm good.asm -o', 'requires an argument'),
    ('asm bad.asm -o a.bin --listing a.lst --symbols a.sym', 'bad.asm:2:6'), ('asm good.asm --root none', '--root: none: no such folder'), ('asm good.asm -D x', "-D: 'x' is not of the form NAME=VALUE"), ('asm good.asm -D x=y', "-D x: 'y' is no number"), ('asm good.asm -D 1x=2', "'1x'"), ('asm good.asm -D A=2', "'A'"), ('asm good.asm -D x=-y', "'y' is no number"), ('asm good.asm -D x=-100000000h', 'is more than'), (['asm', '-c', 'halt: LD A,5'], '-c:1:1: halt is an instruction', 'a blank before the colon'), (['asm', '-c', 'include "x"'], 'a folder (the root) that it may read'), ('asm macro.asm', 'macro.asm:4:2: 300 does not fit a byte', '(in macro.asm, line 2, column 7)'),
    ('asm good.asm --origin x', "--origin: 'x' is no number"), ('asm good.asm --origin -1', '--origin', '-1'), (['asm', 'good.asm', '--origin', '9'*4000], '--origin: 999', ' ... '), ('asm good.asm extra', 'extra'), ('asm --nonsense', '--nonsense'), ('cake', 'cake'), ('bench cake', 'cake'),
    # registers, memory, limits
    ('run -c HALT a', 'a: with -c TEXT there is no FILE, and a register is set as in a=3'), ('time -c HALT good.asm', 'good.asm: with -c TEXT there is no FILE'), ('run good.asm a', "register: 'a' is not of the form REGISTER=VALUE"), ('run -c HALT a=', "'a='"), ('run -c HALT =3', "'=3'"), ('run -c HALT a=300', 'register a: 300 is more than 0FFh'), ('run -c HALT hl=65536', 'register hl: 65536 is more than 0FFFFh'), ('run -c HALT a=-1', "register a: '-1' is no number"),
    ('run -c HALT a=FFh', "register a: 'FFh' is no number"), ('run -c HALT im=3', 'register im: 3 is more than 2'), ('run -c HALT cf=2', 'register cf: 2 is more than 1'), ('run -c HALT ab=3', 'register: there is no ab, only B C D'), ('run -c HALT q=1', 'there is no q'), ('run -c HALT wz=1', 'there is no wz'),
    ('run -c HALT halted=1', 'there is no halted'), ('run -c HALT keep_q=1', 'there is no keep_q'), ('run -c HALT a=1 a=2', 'a sets what a has set already'), ('run -c HALT hl=1 h=2', 'h sets what hl has set already'), ('run -c HALT f=1 cf=1', 'cf sets what f has set already'), (['run', '-c', 'HALT', 'x'*900 + '=1'], 'there is no xxx', ' ... '),
    ('run good.asm 3', "register: '3' is not of the form"), ('run one two', 'one: No such file'), ('trace -c HALT a=300', 'register a'), ('time -c HALT zz=1', 'there is no zz'), ('run -c HALT -m 9000h', "--memory: '9000h' is not of the form ADDRESS=BYTE,BYTE"), ('run -c HALT -m 9000h=100h', '100h is more than 0FFh'), ('run -c HALT -m 9000h=01020304', '--memory, bytes with commas between them: 01020304 is more than 0FFh'), ('trace -c HALT -m 9000h=1,,2', "'' is no number"), ('run -c HALT -m 9000h=FF', "'FF' is no number; in hex it is 0FFh"),
    ('run -c HALT -m 9000h=xy', "'xy' is no number"), ('run -c HALT -m FFFFh=1', "--memory: 'FFFFh' is no number"), ('run -c HALT -m 0FFFFh=1,2', '--memory: 2 bytes do not fit at 0FFFFh'), ('run -c HALT -m 0=1', '--memory: 0 lies in the program'), ('run -c HALT --limit 0', '--limit', '0'), ('run -c HALT --limit x', '--limit', 'valid integer'),
    ('run -c HALT --limit 1.5', '--limit', 'valid integer'), ('trace -c HALT --limit -5', '--limit', 'greater than or equal to 1'), ('time -c HALT --limit', 'requires an argument'),
    # CP/M
    ('run halt.com --folder none', 'halt.com: none: no such folder'), ('run good.asm --folder folder', '--folder: only a program under CP/M'), ('run --no-cpm halt.com --folder folder', '--folder: only'), ('run halt.com -m 9000h=1', '--memory: a program under CP/M'), ('run --cpm -c NOP --origin 200h', 'begins at 100h, this one at 200h'),
    ('run --cpm good.hex', 'good.hex: a program for CP/M begins at 100h, this one at 0'), (['run', 'halt.com', 'x'*130], 'halt.com: the arguments have 131 characters'), (['run', 'halt.com', 'é'], "no character 'É'"), ('run halt.com --folder other.txt', 'other.txt: no such folder'),
    # tables, suites, jobs
    (['verify', '-c', 'LD Q,1', *SPEC], '-c: ', 'expected'), (['verify', '-c', 'NOP', '--spec', 'A >> B'], '->'), (['verify', '-c', 'NOP', '--spec', ''], '-c: '), (['verify', '-c', 'NOP', *SPEC, '--clobbers', 'XX'], 'XX'), (['verify', '-c', 'NOP', *SPEC, '--method', 'guess'], 'guess'), (['verify', '-c', ''], 'there is nothing in it'), (['verify', '-c', 'LD A,(HL)', '--spec', '(HL) -> A=(HL)'], 'memory is written mem[HL]'), (['verify', '-c', 'LD A,44', '--spec', 'A -> 300'], '300 does not fit A: -128 to 255'), (['optimise', '(HL) -> A'], 'memory is written mem[HL]'), (['optimise', 'A -> CF = 2'], '2 does not fit CF'),
    (['verify', '-c', 'NOP', '--spec', 'A -> ' + '+'.join(['A']*5000)], 'too deep'), (['write', ''], "'' has no arrow"), (['write', 'A -> 300'], '300 does not fit A'),
    ('verify words.csv', 'words.csv: '), ('verify broken.json', 'broken.json: '), ('verify z.json', 'z.json: '), ('verify latin.asm', 'latin.asm: byte 9 is not text'), (['verify', 'empty.asm'], 'empty.asm: there is nothing'),
    ('conform', 'PATH'), ('conform nowhere', 'nowhere: no such file or folder'), ('conform folder', 'folder: no test suite'), ('conform other.txt', 'other.txt: no test suite'), ('conform good.asm --record none/r.jsonl', 'none/r.jsonl: No such file'), ('reproduce --seed x', '--seed', 'valid integer'), ('reproduce --seed -1', '--seed', 'greater than or equal to 0'),
    ('reproduce --epochs 0', '--epochs', '0'), ('reproduce --out other.txt', 'other.txt: not a folder'), ('reproduce --out /proc/z80lit', '/proc/z80lit: No such file'), ('reproduce --device gpu', "--device: no device 'gpu' here, only"), ('bench emulator --rounds 0', '--rounds', '0'), ('bench emulator --zexdoc none.com', '--zexdoc: none.com: no such file'), ('bench design --record none/r.jsonl', 'none/r.jsonl: No such file'), ('info extra', 'extra'),
]

# A program that fails its job has its say first, so here only the status, the message and what is written are looked at.
FAILURES = [
    (['run', '-c', 'JR $'], ''), (['trace', '-c', 'JR $', '--limit', '100'], ''), (['time', '-c', 'JR $', 'a=1', '--limit', '1000'], ''), ('run halt.com', 'halt.com: the program halts at 0100h'), ('run loop.com --limit 1000', 'loop.com: stopped after'), ('run ask.com', 'ask.com: the program waits for input'),
    ('run drive.com --folder folder', 'drive.com: call 15 at 010Ah: drive I: there is only A'), ('run drive.com', 'there is only A'), (['verify', '-c', 'INC A', *SPEC], ''),
]

runner = CliRunner()

def name(case): return case[0] if isinstance(case[0], str) else ' '.join(case[0])[:60]

@pytest.fixture(scope='module')
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp('bad')
    (folder/'folder').mkdir()
    for n, data in FILES.items(): (folder/n).write_bytes(data)
    return folder

def called(args, place, monkeypatch):
    "The result, and whether the folder is as it was"
    monkeypatch.chdir(place)
    r = runner.invoke(app, args.split() if isinstance(args, str) else args, input=b'', prog_name='z80lit')
    return r, {p.name: p.read_bytes() for p in place.iterdir() if p.is_file()} == FILES and os.listdir(place/'folder') == []

def test_there_are_enough(): assert len(CASES) + len(FAILURES) >= 60 and len({name(c) for c in CASES + FAILURES}) == len(CASES) + len(FAILURES)

@pytest.mark.parametrize('case', CASES, ids=name)
def test_refused(case, place, monkeypatch):
    args, *words = case
    r, untouched = called(args, place, monkeypatch)
    assert r.exit_code == 2 and untouched and r.stdout == '', r.output
    said = r.stderr.splitlines()
    assert all(w in r.stderr for w in words), r.stderr
    assert len(r.stderr) < 1000 and (said[0].startswith(('Usage: ', 'Error: ')) or len(said) == 1 and said[0].startswith('z80lit: '))

@pytest.mark.parametrize('case', FAILURES, ids=name)
def test_failed(case, place, monkeypatch):
    args, *words = case
    r, untouched = called(args, place, monkeypatch)
    assert r.exit_code == 1 and untouched and all(w in r.stderr for w in words), r.output

def test_endless_input(place, monkeypatch):
    "A device that never ends is given up"
    if os.path.exists('/dev/zero'): assert '/dev/zero: more than 16 MiB' in called('dis /dev/zero', place, monkeypatch)[0].stderr
    assert '<stdin>: more than 16 MiB' in runner.invoke(app, ['dis', '-'], input=bytes(16*1024*1024 + 1)).stderr

def test_bad_input_from_a_pipe():
    for data, words in (b'NOP\n\xff\xfe', 'byte 4 is not text'), (b'', 'there is no code in it'), (b'NOP\nLD A,Q', '<stdin>:2:6'):
        r = runner.invoke(app, ['asm', '-'], input=data)
        assert r.exit_code == 2 and r.stdout == '' and r.stderr.startswith('z80lit: <stdin>') and words in r.stderr
