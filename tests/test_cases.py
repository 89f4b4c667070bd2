"Public questions about small routines: the good answer is proved, the trap is refuted, a restricted answer holds in its domain and not outside it."
import pytest

from z80lit.asm import assemble
from z80lit.verify import Spec, verify

def proved(program, spec, size=None, tstates=None, **options):
    v = verify(program, spec, **options)
    assert v.proved, str(v)
    if size is not None: assert len(v.program) == size
    if tstates is not None: assert v.tstates[:2] == tstates
    return v

def refuted(program, spec, *kinds, **options):
    v = verify(program, spec, **options)
    assert v.refuted and (not kinds or v.kind in kinds), str(v)
    assert v.expected and v.got
    return v

TEN = Spec('A -> A*10 & 0xFF', clobbers='BF')

def test_1_times_ten():
    proved('LD B,A : ADD A,A : ADD A,A : ADD A,B : ADD A,A', TEN, 5, (20, 20))
    trap = 'LD B,A : ADC A,A : ADD A,A : ADD A,B : ADD A,A'
    v = refuted(trap, TEN, 'reads junk')
    assert v.state == {'cf': 1} and v.inputs == {'a': 0}
    proved(trap, Spec('A, CF in 0 -> A*10', clobbers='BF'))
    assert refuted('LD B,A : RLA : RLA : ADD A,B : RLA', TEN).inputs == {'a': 0}

DIGIT = '-> A + 30h if A < 10 else A + 37h'

def test_2_hex_digit():
    proved('CP 10 : SBC A,69h : DAA', Spec('A in 0..15 ' + DIGIT, clobbers='F'), 5, (18, 18))
    trap = 'DAA : ADD A,0F0h : ADC A,40h'
    proved(trap, Spec('A in 0..15, CF in 0, HF in 0, NF in 0 ' + DIGIT, clobbers='F'), 5)
    assert refuted(trap, Spec('A in 0..15 ' + DIGIT, clobbers='F'), 'reads junk').inputs == {'a': 0}
    for flag in 'CF', 'HF', 'NF':
        others = ', '.join(f'{f} in 0' for f in ('CF', 'HF', 'NF') if f != flag)
        v = refuted(trap, Spec(f'A in 0..15, {others} ' + DIGIT, clobbers='F'), 'reads junk')
        assert v.state == {flag.lower(): 1}

def test_3_sign_extend():
    spec = Spec('A -> HL = s8(A)', clobbers='AF')
    proved('LD L,A : ADD A,A : SBC A,A : LD H,A', spec, 4, (16, 16))
    assert 'cf' in refuted('LD L,A : SBC A,A : LD H,A', spec, 'reads junk').state

def test_4_absolute_value():
    spec = Spec('A -> abs(s8(A))', clobbers='F')
    proved('OR A : JP P,skip : NEG : skip:', spec, 6, (14, 22))
    proved('LD B,A : ADD A,A : SBC A,A : LD C,A : XOR B : SUB C', Spec('A -> abs(s8(A))', clobbers='BCF'), 6, (24, 24))
    assert refuted('JP P,skip : NEG : skip:', spec, 'reads junk').state == {'sf': 1}

def test_5_sign():
    spec = Spec('A -> 0 if A == 0 else -1 if A > 127 else 1', clobbers='BF')
    proved('LD B,A : ADD A,A : SBC A,A : SUB B : ADC A,B', spec, 5, (20, 20))
    v = refuted('LD B,A : ADD A,A : SBC A,A : SUB B : ADD A,B', spec)
    assert v.inputs == {'a': 1}

COMPARE = Spec('HL, DE -> CF = HL < DE, ZF = HL == DE', clobbers='AF')

def test_6_compare():
    good, trap = 'OR A : SBC HL,DE : ADD HL,DE', 'LD A,L : CP E : LD A,H : SBC A,D'
    v = verify(good, COMPARE)
    assert v.kind == 'not proved: sampled' and v.tstates[:2] == (30, 30) and len(v.program) == 4
    proved(good, Spec('HL in 0..15|7FF8h..8007h|0FFE0h..0FFFFh, DE -> CF = HL < DE, ZF = HL == DE', clobbers='F'))
    refuted(trap, COMPARE, 'counterexample')
    v = refuted(trap, Spec('HL in 0, DE in 0FF01h -> CF = HL < DE, ZF = HL == DE', clobbers='AF'), 'counterexample')
    assert v.expected['zf'] == 0 and v.got['zf'] == 1

def test_6_compare_by_smt():
    proved('OR A : SBC HL,DE : ADD HL,DE', COMPARE, method='smt')
    refuted('LD A,L : CP E : LD A,H : SBC A,D', COMPARE, method='smt')

def test_7_add_byte_to_word():
    spec = Spec('HL, A -> HL + A', clobbers='AF')
    v = proved('ADD A,L : LD L,A : ADC A,H : SUB L : LD H,A', spec, 5, (20, 20))
    assert v.n == 1 << 24
    proved('ADD A,L : LD L,A : JR NC,skip : INC H : skip:', spec, 5, (19, 20))
    assert refuted('ADD A,L : LD L,A : ADC A,H : LD H,A', spec).inputs == {'hl': 0, 'a': 1}

def test_8_negate_word():
    spec = Spec('HL -> -HL', clobbers='AF')
    proved('XOR A : SUB L : LD L,A : SBC A,A : SUB H : LD H,A', spec, 6, (24, 24))
    refuted('XOR A : SUB L : LD L,A : LD A,0 : SUB H : LD H,A', spec, 'counterexample')

def test_9_times_48():
    short = 'LD L,A : ADD A,A : ADD A,L : LD L,A : LD H,0 : ADD HL,HL : ADD HL,HL : ADD HL,HL : ADD HL,HL'
    proved('LD L,A : LD H,0 : LD E,L : LD D,H : ADD HL,HL : ADD HL,DE : ADD HL,HL : ADD HL,HL : ADD HL,HL : ADD HL,HL', Spec('A -> HL = A*48', clobbers='DEF'), 11, (85, 85))
    proved(short, Spec('A in 0..85 -> HL = A*48', clobbers='AF'), 10, (67, 67))
    v = refuted(short, Spec('A -> HL = A*48', clobbers='AF'), 'counterexample')
    assert v.inputs == {'a': 86} and v.expected == {'hl': 86*48}

def test_10_zero_test():
    spec = Spec('A -> A == 0', clobbers='F')
    proved('ADD A,0FFh : SBC A,A : INC A', spec, 4, (15, 15))
    assert refuted('LD A,1', spec, 'counterexample').inputs == {'a': 1}

def test_11_saturated_sum():
    proved('ADD A,B : LD C,A : SBC A,A : OR C', Spec('A, B -> min(A + B, 255)', clobbers=('C', 'F')), 4, (16, 16))
    proved('ADD A,B : JR NC,skip : SBC A,A : skip:', Spec('A, B -> min(A + B, 255)', clobbers='F'), 4, (15, 16))
    refuted('ADD A,B : SBC A,A : OR C', Spec('A, B -> min(A + B, 255)', clobbers='F'), 'reads junk', 'counterexample')

def test_12_minimum():
    spec = Spec('A, B -> min(A, B)', clobbers='F')
    proved('CP B : JR C,skip : LD A,B : skip:', spec, 4, (15, 16))
    proved('SUB B : LD C,A : SBC A,A : AND C : ADD A,B', Spec('A, B -> min(A, B)', clobbers=('C', 'F')), 5, (20, 20))
    refuted('CP B : JP M,skip : LD A,B : skip:', spec, 'counterexample')

# Peephole questions: a program in place of an expression, and what is live after it

def test_p1_bit_before_djnz():
    spec = Spec('B -> ZF, B', like=assemble('BIT 7,B : loop: DJNZ loop'), clobbers='F')
    proved(assemble('BIT 7,B : loop: DJNZ loop'), spec)
    assert 'zf' in refuted('loop: DJNZ loop', spec, 'reads junk').state

def test_p2_final_rrd():
    spec = Spec('A, HL in 9000h..9003h, mem[HL] -> mem[HL]', like=assemble('RRD'), clobbers='AF')
    proved('RRD', spec)
    refuted('', spec, 'counterexample')
    refuted('NOP', spec, 'counterexample')

def test_p3_same_but_slower():
    spec = Spec('mem[9000h] -> E', like=assemble('LD A,(9000h) : LD E,A'), clobbers='AD')
    before, after = proved('LD A,(9000h) : LD E,A', spec), proved('LD DE,(9000h)', spec)
    assert len(before.program) == len(after.program) == 4 and after.tstates[0] - before.tstates[0] == 3

def test_p4_port_address():
    spec = Spec('A -> out[303Bh] = A', clobbers='BC')
    proved('LD BC,303Bh : OUT (C),A', spec)
    v = refuted('LD C,3Bh : OUT (C),A', spec, 'reads junk')
    assert 'b' in v.state
    refuted('', spec, 'counterexample')

def test_p5_interrupt_mode():
    spec = Spec('A -> I = A, IM = 2')
    proved('LD I,A : IM 2', spec)
    refuted('LD I,A', spec)
    refuted('', spec)
