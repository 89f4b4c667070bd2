"The second description of the Z80, in formulas, against the first: every instruction of every page, from random states."
import random, sys

import numpy as np
import pytest
import z3

import z3

from z80lit import smt
from z80lit.emulator import REG8, Z80
from z80lit.asm import assemble
from z80lit.isa import encode, table
from z80lit.smt import NotCovered, WIDTHS, follow, fresh, prove, run
from z80lit.verify import Spec, SpecError, evaluate, verify

PAGES = '', 'CB', 'ED', 'DD', 'FD', 'DDCB', 'FDCB'
SHOWN = [n for n in WIDTHS if n not in ('nout', 'q0')]
UNCOVERED = {'LD A,R', 'LD R,A', 'JP (HL)', 'JP (IX)', 'JP (IY)'}


def background(a, k):
    "A memory with something different nearly everywhere, for NumPy and for Z3"
    low, high = (a & 0xFF, a >> 8) if isinstance(a, np.ndarray) else (z3.Extract(7, 0, a), z3.Extract(15, 8, a))
    return (low*37 + high*91 + k) & 0xFF


def arrays(code, origin):
    "What stands for memory, ports and output before the program runs"
    word, a = z3.BitVecSort(16), z3.BitVec('address', 16)
    memory = z3.Lambda([a], background(a, 11))
    for k, v in enumerate(code): memory = z3.Store(memory, z3.BitVecVal(origin + k, 16), z3.BitVecVal(v, 8))
    names = {'memory': (8, memory), 'ports': (8, z3.Lambda([a], background(a, 200))), 'out': (24, z3.K(word, z3.BitVecVal(0, 24)))}
    return [(z3.Array(n, word, z3.BitVecSort(w)), v) for n, (w, v) in names.items()]


def packed(s):
    "All that a state says, as a list of bit-vectors: taken?, PC, registers, output, and (happens?, address, byte) of each write"
    pc = s.goal if s.pc == 'ret' else z3.BitVecVal(0 if isinstance(s.pc, str) else s.pc, 16)
    truth = lambda c: z3.If(c, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))
    writes = [v for path, a in s.writes for v in (truth(path), a, z3.Select(s.memory, a))]
    return [truth(s.path), pc, *s.reg, *(getattr(s, n) for n in SHOWN), s.nout, z3.Select(s.out, s.nout - 1), *writes]


def unpack(number, parts):
    "The values of `parts` in the constant that their concatenation became"
    values = []
    for p in reversed(parts):
        values.append(number & (1 << p.size()) - 1)
        number >>= p.size()
    return values[::-1]


def random_state(rng):
    "Registers by name; edge values often"
    edge = lambda w: rng.choice([0, 1, (1 << w) - 1, 1 << w - 1, (1 << w - 1) - 1, 0x99 & (1 << w) - 1])
    value = lambda w: edge(w) if rng.random() < 0.25 else rng.randrange(1 << w)
    regs = {n: value(8) for n in REG8} | {n: value(w) for n, w in WIDTHS.items()}
    return regs | {'nout': 0, 'q': regs['f'] if rng.random() < 0.5 else 0, 'q0': 0, 'im': rng.randrange(3)}


MEMORY, PORTS = background(np.arange(65536), 11).astype(np.uint8), background(np.arange(65536), 200).astype(np.uint8)


def start(cpu, code, origin, values):
    "Bring the emulator into the state `values`"
    cpu.state['head'] = 0
    for n in (*REG8, *SHOWN): setattr(cpu, n, values[n])
    cpu.pc = origin
    cpu.memory[:], cpu.inputs[:] = MEMORY, PORTS
    cpu.load(code, origin)


def compare(cpu, code, origin, after, states, go, name, between=False):
    "The `states` through the formulas of the states `after` and on the emulator, which `go` moves on; how many were compared"
    parts, n = [packed(s) for s in after], 0
    whole = z3.Concat(*(p for ps in parts for p in ps))
    for values in states:
        start(cpu, code, origin, values)
        go(cpu)
        log = {int(a) & 0xFFFF for a in cpu.state['log'][:int(cpu.state['nlog'])]}
        if len(after) == 1 and log & set(range(origin, origin + len(code))) and not between: continue        # it wrote over itself
        letters = [(z3.BitVec(n, w), z3.BitVecVal(values[n], w)) for n, w in (*((n, 8) for n in REG8), *WIDTHS.items())]
        done = z3.simplify(z3.substitute(whole, letters + arrays(code, origin)))
        assert z3.is_bv_value(done), name
        flat, taken = unpack(done.as_long(), [p for ps in parts for p in ps]), []
        for s, ps in zip(after, parts):
            if flat[0]: taken.append((s, flat[:len(ps)]))
            flat = flat[len(ps):]
        assert len(taken) == 1, f'{name}: {len(taken)} ways at once'
        (s, v), there = taken[0], {n: getattr(cpu, n) for n in ('pc', *REG8, *SHOWN)}
        here = dict(zip(('pc', *REG8, *SHOWN), v[1:]))
        if isinstance(s.pc, str) and s.pc != 'ret': here['pc'] = there['pc']
        if between and there['pc'] == origin:                              # between two rounds of a block instruction: see the chapter
            for side in here, there: side['f'], side['q'], side['wz'] = side['f'] & 0xC3, 0, 0
        assert here == there, f'{name} {code.hex()} from {values}: {[(n, here[n], there[n]) for n in here if here[n] != there[n]]}'
        assert cpu.halted == (s.pc == 'halt')
        nout, last, *rest = v[1 + 1 + len(REG8) + len(SHOWN):]
        assert nout == len(cpu.outputs) and (not nout or cpu.outputs[-1] == (last >> 8, last & 0xFF)), name
        assert {a: b for happens, a, b in zip(rest[::3], rest[1::3], rest[2::3]) if happens} == {a: int(cpu.memory[a]) for a in log}, name
        n += 1
    return n


def operands(rng): return dict(n=rng.randrange(256), nn=rng.randrange(65536), d=rng.randrange(-128, 128), e=rng.randrange(-128, 128))


@pytest.mark.parametrize('page', PAGES)
def test_every_instruction(page, cases=3):
    rng, cpu, uncovered, n = random.Random(f'smt {page}'), Z80(), set(), 0
    for op in table(page):
        if op.mnemonic == 'prefix': continue
        code, origin = encode(op, **operands(rng)), rng.randrange(0x10000 - 8)
        repeats = op.mcycles != op.mcycles_taken and page == 'ED'
        try: n += compare(cpu, code, origin, follow(fresh(code, origin)), [random_state(rng) for _ in range(cases)], Z80.step, op.text, between=repeats)
        except NotCovered: uncovered.add(op.text)
    print(f'{page or "main"}: {n} cases, not covered: {uncovered}')
    assert uncovered <= UNCOVERED and n > 700


def test_decimal_adjustment():
    "DAA on every A and every C, H and N; SCF and CCF on every F, with and without Q"
    rng, cpu = random.Random(4), Z80()
    daa = [random_state(rng) | {'a': a, 'f': f} for a in range(256) for f in (0, 1, 2, 3, 16, 17, 18, 19)]
    carry = [random_state(rng) | {'f': f, 'q': q} for f in range(256) for q in (0, f)]
    for code, states in (b'\x27', daa), (b'\x37', carry), (b'\x3F', carry):
        assert compare(cpu, code, 0x4000, follow(fresh(code, 0x4000)), states, Z80.step, code.hex()) == len(states)


def random_program(rng):
    "Three to eight instructions of any kind but returns, calls and far jumps, some of them short jumps forward, and a HALT"
    lines = []
    for _ in range(rng.randrange(3, 9)):
        op = rng.choice(table(rng.choice(PAGES)))
        if op.mnemonic in ('prefix', 'HALT', 'RET', 'RETI', 'RETN', 'RST', 'CALL', 'JP', 'JR', 'DJNZ') or op.mcycles != op.mcycles_taken: continue
        lines.append(encode(op, **operands(rng)))
    for k in sorted(rng.sample(range(len(lines) + 1), min(2, len(lines))), reverse=True):
        over = b''.join(lines[k:k + rng.randrange(3)])
        lines.insert(k, bytes([rng.choice([0x10, 0x18, 0x20, 0x28, 0x30, 0x38]), len(over)]))
    return b''.join(lines) + b'\x76'


def test_random_programs(programs=150, cases=4):
    "Paths that part and meet, over several instructions"
    rng, cpu, n, merged = random.Random('smt programs'), Z80(), 0, 0
    for _ in range(programs):
        code, origin = random_program(rng), rng.randrange(0x10000 - 64)
        try: ends = run(fresh(code, origin))
        except NotCovered: continue
        merged += any(z3.is_app_of(r, z3.Z3_OP_ITE) for r in ends['halt'].reg)
        n += compare(cpu, code, origin, list(ends.values()), [random_state(rng) for _ in range(cases)], lambda cpu: cpu.run(5000), code.hex())
    print(f'{n} runs, {merged} programs with merged registers')
    assert n > 2*programs and merged > programs//10


# Proofs and refutations

def says(source, line, origin=0, timeout=60.0, **options):
    return prove(assemble(source, origin), Spec(line, **options), timeout, origin)


PROVED = [
    ('LD B,A : ADD A,A : ADD A,A : ADD A,B : ADD A,A', 'A -> A*10', 'BF'),
    ('CP 10 : SBC A,69h : DAA', 'A in 0..15 -> 48 + A if A < 10 else 55 + A', 'F'),
    ('LD L,A : ADD A,A : SBC A,A : LD H,A', 'A -> HL = s8(A)', 'AF'),
    ('OR A : JP P,skip : NEG : skip:', 'A -> abs(s8(A))', 'F'),
    ('LD B,A : ADD A,A : SBC A,A : SUB B : ADC A,B', 'A -> (s8(A) > 0) - (s8(A) < 0)', 'BF'),
    ('OR A : SBC HL,DE : ADD HL,DE', 'HL, DE -> CF = HL < DE, ZF = HL == DE', 'F'),
    ('ADD A,L : LD L,A : ADC A,H : SUB L : LD H,A', 'HL, A -> HL + A', 'AF'),
    ('XOR A : SUB L : LD L,A : SBC A,A : SUB H : LD H,A', 'HL -> -HL', 'AF'),
    ('LD L,A : ADD A,A : ADD A,L : LD L,A : LD H,0 : ADD HL,HL : ADD HL,HL : ADD HL,HL : ADD HL,HL', 'A in 0..85 -> HL = A*48', 'AF'),
    ('ADD A,0FFh : SBC A,A : INC A', 'A -> A == 0', 'F'),
    ('ADD A,B : LD C,A : SBC A,A : OR C', 'A, B -> min(A + B, 255)', 'CF'),
    ('CP B : JR C,skip : LD A,B : skip:', 'A, B -> min(A, B)', 'F'),
    ('LD D,0 : LD B,8 : loop: SLA A : RL D : LD E,A : LD A,D : CP 10 : JR C,skip : SUB 10 : LD D,A : INC E : skip: LD A,E : DJNZ loop : RET', 'A -> A//10, D = A % 10', 'BEF'),
    ('CALL two : CALL two : RET : two: ADD HL,HL : RET', 'HL -> HL*4', 'F'),
    ('PUSH BC : POP IX : RET', 'BC -> IX = BC', ''),
    ('LDI : LDI : RET', 'HL in 9000h..9FFEh, DE in 0A000h..0B000h, mem[HL], mem[HL+1] -> mem[DE] = mem[HL], mem[DE+1] = mem[HL+1]', 'BCDEFHL'),
    ('LD HL,table : LD C,A : LD B,0 : ADD HL,BC : LD A,(HL) : RET : table: DB 1,2,4,8', 'A in 0..3 -> 1 << 3 if A == 3 else 1 << 2 if A == 2 else A + 1', 'BCFHL'),
    ('LD A,7 : IN A,(0FEh) : CPL : RET', 'port[7FEh] -> A = 255 - port[7FEh]', 'F'),
    ('OUT (C),A : RET', 'A, BC -> out[BC] = A', '')]

@pytest.mark.parametrize('source, line, clobbers', PROVED, ids=[line for _, line, _ in PROVED])
def test_proved(source, line, clobbers):
    for origin in 0, 0x8123: assert says(source, line, origin, clobbers=clobbers).proved


REFUTED = [                                         # source, line, clobbers, kind, inputs
    ('RLA : LD B,A : RLA : RLA : ADD A,B', 'A in 0..9 -> A*10', 'BF', 'reads junk', {}),
    ('DAA : ADD A,0F0h : ADC A,40h', 'A in 0..15 -> 48 + A if A < 10 else 55 + A', 'F', 'reads junk', {'a': 0}),
    ('LD A,L : CP E : LD A,H : SBC A,D', 'HL, DE -> CF = HL < DE, ZF = HL == DE', 'AF', 'counterexample', {'hl': 0, 'de': 0xFF01}),
    ('LD L,A : ADD A,A : ADD A,L : LD L,A : LD H,0 : ADD HL,HL : ADD HL,HL : ADD HL,HL : ADD HL,HL', 'A -> HL = A*48', 'AF', 'counterexample', {'a': 86}),
    ('LD A,1', 'A -> A == 0', 'F', 'counterexample', {'a': 1}),
    ('CP B : JP M,skip : LD A,B : skip:', 'A, B -> min(A, B)', 'F', 'counterexample', {}),
    ('RET Z : INC A : RET', 'A -> A + 1', 'F', 'reads junk', {'a': 0}),
    ('INC A : RET NZ', 'A -> A + 1', 'F', 'counterexample', {'a': 255}),
    ('LD (HL),A : RET', 'A -> A', 'F', 'writes outside', {'a': 0}),
    ('PUSH HL : RET', 'HL -> HL', '', 'counterexample', {}),
    ('POP HL : PUSH HL : RET', 'A -> A', '', 'writes outside', {}),
    ('OUT (C),A : RET', 'A -> A', '', 'counterexample', {'a': 0}),
    ('LD HL,table : LD C,A : LD B,0 : ADD HL,BC : LD A,(HL) : RET : table: DB 1,2,4,9', 'A in 0..3 -> 1 << 3 if A == 3 else 1 << 2 if A == 2 else A + 1', 'BCFHL', 'counterexample', {'a': 3})]

@pytest.mark.parametrize('source, line, clobbers, kind, inputs', REFUTED, ids=[f'{k}-{line}' for _, line, _, k, _ in REFUTED])
def test_refuted(source, line, clobbers, kind, inputs):
    "The counterexample has been seen on the emulator (else `prove` raises); and the exhaustive method finds one, too"
    v = says(source, line, clobbers=clobbers)
    assert v.refuted and v.kind == kind and inputs.items() <= v.inputs.items() and v.begin
    if line.split(',')[0] != 'HL': assert verify(source, Spec(line, clobbers=clobbers)).refuted


@pytest.mark.parametrize('source, line, why', [
    ('loop: ADD A,A : DJNZ loop', 'A, B -> A', 'a loop'), ('LDIR', 'BC -> BC = 0', 'a loop'), ('LD A,R', 'A -> A', 'R, the count'), ('JP (HL)', 'HL -> HL', 'depends on the inputs'),
    ('CALL 5', 'A -> A', '0005h, outside'), ('JR $', 'A -> A', 'more than 2000'), ('DB 0CBh', 'A -> A', '0001h, outside'), ('LD (HL),A', 'A, HL -> A', 'write over itself'),
    ('NOP', 'A, B if B > 0 -> A // B', 'no constant'), ('NOP', 'A -> twice(A)', 'function twice')])
def test_not_covered(source, line, why):
    v = says(source, line, clobbers='*', functions={'twice': lambda x: 2*x}, writes=((0, 65535),), ends='end')
    assert (v.kind, v.proved, v.refuted) == ('not proved: not covered', False, False) and why in v.why
    assert v.as_dict()['why'] == v.why


def test_a_deadline():
    loop = 'LD HL,0 : LD D,H : LD B,8 : loop: ADD HL,HL : RLCA : JR NC,skip : ADD HL,DE : skip: DJNZ loop : RET'
    v = says(loop, 'A, E -> HL = A*E', clobbers='*', timeout=0.001)
    assert v.kind == 'not proved: no answer' and not v.proved and not v.refuted


def test_equivalence():
    way, other = 'ADD HL,HL : RL E : RL D : RET', assemble('ADD HL,HL : EX DE,HL : ADC HL,HL : EX DE,HL : RET')
    assert says(way, 'DE, HL -> DE, HL', like=other, clobbers='F').proved
    assert says(way, 'DE, HL -> DE, HL, F', like=other).refuted
    rear = assemble('INC HL : INC DE : LDD : LDD : RET')
    line = 'HL, DE, mem[HL], mem[HL+1]{} -> mem[DE], mem[DE+1]'
    assert says('LDI : LDI : RET', line.format(''), like=rear, clobbers='ABCDEFHL').refuted
    assert says('LDI : LDI : RET', line.format(' if DE - HL & 0FFFFh != 1 and HL - DE & 0FFFFh != 1'), like=rear, clobbers='ABCDEFHL').proved


def test_empty_proofs():
    "From a precondition that nothing fulfils, or a model that does not behave, nothing is proved"
    for line in 'A if A > 300 -> A + 1', 'HL in 0..1 -> mem[HL] = 1':
        with pytest.raises(SpecError, match='no input fulfils'): says('NOP : NOP', line, clobbers='*')
    with pytest.raises(SpecError, match='does not itself fulfil'): says('INC A : RET', 'A -> A', like=assemble('INC A : RET Z : LD B,1 : RET'), clobbers='F')
    v = says('INC A : RET', 'A -> A', like=assemble('INC A : LD R,A : RET'), clobbers='F')
    assert v.kind == 'not proved: not covered' and 'to imitate' in v.why


def test_without_z3(monkeypatch):
    monkeypatch.setitem(sys.modules, 'z3', None)
    with pytest.raises(ImportError, match=r'pip install "z80lit\[smt\]"'): smt._Lazy().BitVec


def test_verify_hands_over():
    "`verify(method='smt')` is this method"
    v = verify('OR A : SBC HL,DE : ADD HL,DE', Spec('HL, DE -> CF = HL < DE', clobbers='F'), method='smt')
    assert v.proved and v.method == 'smt' and v.total == 2**32


def test_expressions_mean_the_same():
    "The formulas of specifications against their evaluation on numbers"
    lines = ['A*B - 7', 'A // 10', 'A % 7 + s8(B)', 's8(A) // 3', 's8(A) % 5', 'min(A, B) if A & 1 else max(A, s8(B))', 'abs(s8(A)) << 2', '~A >> 1', '-(A ^ B) | 3', 'parity(A)', 's16(A*300) > s8(B)',
             'not A', '(A < B) + (A == B) * 2 + (A != 3 <= B)', 'A and B', 'A or B > 200', '+A']
    rng = np.random.default_rng(3)
    for line in lines:
        spec = Spec(f'A, B -> HL = {line}')
        s, (a, b) = fresh(b''), rng.integers(0, 256, (2, 40))
        env = smt.environment(s, spec)
        want = evaluate(spec.outputs[0].expr, {'': np.zeros(40), 'a': a, 'b': b})
        whole, narrow = smt.formula(spec.outputs[0].expr, env), smt.low(spec.outputs[0].expr, env, 16)
        for x, y, w in zip(a.tolist(), b.tolist(), want.tolist()):
            letters = [(z3.BitVec('a', 8), z3.BitVecVal(x, 8)), (z3.BitVec('b', 8), z3.BitVecVal(y, 8))]
            assert smt.number(z3.substitute(whole, letters)) == w % 2**64, (line, x, y)
            assert smt.number(z3.substitute(narrow, letters)) == w % 2**16, (line, x, y)
