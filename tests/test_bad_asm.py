"What the assembler and the disassembler refuse: each message says what is wrong and where, nothing is read from or written to where it should not be, and nothing hangs."
import os, re, time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from z80lit.asm import AsmError, assemble, assemble_source
from z80lit.isa import disassemble

REFUSED = [
    ('nop\n  jr nowhere', 2, 6, 'nowhere is not defined'), ('ld a,FFh', 1, 6, 'FFh is not defined'), ('ds n : n equ 1', 1, 4, 'n is not defined'),
    ('frob', 1, 1, 'frob is no instruction'), ('nop : lod a,b', 1, 7, 'lod is no instruction'), ('5 nop', 1, 1, '5 is no instruction'), ('(nop)', 1, 1, r'\( is no instruction'),
    ('ld', 1, 3, 'takes more'), ('ld a', 1, 5, 'takes more'), ('ld a,', 1, 6, 'missing'), ('ld ,a', 1, 4, 'missing'), ('ld a,,b', 1, 6, 'missing'),
    ('nop 5', 1, 5, 'does not take'), ('ld a,b,c', 1, 8, 'does not take'), ('ld (de),b', 1, 9, 'does not take'), ('ld hl,de', 1, 7, 'does not take'), ('push sp', 1, 6, 'does not take'),
    ('ld a,(b)', 1, 6, 'does not take'), ('jr pe,5', 1, 4, 'does not take'), ('ld ixh,h', 1, 8, 'does not take'), ("ex af,af", 1, 7, 'does not take'),
    ('ld (ix+1),ixh', 1, 11, 'does not take'), ('add a,(5)', 1, 7, 'does not take'), ('rlc (hl),b', 1, 10, 'does not take'), ('ld (hl),(hl)', 1, 9, 'does not take'),
    ('ld a,256', 1, 6, '256 does not fit a byte'), ('ld a,-129', 1, 6, '-129 does not fit'), ('db 1,300', 1, 6, '300 does not fit'), ('ds 1,256', 1, 6, 'does not fit'), ('out (256),a', 1, 6, 'does not fit'),
    ('ld a,(ix+128)', 1, 9, '128 does not fit a displacement'), ('ld a,(ix-129)', 1, 9, '-129 does not fit'), ('ld (iy+1),256', 1, 11, '256 does not fit a byte'),
    ('jr $+130', 1, 4, '128 does not fit'), ('djnz $-127', 1, 6, '-129 does not fit'), ('x: ds 200\njr x', 2, 4, '-202 does not fit'),
    ('bit 8,a', 1, 5, '8 does not fit'), ('bit -1,a', 1, 5, 'does not fit'), ('im 3', 1, 4, '3 does not fit'), ('rst 1', 1, 5, '1 does not fit'), ('out (c),1', 1, 9, '1 does not fit'),
    ('x:\nx:', 2, 1, 'x is defined twice'), ('x: nop\nX equ 1', 2, 1, 'X is defined twice'), ('hl: nop', 1, 1, 'hl is a register'), ('b equ 1', 1, 1, 'b is a register'),
    ('x equ y : y equ x\n dw x', 1, 17, 'x leads to itself'), ('x equ x', 1, 7, 'leads to itself'), ('equ 5', 1, 1, 'EQU has no name'), ('x equ', 1, 3, '0 operands'), ('x equ nope', 1, 7, 'nope is not'),
    ('ld a,1+', 1, 8, 'missing'), ('ld a,*2', 1, 6, 'no value'), ('ld a,1 2', 1, 8, 'does not belong'), ('ld a,b+1', 1, 6, 'b is a register'), ('ld a,(1', 1, 6, 'not closed'), ('ld a,1)', 1, 7, 'does not belong'),
    ('ld a,5+(1', 1, 8, 'not closed'), ('ld a,()', 1, 7, 'missing'), ('ld a,(ix+)', 1, 10, 'missing'), ('ld a,(ix*2)', 1, 7, 'register'), ('dw hl', 1, 4, 'hl is a register'),
    ('ld a,1/0', 1, 7, 'division by zero'), ('db 12x', 1, 4, '12x is no number'), ('db 0x', 1, 4, 'no number'), ('db 2b', 1, 4, '2b is no'),
    ("ld a,'ab'", 1, 6, 'no single character'), ("ld a,''", 1, 6, 'no single character'), ("ld a,'é'", 1, 6, 'not all ASCII'), ("db 'éa'", 1, 4, 'not all ASCII'), ("ld a,'x", 1, 6, 'does not end'), ('db "x', 1, 4, 'does not end'),
    ('ld a,@', 1, 6, "'@' means nothing"), ('ld\xa0a,1', 1, 3, 'means nothing'), ('db #', 1, 4, 'means nothing'),
    ('nop\norg 0', 2, 5, 'ORG goes back'), ('org', 1, 1, '0 operands'), ('org 1,2', 1, 1, '2 operands'), ('org later\nlater:', 1, 5, 'later is not defined'), ('ds', 1, 1, '0 operands'), ('db', 1, 3, 'DB without'), ('dw', 1, 1, '0 operands'),
    ('ds 65535 : ds 2', 1, 12, 'out of memory'), ('org 0FFFFh\nld a,1', 2, 1, 'out of memory'),
    # overflow, and what is no number of anything
    ('ld hl,65536', 1, 7, '65536 does not fit a word'), ('ld hl,-32769', 1, 7, 'does not fit a word'), ('dw 300*300', 1, 4, '90000 does not fit'), ('db 0FFFFh', 1, 4, '65535 does not fit a byte'), ('ld hl,' + '9'*9999, 1, 7, 'more than 32 bits'),
    ('dw 0FFFFFFFFh+1', 1, 14, 'more than 32 bits'), ('dw 1<<40', 1, 5, 'more than 32 bits'), ('dw 1<<(1<<31)', 1, 5, 'more than 32 bits'), ('db 5 mod 0', 1, 6, 'division by zero'), ('db 5 % (1-1)', 1, 6, 'division by zero'),
    ('ds -1', 1, 4, '-1 is no number of bytes'), ('ds 65537', 1, 4, '65537 is no number of bytes'), ('ds 1000000000', 1, 4, 'no number of bytes'), ('nop\nds 65536', 2, 1, 'out of memory'), ('org -1', 1, 5, '-1 is no address'), ('org 65536', 1, 5, 'no address'),
    ('rept -1\nendr', 1, 6, '-1 is no number of times'), ('rept 1000000000\nnop\nendr', 1, 6, '1000000000 is no number of times'), ('jp 65536', 1, 4, 'does not fit a word'), ('jr 65536', 1, 4, 'does not fit a word'), ("ld a,(ix+'~'+3)", 1, 9, '129 does not fit'),
    # strings
    (r'db "\q"', 1, 5, r'\\q stands for nothing'), (r'db "ab\1"', 1, 7, r'\\1 stands'), (r'db "\x4"', 1, 5, r'\\x stands'), ('db "a\\"', 1, 4, 'does not end'), ("db 'it's'", 1, 9, 'does not end'), (r'ld a,"\n\n"', 1, 6, 'no single character'), ("dw 'ab'", 1, 4, 'no single character'),
    # operators and words
    ('nop ! nop', 1, 5, 'does not take this operand'), ('db %2', 1, 4, '% is no value'), ('db 1 = ', 1, 7, 'missing'), ('db and 5', 1, 4, 'and is an operator'), ('low: nop', 1, 1, 'low is an operator'), ('ld a,not 5', 1, 6, 'NOT means ~ to some'), ('db 1 <> 2', 1, 7, '> is no value'),
    ('p: nop', 1, 1, 'p is a condition'), ('db nz', 1, 4, 'nz is a condition'), ('ld equ 5', 1, 1, 'ld has a meaning already'), ('x: y', 1, 4, 'y is no instruction'), ('.x: nop\n.x: nop', 2, 1, '.x is defined twice'), ('a1: jr .x\n.x: nop\nb1: jr .x', 3, 8, '.x is not defined'), ('jr a1.x\na1:', 1, 4, 'a1.x is not'),
    ('x1 defl 1\nx1 equ 2', 2, 1, 'x1 is defined twice'), ('x1 equ 1\nx1 defl 2', 2, 1, 'x1 is defined twice'), ('x1 defl y1\ny1:', 1, 9, 'y1 is not defined above'), ('defl 5', 1, 1, 'DEFL has no name'), ('db x1\nx1 defl 1', 1, 4, 'x1 is not defined'),
    # blocks
    ('if 1', 1, 1, 'if is not closed'), ('nop\n if 1\n else', 3, 2, 'else is not closed'), ('endif', 1, 1, 'endif closes nothing'), ('else', 1, 1, 'else closes nothing'), ('if 1\nelse\nelse\nendif', 3, 1, 'else closes nothing'), ('if 1\nendm', 2, 1, 'endm closes nothing'),
    ('endr', 1, 1, 'endr closes nothing'), ('rept 2\nif 1\nendr\nendif', 3, 1, 'endr closes nothing'), ('rept 2\nnop', 1, 1, 'rept is not closed'), ('mm macro\nnop', 1, 4, 'macro is not closed'), ('mm macro\nif 1\nendm', 3, 1, 'endm closes nothing'),
    ('if\nendif', 1, 1, '0 operands for if'), ('if 1,2\nendif', 1, 1, '2 operands'), ('if later\nendif\nlater:', 1, 4, 'later is not defined above'), ('if 1\nelse 5\nendif', 2, 1, '1 operands for else'), ('if 1\nendif x', 2, 1, '1 operands for endif'), ('ifdef\nendif', 1, 6, 'ifdef needs a name'), ('ifdef 5\nendif', 1, 8, 'needs a name'),
    ('x1 if 1\nnop', 1, 4, 'if is not the first word'), ('rept\nendr', 1, 1, '0 operands'), ('rept 1,2\nendr', 1, 8, 'REPT counts with a name'), ('rept 1,k,2\nendr', 1, 1, '3 operands'), ('rept 1,a\nendr', 1, 8, 'a is a register'), ('rept later\nendr\nlater:', 1, 6, 'later is not'),
    # macros
    ('mm macro\nendm\nmm 5', 3, 1, '1 arguments for the macro mm'), ('mm macro q1,q2\nendm\nmm 5', 3, 1, '1 arguments'), ('mm macro q1\nendm\nmm <5', 3, 4, 'this < is not closed'), ('mm macro q1\nendm\nmm ,', 3, 4, 'missing'), ('mm macro\nendm\nmm macro\nendm', 3, 1, 'mm has a meaning already'),
    ('macro\nendm', 1, 1, 'MACRO needs a new name'), ('macro 5\nendm', 1, 7, 'MACRO needs'), ('macro ld\nendm', 1, 7, 'MACRO needs'), ('mm macro q1,q1\nendm', 1, 10, 'no parameters'), ('mm macro 5\nendm', 1, 10, 'no parameters'), ('mm macro q1 q2\nendm', 1, 10, 'no parameters'), ('mm macro b\nendm', 1, 10, 'b is a register'),
    ('mm\nmm macro\nendm', 1, 1, 'mm is no instruction'), ('mm macro\nx1: nop\nendm\nmm\nmm', 2, 1, 'x1 is defined twice'), ('local x1', 1, 1, 'LOCAL outside'), ('rept 1\nlocal 5\nendr', 2, 7, 'LOCAL needs names'), ('rept 1\nlocal ld\nendr', 2, 7, 'LOCAL needs'), ('rept 1\nlocal x1\njr x1\nendr\nx1:', 3, 4, 'x1 is not defined'),
    ('mm macro\nmm\nendm\nmm', 2, 1, 'mm is more than 64 calls deep'), ('mm macro\nmm\nmm\nendm\nmm', 2, 1, '64 calls deep'), ('mm macro q1\nmm <q1,q1>\nendm\nmm 1', 4, 1, 'more than 500,000 tokens'),
    # what is wrong in a macro: an argument is blamed where it was given
    ('mm macro q1\nld q1,5\nendm\nnop : mm ix5', 4, 7, 'does not fit|does not take'), ('mm macro q1\nld a,300\nld b,q1\nendm\nmm 1', 2, 6, '300 does not fit'), ('mm macro q1\nnn q1\nendm\nnn macro q1\nld a,q1\nendm\n mm 300', 7, 2, '300 does not fit'), ('irp q1,1,300\ndb q1\nendm', 1, 1, '300 does not fit'),
    ('rept 2,k\ndb k+255\nendr', 2, 4, '256 does not fit'), ('irp', 1, 1, 'irp is not closed'), ('irp\nendm', 1, 4, 'IRP needs a name'), ('irp 5,1\nendm', 1, 8, 'IRP needs'), ('irp b,1\nendm', 1, 5, 'b is a register'), ('irp q1,<1\nendm', 1, 8, 'this < is not closed'), ('irp q1,1', 1, 1, 'irp is not closed'), ('irp q1,\nendm', 1, 8, 'missing'),
    # labels that are called like instructions; END, ALIGN and =
    ('halt: ld a,5', 1, 1, 'halt is an instruction'), (' nop\n sub: nop', 2, 2, 'sub is an instruction'), ('call sub : sub: ret', 1, 12, 'sub is an instruction'), ('ld: nop', 1, 1, 'ld is an instruction'), ('ret:', 1, 1, 'ret is an instruction'),
    ('end 1,2', 1, 1, '2 operands for end'), ('end nowhere', 1, 5, 'nowhere is not defined'), ('end 65536', 1, 5, 'does not fit a word'), ('end (', 1, 6, 'missing'), ('if 1\nend', 1, 1, 'if is not closed'),
    ('align', 1, 1, '0 operands'), ('align 3', 1, 7, '3 is no power of two'), ('align 0', 1, 7, '0 is no distance'), ('align 65536', 1, 7, 'no distance'), ('nop\nalign 4,300', 2, 9, '300 does not fit a byte'), ('org 0FFFFh\nnop\nalign 2\nnop', 4, 1, 'out of memory'), ('align x1\nx1:', 1, 7, 'x1 is not defined above'),
    ('x1 =', 1, 4, '0 operands'), ('= 5', 1, 1, '= is no instruction'), ('ld = 5', 1, 1, 'ld has a meaning already'), ('db x1\nx1 = 5', 1, 4, 'x1 is not defined'),
    # phase errors: what was decided would not be true afterwards
    ('x1: nop\n.y: nop\nmm macro\nif .y\nnop\nendif\n.y: nop\nendm\nmm', 4, 4, 'phase error: .y was taken for x1.y'), ('x1: nop\n.y: nop\nrept 1\nds .y\n.y:\nendr', 4, 4, 'phase error'), ('if later < 9\nds 20\nendif\nlater:', 1, 4, 'later is not defined above this line'), ('ds end1-$\nend1:', 1, 4, 'end1 is not defined above'),
    # files that a text may not read
    ('include "x.asm"', 1, 9, 'may not read files'), ('incbin "x.bin"', 1, 8, 'may not read'), ('include', 1, 8, 'a file name is missing'), ('include x.asm', 1, 9, 'a file name is missing'), ('include "a","b"', 1, 16, 'name is missing'), ('incbin', 1, 7, 'a file name is missing'), ('incbin "a",1,2,3', 1, 1, '4 operands'),
]

@pytest.mark.parametrize('text, line, column, what', REFUSED, ids=[r[0][:24] for r in REFUSED])
def test_refuses(text, line, column, what):
    for assembling in (assemble, assemble_source):
        with pytest.raises(AsmError, match=what) as caught: assembling(text)
        e = caught.value
        assert (e.line, e.column, e.text, e.file) == (line, column, text.split('\n')[line - 1], '') and e.expected
        message, shown, mark, *calls = str(e).split('\n')
        assert message.startswith(f'line {line}, column {column}: ') and shown[2:] == e.text and mark.index('^') == column + 1
        assert all(call.startswith(('  from line ', '  in line ')) or call == '  ...' for call in calls) and len(calls) <= 9

BAD_FILES = [
    ('include "../secret.asm"', 9, 'outside of the root folder'), ('include "lib/../../secret.asm"', 9, 'outside of the root'), ('incbin "{outside}"', 8, 'outside of the root'), ('include "link.asm"', 9, 'outside of the root'), ('incbin "linked/secret.asm"', 8, 'outside of the root'),
    ('include "none.asm"', 9, 'is not there'), ('include "lib"', 9, 'is no file'), ('include ""', 9, 'is no file'), ('include "loop.asm"', 9, 'cannot be read'), ('include "{long}"', 9, 'cannot be read'), ('include "a\0b"', 9, 'cannot be read'), ('include "\ud800"', 9, 'cannot be read'),
    ('include "main.asm/x"', 9, 'is not there'), ('incbin "d.bin",5', 16, '5 is no number of bytes in this file'), ('incbin "d.bin",-1', 16, '-1 is no number'), ('incbin "d.bin",1,4', 18, '4 is no number'), ('incbin "d.bin",later\nlater:', 16, 'later is not defined above'), ('include "big.asm"', 9, 'more than 16 MiB'),
    ('include "pipe"', 9, 'is no file'), ('org 65530\nincbin "d.bin"\nincbin "d.bin"', 1, 'out of memory')]

@pytest.mark.parametrize('text, column, what', BAD_FILES, ids=[w for _, _, w in BAD_FILES])
def test_files_that_are_refused(tmp_path, text, column, what):
    "Nothing outside of the root folder is read, by whatever name; and nothing is written"
    root = tmp_path/'root'
    (root/'lib').mkdir(parents=True)
    for name, content in (('../secret.asm', 'nop'), ('main.asm', 'nop'), ('d.bin', '0123')): (root/name).write_text(content)
    for name, to in (('link.asm', '../secret.asm'), ('linked', '..'), ('loop.asm', 'loop.asm')): (root/name).symlink_to(to)
    os.mkfifo(root/'pipe')
    with open(root/'big.asm', 'wb') as f: f.truncate((1 << 24) + 1)
    before = sorted((p, p.lstat().st_mtime_ns) for p in tmp_path.rglob('*'))
    text = text.replace('{outside}', str(tmp_path/'secret.asm')).replace('{long}', 'x'*5000)
    with pytest.raises(AsmError, match=what) as caught: assemble_source(text, root=root)
    assert caught.value.column == column and caught.value.line == 1 + (text.count('\n') if what == 'out of memory' else 0)
    assert sorted((p, p.lstat().st_mtime_ns) for p in tmp_path.rglob('*')) == before

def test_outside_is_read_when_allowed(tmp_path):
    (tmp_path/'p').mkdir()
    (tmp_path/'d.bin').write_bytes(b'!')
    (tmp_path/'p'/'main.asm').write_text('incbin "../d.bin"')
    with pytest.raises(AsmError, match='outside'): assemble_source(tmp_path/'p'/'main.asm')
    assert assemble_source(tmp_path/'p'/'main.asm', root=tmp_path).code == b'!'

def test_files_within_files_come_to_an_end(tmp_path):
    "A file that includes itself, once and twice, and two that include each other"
    for name, text in (('one.asm', 'include "one.asm"'), ('two.asm', 'include "two.asm"\n'*2), ('ping.asm', 'include "pong.asm"'), ('pong.asm', ' include "ping.asm"')): (tmp_path/name).write_text(text)
    for name in ('one', 'two', 'ping'):
        with pytest.raises(AsmError, match='include is more than 64 calls deep') as caught: assemble_source(tmp_path/f'{name}.asm')
        assert len(caught.value.trace) == 64 and '\n  ...\n' in str(caught.value) and str(caught.value).count('\n') == 11
    (tmp_path/'wide.asm').write_text('x1 defl 0\nmm macro q1\nif q1\ninclude "data.inc"\nmm q1-1\nmm q1-1\nendif\nendm\nmm 30')
    (tmp_path/'data.inc').write_text('; nothing\n'*100)
    start = time.process_time()
    with pytest.raises(AsmError, match='500,000 tokens'): assemble_source(tmp_path/'wide.asm')
    assert time.process_time() - start < 10

@pytest.mark.parametrize('call, error, what', [
    (lambda: assemble(b'NOP'), TypeError, 'takes source text .str., not bytes'), (lambda: assemble(None), TypeError, 'not NoneType'), (lambda: assemble(5), TypeError, 'not int'), (lambda: assemble(['NOP']), TypeError, 'not list'), (lambda: assemble(Path('x.asm')), TypeError, 'not PosixPath|not WindowsPath'),
    (lambda: assemble('NOP', '0'), TypeError, "origin is a number, not '0'"), (lambda: assemble('NOP', None), TypeError, 'origin'), (lambda: assemble('NOP', 1.5), TypeError, 'origin'), (lambda: assemble('NOP', -1), ValueError, 'origin is an address, 0 to 65535, not -1'), (lambda: assemble('NOP', 65536), ValueError, '65536'),
    (lambda: assemble_source(b'NOP'), TypeError, 'a text .str. or a Path, not bytes'), (lambda: assemble_source(None), TypeError, 'not NoneType'), (lambda: assemble_source('NOP', 1 << 20), ValueError, 'origin'), (lambda: assemble_source(Path('nowhere/none.asm')), FileNotFoundError, 'none.asm'), (lambda: assemble_source(Path(__file__).parent), OSError, 'tests'),
    (lambda: assemble_source('NOP', defines={'1x': 1}), ValueError, "'1x' is no name"), (lambda: assemble_source('NOP', defines={'': 1}), ValueError, 'no name'), (lambda: assemble_source('NOP', defines={5: 1}), ValueError, '5 is no name'), (lambda: assemble_source('NOP', defines={'hl': 1}), ValueError, "'hl' has a meaning"),
    (lambda: assemble_source('NOP', defines={'Nop': 1}), ValueError, "'Nop' has a meaning"), (lambda: assemble_source('NOP', defines={'defm': 1}), ValueError, 'has a meaning'), (lambda: assemble_source('NOP', defines={'x': '1'}), ValueError, "x is defined as a number of at most 32 bits, not as '1'"),
    (lambda: assemble_source('NOP', defines={'x': 1 << 32}), ValueError, '32 bits'), (lambda: assemble_source('NOP', defines={'x': 1, 'X': 2}), ValueError, 'x, X'), (lambda: assemble_source('x equ 1', defines={'X': 2}), AsmError, 'x is defined twice; expected a name other than those given as defines'),
    (lambda: disassemble('3E08'), TypeError, "'3E08' is text"), (lambda: disassemble(None), TypeError, 'not NoneType'), (lambda: disassemble(5), TypeError, 'not int'), (lambda: disassemble([0, 256]), ValueError, '256, at index 1, is no byte'), (lambda: disassemble([-1]), ValueError, '-1, at index 0'),
    (lambda: disassemble([1, 2, 'x']), ValueError, "'x', at index 2"), (lambda: disassemble([1.0]), ValueError, '1.0, at index 0'), (lambda: disassemble(np.array([1000])), ValueError, '1000'), (lambda: disassemble(np.zeros((2, 2))), ValueError, 'at index 0'), (lambda: disassemble([None]), ValueError, 'None, at index 0'),
    (lambda: disassemble(b'', -1), ValueError, 'origin -1 is not in 0..65535'), (lambda: disassemble(b'', 65536), ValueError, '65536'), (lambda: disassemble(b'', 'x'), TypeError, "origin is a number, not 'x'"), (lambda: disassemble(b'', None), TypeError, 'origin')])
def test_arguments_that_are_refused(call, error, what):
    with pytest.raises(error, match=what) as caught: call()
    assert type(caught.value) is error or issubclass(error, OSError)

# Whatever the text, there are bytes or an error that points into it, and soon

def survives(text, **options):
    "Bytes, or an AsmError that points into the text"
    start = time.process_time()
    try:
        a = assemble_source(text, **options)
        assert isinstance(a.code, bytes) and isinstance(a.listing + a.symbol_table + a._repr_markdown_(), str)
        assert sum(len(line.code) for line in a.lines) <= len(a.code)
    except AsmError as e:
        assert e.text in text and str(e) and 1 <= e.column <= len(e.text) + 1 and e.what and e.expected and e.text == re.split(r'\r\n?|\n', text)[e.line - 1]
        assert str(e).startswith(f'line {e.line}, column {e.column}: ')
    assert time.process_time() - start < 10

@settings(max_examples=500, deadline=None)
@given(st.text(max_size=200))
def test_any_text(text): survives(text)

WORDS = [*"()+-*/~,:;\\$#%'\"@<>=!&|^. \n\t\0", *"ld add jr djnz bit rlc set ex jp call rst im in out org equ db dw ds nop a b hl ix iy af af' (hl) (ix+ nz c x y 5 0ffh $1F %1 0b1 'q' 99999 -1 high mod shl".split()]
LINES = [*'if else endif rept endr mm defl local end align irp ='.split(), 'irp x,1,<2,y>', 'align 4', 'end x', 'mm macro', 'mm macro x', 'macro mm x,y', 'endm', 'mm 1', 'mm <1,2>', 'rept 3', 'rept 2, k', 'local x', 'x:', '.x:', 'djnz .x', 'jr x', 'db x', 'db k', 'x equ y', 'y defl 5', 'y defl y+1', 'if x',
         'if y > 3', 'ifdef x', 'ifndef .x', 'ds x', 'ds 3', 'org 10', 'include "x"', 'incbin "x"', 'y: nop', 'x.x: nop', 'dw x.x', 'ld (ix+y),x']

@settings(max_examples=1000, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=30), st.sampled_from(['', ' ']))
def test_any_words(words, between): survives(between.join(words))

@settings(max_examples=1500, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=20), st.sampled_from(['\n', '\n ', ' : ', '\r']))
def test_any_lines(lines, between): survives(between.join(lines))

@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(LINES + ['mm macro\nmm\nendm', 'rept 300', 'mm macro x\nmm <x,x>\nendm']), min_size=10, max_size=40).map('\n'.join), st.dictionaries(st.sampled_from('xyk'), st.integers(-5, 70000)))
def test_any_blocks(text, defines):
    "Closed at the end, so that more of them are read"
    opened = [w.split()[0] if w.split()[:1] != ['mm'] else 'macro' for w in text.split('\n') if re.match('(if|rept|irp|macro|mm macro)', w)]
    closes = {'if': 'endif', 'ifdef': 'endif', 'ifndef': 'endif', 'rept': 'endr', 'irp': 'endm', 'macro': 'endm'}
    survives('\n'.join([text, *(closes[w] for w in reversed(opened))]), defines=defines)

PROGRAMS = [p.read_text() for p in sorted((Path(__file__).resolve().parent.parent/'nbs'/'programs').glob('*.asm'))]

@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PROGRAMS), st.lists(st.tuples(st.floats(0, 1), st.sampled_from(['', *WORDS, *LINES])), min_size=1, max_size=4))
def test_broken_programs(text, changes):
    "A real program with a line lost or changed"
    lines = [line for line in text.split('\n') if 'include' not in line]
    for where, what in changes: lines[int(where*(len(lines) - 1))] = what
    survives('\n'.join(lines), defines={'tpa': 0x100})

@settings(max_examples=500, deadline=None)
@given(st.one_of(st.none(), st.text(), st.integers(), st.floats(), st.binary(), st.lists(st.one_of(st.integers(-10, 300), st.none(), st.text(max_size=2)))), st.one_of(st.integers(-10, 70000), st.none(), st.text(max_size=2), st.floats()))
def test_disassemble_anything(code, origin):
    "Instructions that cover every byte, or a TypeError or ValueError with a word to say"
    try: assert b''.join(i.code for i in disassemble(code, origin)) == bytes(code)
    except (TypeError, ValueError) as e: assert re.search('disassemble takes|is no byte|origin', str(e))

ENDLESS = [
    'ld a,' + '('*50_000, 'db ' + '('*50_000 + '1' + ')'*50_000, 'db ' + '-'*50_000 + '1', 'db ' + '+'.join('1'*50_000), 'db 1' + ',1'*50_000,
    ':'*50_000, 'x:'*50_000, "'"*50_001, 'nop '*20_000, 'ds 65535\n'*1000, 'dw ' + '9*'*50_000 + '9', 'a'*50_000, '.'.join('a'*50_000), 'x' + '.x'*30_000 + ':', 'db ' + '!'*50_000 + '1', 'db "' + '\\"'*50_000, 'db "' + '\\\\'*30_000 + '"', 'db ' + 'high '*20_000 + '1',
    '\n'.join(f'x{i} equ x{i+1}+x{i+1}' for i in range(5000)), '\n'.join(f'x{i} equ x{i-1}+x{i-1}' for i in range(5000)), 'x0 equ 1\n' + '\n'.join(f'x{i} equ x{i-1}+x{i-1}' for i in range(1, 5000)),
    'if 1\n'*9_000 + 'endif\n'*9_000, 'if 1\n'*20_000, 'if 0\n' + 'else\n'*20_000, 'rept 2\n'*40 + 'nop\n' + 'endr\n'*40, 'rept 65536, k\nds 0,(k+k+k+k)\nendr', 'x1 defl 0\n' + 'x1 defl x1+1\n'*5_000,
    'mm macro\nmm\n.x: ld a,.y+.y+.y\nendm\nmm', '\n'.join(['rept 2']*20 + [' dw .x+.x'] + ['endr']*20), '\n'.join(f'm{i} macro\nm{i+1}\nm{i+1}\nendm' for i in range(60)),
    'm60 macro\nendm\n' + '\n'.join(f'm{i} macro\nm{i+1}\nm{i+1}\nendm' for i in range(59, 0, -1)) + '\nm1', 'mm macro\n'*5000 + 'endm\n'*5000 + 'mm\n'*70, 'mm macro ' + ','.join(f'p{i}' for i in range(20_000)) + '\nendm\nmm ' + ','.join('1'*20_000),
    'mm macro q1\nendm\nmm ' + '<1>,'*20_000 + '1', 'rept 2\nlocal ' + ','.join(f'x{i}' for i in range(20_000)) + '\nendr']

@pytest.mark.parametrize('text', ENDLESS, ids=lambda text: text[:12])
def test_never_hangs(text): survives(text)
