"The assembler: every spelling of every instruction there and back, what it takes, names, files, listings and speed. What it refuses is in test_bad_asm.py."
import pickle, random, re, subprocess, sys, time
from itertools import accumulate, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from z80lit.asm import AsmError, Assembly, Place, assemble, assemble_source
from z80lit.isa import disassemble, encode, spell, table

PREFIXES = ['', 'CB', 'ED', 'DD', 'FD', 'DDCB', 'FDCB']
ENTRIES = [op for prefix in PREFIXES for op in table(prefix) if op.mnemonic != 'prefix']
CANONICAL = [op for op in ENTRIES if op.canonical]

# There and back

RANGES = {'n': range(256), 'd': range(-128, 128), 'e': range(-128, 128),
          'nn': [0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xABCD, 0xFFFE, 0xFFFF]}

@pytest.mark.parametrize('prefix', PREFIXES)
def test_every_entry_there_and_back(prefix):
    "Every canonical entry, with every value of a byte or distance; every eighth where there are two, and behind DDCB and FDCB"
    for op in (op for op in CANONICAL if op.prefix == prefix):
        slots = [part for part in op.encoding if isinstance(part, str)]
        step = 8 if len(slots) == 2 or len(prefix) == 4 else 1
        values = [RANGES[s][::step] for s in slots]
        lines, codes = [], []
        for numbers in product(*values):
            numbers = dict(zip(slots, numbers))
            address = 0x4000 + sum(map(len, codes))
            lines.append(spell(op, address=address, **numbers))
            codes.append(encode(op, **numbers))
        code = b''.join(codes)
        assert assemble('\n'.join(lines), 0x4000) == code
        back = disassemble(code, 0x4000)
        assert [i.text for i in back] == lines and [i.code for i in back] == codes
        assert {(i.t, i.t_taken, i.note) for i in back} == {(op.t, op.t_taken, '')}

@pytest.mark.parametrize('op', [op for op in ENTRIES if not op.canonical], ids=lambda op: f'{op.prefix}{op.opcode:02X}')
def test_mirrors_are_bytes_with_a_note(op):
    code = encode(op, n=1, nn=0x1234, d=2, e=3)
    one, = disassemble(code, 0x8000)
    assert (one.t, one.t_taken, one.note) == (op.t, op.t_taken, spell(op, n=1, nn=0x1234, d=2, e=3, address=0x8000))
    assert one.text.startswith('DB ') and assemble(one.text, 0x8000) == code

@settings(max_examples=1000, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 0xFF00))
def test_bytes_there_and_back(code, origin):
    "Any bytes: the disassembly covers them, in order, and assembles to them"
    listing = disassemble(code, origin)
    assert b''.join(i.code for i in listing) == code
    assert [i.address for i in listing] == [origin + n for n in accumulate((i.size for i in listing[:-1]), initial=0)][:len(listing)]
    assert assemble('\n'.join(map(str, listing)), origin) == code
    assert repr(listing).count('\n') == max(0, len(listing) - 1) and listing._repr_markdown_().count('\n') == len(listing) + 1

WORDS = {'SLL': ('SLL', 'SL1', 'SLS', 'SLI'), 'IXH': ('IXH', 'HX', 'XH'), 'IXL': ('IXL', 'LX', 'XL'), 'IYH': ('IYH', 'HY', 'YH'), 'IYL': ('IYL', 'LY', 'YL')}

def spellings(op, n, nn, d, e, address):
    "The ways in which an instruction may be written: words, A or not, no displacement of 0, notations of numbers; each at least once"
    hexadecimal = f'{n:02x}h' if f'{n:02x}'[0].isdigit() else f'0{n:02x}h'
    ways = {'n': [hexadecimal, str(n), f'0x{n:X}', f'${n:02x}', f'#{n:02x}', f'%{n:08b}', f'0b{n:b}', f'{n:b}b', f'(1)+{n-1}', *[str(n - 256)]*(n > 127)],
            'nn': [str(nn), f'0x{nn:x}', f'{nn}+0'], 'e': [f'{address + op.size + e}', f'$+{op.size}+({e})'], '+d': [f'{d:+d}', f'{d:+d}+0', f' + ({d})', *['']*(d == 0)]}
    lists = [op.operands]
    if op.mnemonic in 'SUB AND XOR OR CP'.split(): lists.append(('A', *op.operands))
    if op.mnemonic in 'ADD ADC SBC'.split() and op.operands[0] == 'A': lists.append(op.operands[1:])
    for operands in lists:
        parts = re.split(r'(\+d|\b(?:nn|n|e|SLL|I[XY][HL])\b)', f"{op.mnemonic} {', '.join(operands)}".strip())
        choices = [ways.get(p) or WORDS.get(p) or [p] for p in parts]
        for k in range(max(map(len, choices))):
            line = ''.join(c[k % len(c)] for c in choices)
            yield from (line, line.lower())

def test_every_spelling_there_and_back():
    "Text to bytes to text to bytes, for each canonical entry in each spelling"
    tried = 0
    for op in CANONICAL:
        for numbers in (dict(n=0xC5, nn=0x1234, d=0, e=5), dict(n=7, nn=0xFFFE, d=-128, e=-100)):
            code = encode(op, **numbers)
            for text in spellings(op, address=0x8000, **numbers):
                assert assemble(text, 0x8000) == code, text
                tried += 1
            back, = disassemble(assemble(text, 0x8000), 0x8000)
            assert back.text == spell(op, address=0x8000, **numbers) and assemble(back.text, 0x8000) == code
    print(tried, 'texts')
    assert tried > 5000

# The assembler: what it takes

@pytest.mark.parametrize('text, code', [
    ('db 31, 1Fh, 0x1F, $1F, #1f, 0b11111, 11111b, %11111, 0X1f, 01FH', '1f ' * 10),
    ("db 'A', \"A\", ';', ':', '\\', \"'\", '\"', ' '", '41 41 3b 3a 5c 27 22 20'),
    ("db 'two', '', \"it's\", 'a'+1", '74 77 6f 69 74 27 73 62'),
    ('dw 1, -1, 65535, -32768, 200*300, -(-5), - -5, ~0, +7', '0100 ffff ffff 0080 60ea 0500 0500 ffff 0700'),
    ('db 2+3*4, (2+3)*4, 10-3-2, 100/7/2, -2*3+10, 7-(2-(3-4)), 2*-3', '0e 14 05 07 04 04 fa'),
    ('db 0b1h, 0b1, 1b, 10b', 'b1 01 01 02'),
    ('db 255, -128, ~0', 'ff 80 ff'),
    ('ld a,1 : inc a \\ dec a:halt', '3e 01 3c 3d 76'),
    ('a1: b1: nop : jr a1 : jr b1', '00 18 fd 18 fb'),
    ('loop djnz loop', '10 fe'),
    ('nop :nop', '00 00'), ('ld a,1:nop:nop', '3e 01 00 00'), ('x: ret: nop', 'c9 00'),
    ('db 1\nalign 4\ndb 2\nalign 2,255\nalign 1', '01 00 00 00 02 ff'), ('org 3 : nop : align 8 : db $', '00 00 00 00 00 08'), ('align 256\nnop', '00'),
    ('irp r1,bc,de,hl\npush r1\nendm', 'c5 d5 e5'), ('irp r1,<bc,de> : pop r1 : endr', 'c1 d1'), ('irp x1\nnop\nendm', ''), ('irp x1,"ab",<1,2>,3\ndb x1\nendm', '61 62 01 02 03'), ('mm macro q1\nirp x1,q1\ndb x1+q2\nendm\nendm\nq2 equ 1\nmm <1,2>', '02 03'),
    ('a1: irp x1,a1,b1\ndw x1\nendm\nb1:', '0000 0400'), ('irp x1,1,2\n.y: jr .y\ndb x1\nendm', '18 fe 01 18 fe 02'), ('.y: irp x1,.y,5\n.y: dw x1\nendm', '0000 0500'),
    ('x1 = 5 : db x1 : x1 = x1+1 : db x1', '05 06'), ('x1: = 2\nx1 defl x1*2\ndb x1, x1=4', '04 ff'),
    ('nop\nend\n(garbage " if\nmacro', '00'), ('if 1\nnop\nend\nnop\nendif\nnop', '00'), ('mm macro\nnop\nend\nendm\nmm\nnop', '00'), ('rept 3\nnop\nend\nendr', '00'), ('x1: nop\nend x1', '00'), ('nop : end : nop', '00 00'), ('end nop\njr end', '00 18 fd'), ('end equ 5\ndb end', '05'), ('end:\njp end', 'c3 00 00'),
    ('x equ 5\nld a,x', '3e 05'),
    ('x: equ y*2 : y equ 3\nld a,x', '3e 06'),
    ('ld hl,end-$\nend:', '21 03 00'),
    ('jr $', '18 fe'), ('jr $+2', '18 00'), ('nop\ndjnz $-1', '00 10 fd'), ('ld a,$1F', '3e 1f'), ('ld hl,$', '21 00 00'),
    ("EX AF,AF' ; it's", '08'), ("ex af , af'", '08'), ("ld a,'x'", '3e 78'),
    ('ld a,(5)', '3a 05 00'), ('ld a,(5)+(6)', '3e 0b'), ('ld a,((5))', '3a 05 00'), ('ld hl,(2)*(3)', '21 06 00'), ('ld a,(hl)', '7e'),
    ('jp (hl)', 'e9'), ('jp (ix)', 'dd e9'), ('JP C,5', 'da 05 00'), ('ret c', 'd8'), ('ld c,c', '49'),
    ('ld a,(ix)', 'dd 7e 00'), ('ld (iy),7', 'fd 36 00 07'), ('ld (ix-128),b', 'dd 70 80'), ('ld b,(ix+127)', 'dd 46 7f'),
    ('ld a,( IX - 4/2 )', 'dd 7e fe'), ('ld a,(ix+-1)', 'dd 7e ff'), ('ld a,(ix-(1+2))', 'dd 7e fd'), ('ld (iy+2*3),10+5', 'fd 36 06 0f'),
    ('sll a : sl1 a : sls a', 'cb 37 cb 37 cb 37'),
    ('ld a,ixh : ld a,hx : ld a,xh : ld ly,5', 'dd 7c dd 7c dd 7c fd 2e 05'),
    ('in f,(c) : out (c),0 : in a,(254) : out (0feh),a', 'ed 70 ed 71 db fe d3 fe'),
    ('rlc (ix+1),b : set 7,(iy-1),a : res 0,(ix),l : bit 3,(ix+2)', 'dd cb 01 00 fd cb ff ff dd cb 00 85 dd cb 02 5e'),
    ('sub a,b : sub b : and a,5 : and 5 : cp a,(hl) : xor a,a : or a,(ix+1)', '90 90 e6 05 e6 05 be af dd b6 01'),
    ('add b : add a,b : adc (hl) : sbc 1 : add hl,bc : adc a,a : sbc hl,sp', '80 80 8e de 01 09 8f ed 72'),
    ('rst 38h : rst 0 : im 2 : bit 7,a : set 1+2,b', 'ff c7 ed 5e cb 7f cb d8'),
    ('ld hl,(4) : ld (4),hl : ld de,(4) : ld (4),sp', '2a 04 00 22 04 00 ed 5b 04 00 ed 73 04 00'),
    ('org 100h\nstart: jp start', 'c3 00 01'),
    ('nop\norg 4\nx: db x', '00 00 00 00 04'), ('nop : org 10 : x: : ld a,x-x', '00' * 10 + '3e 00'), ('org 5 : nop : org 9', '00'),
    ('ds 3 : db 1 : ds 2,255 : ds 0', '00 00 00 01 ff ff'),
    ('', ''), ('\n\n;only a comment\n  \t\n', ''), (':::\\', ''), ('x:', ''),
    ('nop\r\nnop\rnop', '00 00 00'), ('\tLD\tA,\t1', '3e 01'),
    ('db 7 % 3, 7 mod 3, -7/2, -7 mod 2, 1<<3|1, 80h>>4, 1 shl 3, 80h shr 4, 6&3, 6^3, 6 and 3 or 8, 6 xor 3', '01 01 fd ff 09 08 08 08 02 05 0a 05'),
    ('db 1=1, 1==2, 1!=2, 1<2, 2<=1, 2>1, 1>=2, !0, !5, 1&&2, 1&&0, 0||3, 0||0', 'ff 00 ff ff 00 ff 00 ff 00 ff 00 ff 00'),
    ('db high 1234h, low 1234h, high 0fe00h+1, low (1234h+1)', '12 34 ff 35'), ('db 1+2<<3, 2|1=1, 8>>1+1', '18 ff 02'), ('ld hl,1 and 3 : and 3', '21 01 00 e6 03'),
    (r'''db "a\n\r\t\0\x41\\\"\'\e"''', '61 0a 0d 09 00 41 5c 22 27 1b'), (r"db 'a\n', 'it''s', ''''", '61 5c 6e 69 74 27 73 27'), (r'ld a,"\n" : db "\xff"', '3e 0a ff'),
    ("defb 1 : defm 'ab' : dm \"c\" : defw 258 : defs 2,3", '01 61 62 63 02 01 03 03'), ('dw later : later: dw later', '0200 0200'),
    ('sli b', 'cb 30'), ('x1: y2: nop : jr x1', '00 18 fd'),
    ('a1: nop\n.x: jr .x\nb1: jr .x\n.x: jr a1.x', '00 18 fe 18 00 18 fa'), ('.x: nop : jr .x', '00 18 fd'), ('main.x equ 5 : main: ld a,.x', '3e 05'), ('w: nop\n.x\n jr .x', '00 18 fe'),
    ('n1 defl 1 : db n1 : n1 defl n1+1 : db n1, n1*2', '01 02 04'), ('m1: defl 3\nrept m1\nnop\nm1 defl 0\nendr\ndb m1', '00 00 00 00'),
    ('if 1\nnop\nendif\nif 0\ninc a\nelse\ninc b\nendif', '00 04'), ("if 0\nthis is not code, don't read it: \xe9 (\nendif\nnop", '00'), ('if 0 : inc a : else : inc b : endif', '04'),
    ('if 1\nif 0\ninc a\nelse\ninc b\nendif\ninc c\nelse\nif 1\ninc d\nelse\ninc e\nendif\nendif', '04 0c'), ('x1 equ 5\nif x1 > 4 && x1 < 6\nnop\nendif', '00'), ('if $ = 0\nnop\nendif\nif $\nnop\nendif', '00 00'),
    ('ifdef x1\nnop\nelse\ninc a\nendif\nx1 equ 1\nifdef X1\ninc b\nendif\nifndef x1\ninc c\nendif', '3c 04'), ('ifndef guard\nguard equ 1\nnop\nendif\nifndef guard\nnop\nendif', '00'), ('mm macro\nendm\nifdef mm\nnop\nendif', '00'),
    ('rept 3\nnop\nendr', '00 00 00'), ('rept 2 : inc a : dec a : endr', '3c 3d 3c 3d'), ('dup 2\nnop\nedup\nrept 1\nnop\nendm\nrept 0\nnop\nendr', '00 00 00'), ('rept 3, k\ndb k, k*k\nendr', '00 00 01 01 02 04'),
    ('rept 2, k\nrept 2, j\ndb 16*k+j\nendr\nendr', '00 01 10 11'), ('rept 2\n.x: djnz .x\nendr', '10 fe 10 fe'), ('rept 2\nlocal x1\nx1: djnz x1\nendr\nx1: jr x1', '10 fe 10 fe 18 fe'),
    ('mm macro\nnop\nendm\nmm\nmm', '00 00'), ('mm: macro q1,q2\nld q1,q2\nendm\nmm a,5 : mm (hl),b\nMM b,(ix+1)', '3e 05 70 dd 46 01'), ('macro mm q1, q2\ndb q2,q1\nendm\nmm 1,2', '02 01'), ('macro mm, q1, q2\ndb q2,q1\nendm\nmm 1,2', '02 01'),
    ('mm macro q1 : db q1 : endm : mm <1,2,"a"> : mm 3', '01 02 61 03'), ('mm macro q1 : ld hl,5 q1 : endm : mm <> : mm <+1>', '21 05 00 21 06 00'),
    ('mm macro op1, r1\nop1 a,r1\nendm\nmm adc,b\nmm ld,(hl)', '88 7e'), ('mm macro name1\nname1: jr name1\nendm\nmm xx : mm yy\njp yy', '18 fe 18 fe c3 02 00'),
    ('mm macro\n.x: djnz .x\nendm\na1: nop\n.x: mm\nmm\njr .x', '00 10 fe 10 fe 18 fa'), ('mm macro\nlocal x1,y1\nx1: djnz x1\ny1: djnz y1\nendm\nmm : mm\nx1:', '10 fe 10 fe 10 fe 10 fe'),
    ('mm macro\ndjnz .x\nendm\na1: nop\n.x: mm', '00 10 fe'), ('mm macro q1\n.x: nop\njr q1\nendm\na1: nop\n.x: mm .x', '00 00 18 fd'), ('mm macro q1\nif q1\ndb q1\nmm q1-1\nendif\nendm\nmm 3', '03 02 01'),
    ('in1 macro q1\nout1 macro q2\ndb q1,q2\nendm\nendm\nin1 1\nout1 2', '01 02'), ('mm macro\ninc a\nmm2\nendm\nmm2 macro\ninc b\nendm\nx1: mm\njr x1', '3c 04 18 fc'), ('mm macro q1\ndb "q1", q1\nendm\nmm 7', '71 31 07'),
    ('org 0FFFFh\nnop', '00'), ('ds 65535\nnop', '00' * 65536),
])
def test_accepts(text, code):
    assert assemble(text) == bytes.fromhex(code)
    if "'" not in text and '"' not in text and text.isascii(): assert assemble(text.upper()) == assemble(text.lower()) == bytes.fromhex(code)

def test_origin():
    assert assemble('jp $', 0x8000).hex() == 'c30080' and assemble('dw $', np.int64(3)).hex() == '0300'
    for bad in (-1, 65536):
        with pytest.raises(ValueError, match='origin'): assemble('nop', bad)

# Names, files and listings

def test_defines():
    a = assemble_source('if debug > 1\nnop\nendif\nifdef NONE\nnop\nendif\ndb level', defines={'debug': 2, 'Level': -1})
    assert a.code == b'\0\xff' and a.symbols == {'debug': 2, 'Level': -1} and 'Level' in a.symbol_table
    assert assemble_source('nop', defines=None).symbols == {} == assemble_source('nop').symbols

def test_symbols():
    a = assemble_source('Main: nop\n.Loop: djnz .loop\nsize equ end-main\nmm macro\n.x: nop\nlocal y\ny: nop\nendm\n mm\nmm\nend:\nk defl 3', 0x4000)
    assert a.symbols == {'Main': 0x4000, 'Main.Loop': 0x4001, 'size': 7, 'MM#1.x': 0x4003, 'MM#1.y': 0x4004, 'MM#2.x': 0x4005, 'MM#2.y': 0x4006, 'end': 0x4007}
    assert a.symbol_table.splitlines() == ['end       equ 4007h', 'Main      equ 4000h', 'Main.Loop equ 4001h', 'size      equ 0007h']
    assert assemble_source('org 0A000h\nx1: equ $\ny1 equ -5\nz1 equ 70000').symbol_table == 'x1 equ 0A000h\ny1 equ -5\nz1 equ 70000\n'

SOURCE = '''; text

start: ld b,3 ; x
.l: djnz .l : ret
 db "hello"
 if 0
 nop
 endif
mm macro q1 ; m
 ld a,q1 ; q
 endm
 mm 1 + 2
 org 110h
 rept 2, k
 dw k
 endr'''

LISTING = '''\
                               1  ; text
                               2
0100  06 03                 7    3  start: ld b,3 ; x
0102  10 FE C9          18/23    4  .l: djnz .l : ret
0105  68 65 6C 6C +1             5   db "hello"
                               6   if 0
                               7   nop
                               8   endif
                               9  mm macro q1 ; m
                              10   ld a,q1 ; q
                              11   endm
                              12   mm 1 + 2
010A  3E 03                 7   10+  ld a,1+2 ; q
                              13   org 110h
                              14   rept 2, k
0110  00 00                     15+  dw 0
0112  01 00                     15+  dw 1
                              16   endr
'''

def test_listing():
    a = assemble_source(SOURCE, 0x100)
    assert [line.split() for line in a.listing.splitlines()] == [line.split() for line in LISTING.splitlines()]
    assert (a.origin, len(a.code)) == (0x100, 0x14) and isinstance(a, Assembly) and repr(a) == '20 bytes from 0100h, 2 names'
    assert [(x.address, x.t, x.t_taken, x.line, x.depth) for x in a.lines][3] == (0x102, 18, 23, 4, 0)
    shown = a._repr_markdown_()
    assert shown.count('```') == 2 and 'dw 1' in shown and '`start.l` 0102h' in shown
    long = assemble_source('nop ; ```\n' * 500)._repr_markdown_()
    assert long.count('```') == 2 and '... 441 more lines' in long and len(long) < 6000

def tree(folder, files):
    "Files in a folder, by name"
    for name, content in files.items():
        path = folder/name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder

def test_include_and_incbin(tmp_path):
    "Names are relative to the file that asks; a file may come in twice; a control Z ends a text"
    main = b'x1: include "lib/a.inc"\nincbin "d.bin"\nincbin \'lib/d.bin\',1\nincbin "lib/d.bin",1,2\ninclude "lib/a.inc"\n'
    place = tree(tmp_path/'p', {'main.asm': main, 'lib/a.inc': b'inc a ; caf\xe9\nincbin "d.bin", 4-1\r\n\x1a rubbish', 'lib/d.bin': b'0123', 'd.bin': b'AB', 'lib/up.asm': b'incbin "../d.bin"'})
    a = assemble_source(place/'main.asm')
    assert a.code == b'<3AB12312<3' and {x.file for x in a.lines} == {(place/n).as_posix() for n in ('main.asm', 'lib/a.inc')}
    assert assemble_source('include "main.asm"', root=place).code == assemble_source('include "lib/../main.asm"', root=str(place)).code == a.code
    assert assemble_source(f'include "{place}/main.asm"', root=place).code == a.code
    assert assemble_source(place/'lib'/'a.inc').code == b'<3'
    assert assemble_source(place/'lib'/'up.asm', root=place).code == b'AB'

def test_error_out_of_a_macro_in_a_file(tmp_path):
    "The message names the file, the line in the macro, and each place that it came from"
    place = tree(tmp_path, {'main.asm': b'include "m.inc"\n nop\n outer 300\n', 'm.inc': b'inner macro q1\n ld a,q1\n endm\nouter macro q2\n rept 1\n inner q2+1\n endr\n endm\n'})
    with pytest.raises(AsmError) as caught: assemble_source(place/'main.asm')
    e, main, inc = caught.value, (place/'main.asm').as_posix(), (place/'m.inc').as_posix()
    assert (e.file, e.line, e.column, e.text) == (main, 3, 2, ' outer 300')       # the argument is to blame
    assert e.within == Place(inc, 2, 7, ' ld a,300+1') and e.trace == ()
    assert str(e) == f'{main}, line 3, column 2: 301 does not fit a byte; expected -128 to 255\n   outer 300\n   ^\n  in {inc}, line 2, column 7: ld a,300+1'
    assert str(pickle.loads(pickle.dumps(e))) == str(e)
    place = tree(tmp_path, {'m.inc': b'inner macro q1\n ld a,300\n endm\nouter macro q2\n rept 1\n inner q2+1\n endr\n endm\n'})
    with pytest.raises(AsmError) as caught: assemble_source(place/'main.asm')
    e = caught.value
    assert (e.file, e.line, e.column, e.text) == (inc, 2, 7, ' ld a,300')         # the macro is
    assert e.within is None and e.trace == (Place(inc, 6, 2, ' inner q2+1'), Place(inc, 5, 2, ' rept 1'), Place(main, 3, 2, ' outer 300'))
    assert str(e) == (f'{inc}, line 2, column 7: 300 does not fit a byte; expected -128 to 255\n   ld a,300\n        ^\n  from {inc}, line 6, column 2: inner q2+1\n'
                      f'  from {inc}, line 5, column 2: rept 1\n  from {main}, line 3, column 2: outer 300')

def test_where_to_start_and_what_was_read(tmp_path):
    assert [assemble_source(text).start for text in ('org 8000h : nop', 'org 8000h : nop : x1: nop\nend x1', 'nop\nend $+2')] == [0x8000, 0x8001, 3]
    place = tree(tmp_path/'q', {'main.asm': b'include "a.inc"\nincbin "d.bin"\n', 'a.inc': b'', 'd.bin': b'0'})
    assert [p.name for p in assemble_source(place/'main.asm').files] == ['a.inc', 'd.bin']

def test_error_under_tabs_and_pickled():
    with pytest.raises(AsmError) as caught: assemble('\tld\ta,256')
    assert str(caught.value).split('\n')[2] == '  \t  \t  ^'
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value) and (copy.line, copy.column) == (1, 7)

def test_nothing_is_left_over():
    "One source after another: no names, macros or scopes stay"
    for _ in range(2): assert assemble('mm macro\n.x: djnz .x\nendm\nmm') == b'\x10\xfe'
    with pytest.raises(AsmError): assemble('mm')

# Speed

PROGRAMS = Path(__file__).resolve().parent.parent/'nbs'/'programs'

def rate(what, lines):
    start = time.process_time()
    what()
    rate = 60*lines/(time.process_time() - start)
    print(f'{rate:,.0f} lines a minute')
    return rate

def test_speed():
    "At least 100,000 lines a minute: one long source without macros, and the three programs over and over"
    code = random.Random(0).randbytes(12_000)
    lines = [f'l{k}:\t{i}\t; a comment' for k, i in enumerate(disassemble(code))]
    assert rate(lambda: assemble('\n'.join(lines)), len(lines)) > 100_000
    files = [PROGRAMS/f'{name}.asm' for name in ('hexdump', 'sieve', 'adventure')] * 5
    assert rate(lambda: [assemble_source(f) for f in files], sum(len(f.read_text().splitlines()) for f in files)) > 100_000

def test_needs_only_the_standard_library():
    out = subprocess.run([sys.executable, '-c', 'import sys, z80lit.asm; print({"numpy", "numba", "torch", "matplotlib"} & sys.modules.keys())'], capture_output=True, text=True)
    assert out.stdout.strip() == 'set()', out
