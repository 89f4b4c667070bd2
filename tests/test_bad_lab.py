"What makes no sense to `Z80` and to `%%z80`: each case is refused with a message that names what and where, and nothing changes."
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from z80lit.asm import assemble, assemble_source
from z80lit.bus import trace
from z80lit.emulator import Z80, registers
from z80lit.lab import Listing, Panel, Stepper, look, plot_trace, profile, stepper

# Expressions over `cpu`, a machine with a program in it, and what the message must say

MACHINE = r'''
Z80(a=256)                          | a = 256 is out of range 0..0FFh
Z80(a=-1)                           | a = -1 is out of range 0..0FFh
Z80(hl=65536)                       | hl = 65536 is out of range 0..0FFFFh
Z80(ixh=256)                        | ixh = 256 is out of range 0..0FFh
Z80(af_=65536)                      | af_ = 65536 is out of range 0..0FFFFh
Z80(zf=2)                           | zf = 2 is out of range 0..1
Z80(im=3)                           | im = 3 is out of range 0..2
Z80(r=256)                          | r = 256 is out of range 0..0FFh
Z80(a=2**70)                        | a takes a whole number 0..0FFh, not 11805
Z80(a='12h')                        | a takes a whole number 0..0FFh, not '12h'
Z80(a=1.0)                          | a takes a whole number 0..0FFh, not 1.0
Z80(a=None)                         | a takes a whole number 0..0FFh, not None
Z80(a=[1, 2])                       | a takes a whole number 0..0FFh, not [1, 2]
Z80(a=[[1], [2, 3]])                | a takes a whole number 0..0FFh, not [[1], [2, 3]]
Z80(ah=1)                           | no register 'ah'; there are b c d e
Z80(A=1)                            | no register 'A'
Z80(tstates=5)                      | no register 'tstates'
Z80(memory=b'x')                    | no register 'memory'
Z80(a=1, af=2)                      | a and af set the same bits
Z80(hl=1, l=2)                      | hl and l set the same bits
Z80(f=0, cf=1)                      | f and cf set the same bits
Z80(a_=1, af_=2)                    | a_ and af_ set the same bits
registers(3, bc=1, c=[1, 2, 3])     | bc and c set the same bits
registers(2, a=[1, 300])            | a = 300 is out of range 0..0FFh
registers(2, a=['1', '2'])          | a takes a whole number 0..0FFh for each machine, not ['1', '2']
setattr(cpu, 'a', 256)              | a = 256 is out of range 0..0FFh
setattr(cpu, 'sp', -2)              | sp = -2 is out of range 0..0FFFFh
setattr(cpu, 'b', '3')              | b takes a whole number 0..0FFh, not '3'
setattr(cpu, 'bc', np.array([1]))   | bc takes a whole number 0..0FFFFh, not array([1])
setattr(cpu, 'x', 1)                | no register 'x'
setattr(cpu, 'flags', 'Z')          | no register 'flags'
setattr(cpu, 'memory', b'abc')      | no register 'memory'
cpu.xy                              | no register 'xy'
cpu.load(5)                         | 5 is no machine code
cpu.load(None)                      | None is no machine code
cpu.load('LD A,8')                  | 'LD A,8' is no machine code: give bytes or numbers 0..0FFh, e.g. from assemble
cpu.load('')                        | '' is no machine code
cpu.load(['3E', '08'])              | ['3E', '08'] is no machine code
cpu.load([1.5])                     | [1.5] is no machine code
cpu.load([[1, 2]])                  | [[1, 2]] is no machine code
cpu.load([1, 256])                  | byte 1 of the code = 256 is out of range 0..0FFh
cpu.load([-1])                      | byte 0 of the code = -1 is out of range 0..0FFh
cpu.load(np.array([7, 300]))        | byte 1 of the code = 300 is out of range 0..0FFh
cpu.load(np.array([1.0]))           | is no machine code
cpu.load(b'ab', 65535)              | 2 bytes do not fit at 0FFFFh
cpu.load(bytes(65537))              | 65537 bytes do not fit at 0000h
cpu.load(b'a', 65536)               | address = 65536 is out of range 0..0FFFFh
cpu.load(b'a', -1)                  | address = -1 is out of range 0..0FFFFh
cpu.load(b'a', '9000h')             | address takes a whole number, not '9000h'
cpu.load(b'a', 1.5)                 | address takes a whole number, not 1.5
cpu.load(assemble_source('NOP'), 5) | an Assembly goes to its origin, 0000h
cpu.run(-1)                         | budget = -1 is out of range
cpu.run(2**70)                      | budget = 1180591620717411303424 is out of range
cpu.run('1000')                     | budget takes a whole number, not '1000'
cpu.run(1e6)                        | budget takes a whole number, not 1000000.0
cpu.run(None)                       | budget takes a whole number, not None
cpu.run(10, 5)                      | breakpoints are addresses 0..0FFFFh, not 5
cpu.run(10, None)                   | breakpoints are addresses 0..0FFFFh, not None
cpu.run(10, 'ab')                   | breakpoints are addresses 0..0FFFFh, not 'ab'
cpu.run(10, [1.5])                  | breakpoints are addresses 0..0FFFFh, not [1.5]
cpu.run(10, [[1], [2, 3]])          | breakpoints are addresses 0..0FFFFh, not [[1], [2, 3]]
cpu.run(10, [5, 65536])             | breakpoint = 65536 is out of range 0..0FFFFh
cpu.run(10, [-1])                   | breakpoint = -1 is out of range 0..0FFFFh
cpu.interrupt(256)                  | byte 0 of the code = 256 is out of range 0..0FFh
cpu.interrupt(-1)                   | byte 0 of the code = -1 is out of range 0..0FFh
cpu.interrupt('RST 8')              | 'RST 8' is no machine code
cpu.interrupt(1.5)                  | 1.5 is no machine code
cpu.interrupt(None)                 | None is no machine code
cpu.interrupt([])                   | nothing is not one instruction
cpu.interrupt([0, 0])               | 00 00 is not one instruction
cpu.interrupt([0xCD, 0])            | cd 00 is not one instruction
cpu.interrupt([1, 2, 3, 4, 5])      | 01 02 03 04 05 is not one instruction
look(cpu).dump(-1)                  | address = -1 is out of range 0..0FFFFh
look(cpu).dump(65530, 7)            | count = 7 is out of range 0..6
look(cpu).dump(0, 'all')            | count takes a whole number, not 'all'
plot_trace([])                      | there is no step in this trace to draw
plot_trace(trace(Z80()), ['zz'])    | no register 'zz'
look(5)                             | look takes a Z80, not 5
look('cpu')                         | look takes a Z80, not 'cpu'
profile(5)                          | profile takes a Z80, not 5
Stepper(5)                          | Stepper takes a Z80, not 5
Panel(Z80())                        | Panel takes a Stepper, not
Listing(b'a')                       | Listing takes an Assembly, not b'a'
stepper('')                         | there is no program in this source
plot_trace(5)                       | plot_trace takes the steps of a Trace, not 5
stepper('nop', memory=5)            | memory takes pairs of an address and bytes, not 5
stepper('nop', memory=[5])          | memory takes pairs of an address and bytes, not [5]
stepper('nop', memory=b'ab')        | memory takes pairs of an address and bytes, not b'ab'
profile(cpu, -1)                    | budget = -1 is out of range
profile(cpu, 'all')                 | budget takes a whole number, not 'all'
Stepper(cpu).run_to(65536)          | address = 65536 is out of range 0..0FFFFh
Stepper(cpu).run_to(0, -5)          | budget = -5 is out of range
Stepper(cpu).go('3')                | step takes a whole number, not '3'
stepper('ld q,1')                   | line 1, column 4
stepper('nop', ax=1)                | no register 'ax'
stepper('nop', memory=[(0, b'a')])  | the bytes at 0000h lie over the program
stepper('nop', memory=[(9, 'a')])   | 'a' is no machine code
stepper('nop', memory=[(65535, b'ab')]) | 2 bytes do not fit at 0FFFFh
'''

# Cells: the magic line, a slash, the cell, and what the message must say

CELLS = r'''
a=256 / nop                         | line 1, column 9: a = 256 is out of range 0..0FFh
b=1 a=-1 / nop                      | line 1, column 13: '-1' is no number
hl=10000h / nop                     | line 1, column 10: hl = 10000h is out of range 0..0FFFFh
cf=2 / nop                          | line 1, column 10: cf = 2 is out of range 0..1
im=3 / nop                          | line 1, column 10: im = 3 is out of range 0..2
a=FF / nop                          | line 1, column 9: 'FF' is no number; in hex it is 0FFh
a=FFh / nop                         | line 1, column 9: 'FFh' is no number
a=12b / nop                         | line 1, column 9: '12b' is no number
a=$ / nop                           | line 1, column 9: '$' is no number
a=0x / nop                          | line 1, column 9: '0x' is no number
a=1.5 / nop                         | line 1, column 9: '1.5' is no number
a=b / nop                           | line 1, column 9: 'b' is no number
a={x} / nop                         | line 1, column 9: '{x}' is no number
a= / nop                            | line 1, column 7: a= says nothing here
a / nop                             | line 1, column 7: a says nothing here
=3 / nop                            | line 1, column 7: =3 says nothing here
= / nop                             | line 1, column 7: = says nothing here
a = 3 / nop                         | line 1, column 7: a says nothing here
a=3,b=4 / nop                       | line 1, column 9: '3,b=4' is no number
a==3 / nop                          | line 1, column 9: '=3' is no number
x=3 / nop                           | line 1, column 7: no register x; expected b c d e h l
hl''=3 / nop                        | line 1, column 7: no register hl''
wz=3 / nop                          | line 1, column 7: no register wz
halted=1 / nop                      | line 1, column 7: no register halted
in_prefix=1 / nop                   | line 1, column 7: no register in_prefix
keep_q=1 / nop                      | line 1, column 7: no register keep_q
tstates=9 / nop                     | line 1, column 7: no register tstates
a=1 a=2 / nop                       | line 1, column 11: a sets what a has set already
A=1 a=1 / nop                       | line 1, column 11: a sets what a has set already
h=1 HL=2 / nop                      | line 1, column 11: HL sets what h has set already
af'=1 a'=2 / nop                    | line 1, column 13: a' sets what af' has set already
f=1 zf=0 / nop                      | line 1, column 11: zf sets what f has set already
budget=0 / nop                      | line 1, column 14: a budget of 0 T-states runs nothing
budget=-5 / nop                     | line 1, column 14: '-5' is no number
budget=1e6 / nop                    | line 1, column 14: '1e6' is no number
budget=10,000 / nop                 | line 1, column 14: '10,000' is no number
budget=99999999999999 / nop         | line 1, column 14: budget = 99999999999999 is out of range
budget=1 budget=2 / nop             | line 1, column 16: budget is given twice
budget / nop                        | line 1, column 7: budget says nothing here
trace trace / nop                   | line 1, column 13: trace is given twice
trace=yes / nop                     | line 1, column 7: no register trace
--trace / nop                       | line 1, column 7: --trace says nothing here
verbose / nop                       | line 1, column 7: verbose says nothing here; expected REGISTER=VALUE
-o / nop                            | line 1, column 7: -o names no variable
-o 1x / nop                         | line 1, column 7: '1x' is no name for a variable
-o for / nop                        | line 1, column 7: 'for' is no name for a variable
-o print / nop                      | line 1, column 7: 'print' means something in Python, and would be lost
-o a=3 / nop                        | line 1, column 7: 'a=3' is no name for a variable
-o x.y / nop                        | line 1, column 7: 'x.y' is no name for a variable
-o p -o q / nop                     | line 1, column 12: -o is given twice
-x / nop                            | line 1, column 7: -x says nothing here
mem=1 / nop                         | line 1, column 7: no register mem
mem@=1 / nop                        | line 1, column 11: '' is no number
mem@9000h / nop                     | line 1, column 7: mem@9000h says nothing here
mem@9000h= / nop                    | line 1, column 7: mem@9000h= says nothing here
mem@xyz=1 / nop                     | line 1, column 11: 'xyz' is no number
mem@10000h=1 / nop                  | line 1, column 11: address = 10000h is out of range 0..0FFFFh
mem@9000h=1,,2 / nop                | line 1, column 19: '' is no number
mem@9000h=1,2, / nop                | line 1, column 21: '' is no number
mem@9000h=1,256 / nop               | line 1, column 19: byte = 256 is out of range 0..0FFh
mem@9000h=1,FF / nop                | line 1, column 19: 'FF' is no number; in hex it is 0FFh
mem@9000h=1, 2 / nop                | line 1, column 19: '' is no number
mem@0FFFFh=1,2 / nop                | line 1, column 11: 2 bytes do not fit at 0FFFFh
mem@0=1 / nop                       | line 1, column 7: the bytes at 0000h lie over the program
a=1 mem@9000h=1,2 mem@9001h=3 / nop | line 1, column 25: the bytes at 9001h lie over those at 9000h
mem@1=1 a=300 / nop                 | line 1, column 17: a = 300 is out of range
/ ld a,256                          | line 2, column 6: 256 does not fit
/ nop\nnop\nadd a,q                 | line 4, column 7
/ \n  jr lop                        | line 3, column 6: lop is not defined
/ x: nop\nx: nop                    | line 3, column 1: x is defined twice
/ frob a                            | line 2, column
/ db 'abc                           | line 2, column 4
/ jr 1000h                          | line 2, column 4
/ include "/etc/passwd"             | line 2, column
/ include "../x.asm"                | line 2, column
/ org 0FFFFh\nld a,5                | line 3, column
a=1 b=2 / \n\n                      | this cell holds no program
/ ; just a remark                   | this cell holds no program
/ x equ 5                           | this cell holds no program
'''

def rows(table): return [tuple(part.strip() for part in line.rsplit(' | ', 1)) for line in table.strip().splitlines()]

def test_there_are_enough(): assert len(rows(MACHINE)) + len(rows(CELLS)) >= 150 and len(set(rows(MACHINE) + rows(CELLS))) == len(rows(MACHINE) + rows(CELLS))

@pytest.mark.parametrize('call, message', rows(MACHINE))
def test_machine_refuses(call, message):
    "With a ValueError or, for a name, an AttributeError; the machine stays what it was, to the last bit"
    cpu = Z80(a=1, hl=0x9000).load(assemble('inc a : ld (hl),a : halt'))
    cpu.step()
    before = cpu.machines.tobytes() + cpu.before.tobytes()
    with pytest.raises((ValueError, AttributeError)) as e: eval(call)
    assert message in str(e.value)
    assert cpu.machines.tobytes() + cpu.before.tobytes() == before

@pytest.fixture(scope='module')
def shell():
    shell = InteractiveShell.instance()
    shell.run_line_magic('load_ext', 'z80lit')
    yield shell
    InteractiveShell.clear_instance()

@pytest.mark.parametrize('cell, message', rows(CELLS))
def test_magic_refuses(shell, cell, message):
    "In one message on the error stream with the line and a caret below the place; nothing is shown, no variable is set or lost"
    line, _, body = cell.partition('/')
    if '-o' not in line: line += ' -o kept'
    shell.user_ns['kept'] = 'kept'
    names = set(shell.user_ns)
    with capture_output() as said: result = shell.run_cell(f'%%z80 {line.strip()}\n' + body.removeprefix(' ').replace(r'\n', '\n'))
    assert not result.success and result.result is None and said.stdout == ''
    assert message in said.stderr and said.stderr.rstrip('\n').endswith('^') and 'Traceback' not in said.stderr
    assert shell.user_ns['kept'] == 'kept' and set(shell.user_ns) == names
