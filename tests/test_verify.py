"The verifier against itself: taint against the emulator, the compiled loop against single runs, the specification language against Python, bad input."
import csv, io, json, random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from z80lit import isa
from z80lit.emulator import NAMES, Z80, new_machines, get_register, registers, run_batch, set_register
from z80lit.asm import assemble
from z80lit.isa import disassemble
from z80lit.verify import *
from z80lit.verify import BUDGET, CHANGED, ELSEWHERE, OK, OUTSIDE, PORTS, WRONG, Spec, verify

# Taint: for every instruction it knows, nothing changes that it calls independent

def known_instructions():
    "(code, text) of every instruction that `effects` describes"
    for prefix in '', 'CB', 'ED', 'DD', 'FD', 'DDCB', 'FDCB':
        for op in isa.table(prefix):
            if op.mnemonic == 'prefix' or op.ignored_prefix: continue
            code = isa.encode(op, n=0x5B, nn=0xC3A7, d=-3, e=4)
            i = disassemble(code)[0]
            text = i.note or i.text
            try: effects(text)
            except Unknown: continue
            yield code, text

def test_taint_follows_the_emulator():
    rng = np.random.default_rng(5)
    codes, texts = zip(*known_instructions())
    assert len(codes) > 1150
    entry = [a for a in (*ATOMS, 'r', 'wz', 'q')]
    described = []
    for text in texts:
        state = at_entry()
        apply(state, text)
        described.append(state)
    exits = [a for a in ATOMS]
    programs = [c + b'\x76' for c in codes]
    for trial in range(12):
        base = registers(**{n: int(rng.integers(0x10, 1 << w)) if (w := sum(w for *_, w in NAMES[n])) > 4 else int(rng.integers(1 << w)) for n in
                            'a f b c d e h l ixh ixl iyh iyl af_ bc_ de_ hl_ i r wz q iff1 iff2'.split()}, sp=int(rng.integers(0x4000, 0xF000)), im=trial % 3)
        if trial % 3 == 0: set_register(base, 'f', 0xFF*(trial//3 % 2))
        starts = np.repeat(base.reshape(1), len(entry) + 1)
        for k, name in enumerate(entry, 1):
            width = sum(w for *_, w in NAMES[name])
            old = int(get_register(base, name))
            value = (old + int(rng.integers(1, 3 if name == 'im' else 1 << width))) % (3 if name == 'im' else 1 << width)
            s = starts[k:k + 1]
            set_register(s, name, np.array([value]))
        runs = [run_batch(programs, init=starts[None], final=True, fill=fill, budget=40) for fill in (0x5A, 0x91)]
        values = [np.array([get_register(b.registers, x) for x in exits]) for b in runs]      # (exits, N, V)
        same = values[0] == values[0][:, :, :1]
        memory = values[0][:, :, 0] == values[1][:, :, 0]
        for n, (text, state) in enumerate(zip(texts, described)):
            for e, x in enumerate(exits):
                changed = {entry[k - 1] for k in np.flatnonzero(~same[e, n])} | ({'mem'} if not memory[e, n] else set())
                assert changed <= state[x].deps, (text, x, changed - state[x].deps)
                if state[x] == Value([x], True): assert (values[0][e, n, 0] == get_register(base, x)), (text, x, 'is not kept')

# The compiled loop against plain single runs, which share with it nothing but the emulator

def random_program(rng):
    "A few random instructions, without those that mostly crash"
    codes = [bytes([b]) for b in range(0x40, 0xC0) if b != 0x76] + [bytes.fromhex(h) for h in '07 0F 17 1F 27 2F 37 3F 03 13 23 09 19 29 04 05 0C 0D 34 35 08 D9 EB C5 C1 F5 F1 E5 E1 C9 C0 C8 D8 ED44 ED52 ED67 ED57 ED79 ED78 EDA0 76'.split()]
    codes += [bytes([0x3E, rng.randrange(256)]), bytes([0x21, rng.randrange(256), rng.randrange(256)]), bytes([0x20, rng.randrange(8)]), bytes([0x10, rng.choice([0, 1, 0xFE])]), bytes([0x32, rng.randrange(20), 0])]
    return b''.join(rng.choice(codes) for _ in range(rng.randint(1, 6)))

LINES_TRIED = ['A, B in 0..7 -> A + B', 'HL in 9000h..9010h, mem[HL], A in 0|255 -> mem[HL] = A, CF = 0', 'BC in 0..3, SF -> out[BC] = BC & 255', 'A in 1..9, port[0FFh] -> A', 'SP in 0C000h..0C003h, A -> A']

def test_engine_agrees_with_single_runs():
    rng, machines, seen = random.Random(7), new_machines(1), set()
    for trial in range(250):
        code, line = random_program(rng), LINES_TRIED[trial % len(LINES_TRIED)]
        spec = Spec(line, clobbers=rng.choice(['*', 'F', 'AF', '']), stack=rng.choice([0, 2, 32]), ends=rng.choice(['end', 'halt'] if 'SP' in line else [None, 'end', 'ret', 'halt']))
        try: rows = Rows(spec); plan = make_plan(code, spec, rows, budget=500)
        except SpecError as e:
            assert 'SP' in str(e); continue
        X = rows.inputs_at(0, min(rows.total, 2000))
        Y, _ = rows.table(X[:, rng.sample(range(X.shape[1]), 4)])
        for j in range(4):
            for v in rng.sample(range(32), 3):
                one = np.ascontiguousarray(Y[:, j:j + 1])
                what, t = check_slice(machines, 0, plan, one, 1, v)[1:3]
                again = rerun(spec, plan, Y[:, j], start_of(plan, v))
                assert max(what, OK) == again.what, (code.hex(), spec, v, what, again[:3])
                if what == OK: assert t == again.cpu.tstates
                seen.add(again.what)
        for v in 3, 4:                                        # a slice is as its columns are one by one
            n = check_slice(machines, 0, plan, Y, 4, v)[0]
            alone = [check_slice(machines, 0, plan, np.ascontiguousarray(Y[:, j:j + 1]), 1, v)[1] > OK for j in range(4)]
            assert n == (alone.index(True) if True in alone else 4)
    assert seen == {OK, BUDGET, ELSEWHERE, OUTSIDE, WRONG, CHANGED, PORTS}

def test_smallest_counterexample_and_threads():
    spec, code = Spec('A, B -> A + B', clobbers='F'), assemble('ADD A,B : CP 200 : RET NZ : INC A : RET')
    v = [verify(code, spec, threads=t) for t in (1, 2, 3)]
    assert all(x.inputs == {'a': 0, 'b': 200} for x in v)
    assert v[0].as_dict() == v[1].as_dict() == v[2].as_dict()

def test_other_clocks_agree_with_the_plain_one():
    for text, line in [('ADD A,A : ADD A,A', 'A -> A*4'), ('OR A : JP P,s : NEG : s:', 'A -> abs(s8(A))'), ('PUSH BC : LD B,5 : x: DJNZ x : POP BC', 'A -> A')]:
        plain, msx, cpc = (verify(text, Spec(line, clobbers='F'), timing=t) for t in ('z80', 'msx', 'cpc'))
        assert plain.proved and msx.proved and cpc.proved
        assert plain.tstates[0] < msx.tstates[0] and cpc.tstates[0] >= plain.tstates[0] and cpc.tstates[0] % 4 == 0
    assert verify('DB 0DDh : DB 0DDh : LD A,A', Spec('A -> A'), timing='z80').tstates[:2] == (12, 12)
    assert verify('DB 0DDh : DB 0DDh : LD A,A', Spec('A -> A'), timing='msx').tstates[:2] == (15, 15)
    monkey = times('z80')
    for t in range(5): assert (monkey[t] > 0).all()

# measured on a CPC, in microseconds: https://cpctech.cpcwiki.de/docs/instrtim.html
MEASURED = {'NOP': 1, 'LD BC,1234h': 3, 'INC HL': 2, 'INC B': 1, 'LD B,5': 2, 'RLCA': 1, 'ADD HL,DE': 3, 'LD A,(BC)': 2, 'LD (1234h),HL': 5, 'LD (1234h),A': 4, 'INC (HL)': 3, 'LD (HL),5': 3,
            'RET': 3, 'POP BC': 3, 'PUSH BC': 4, 'JP 1234h': 3, 'CALL 1234h': 5, 'RST 8': 4, 'RLC (HL)': 4, 'BIT 1,(HL)': 3, 'SET 1,(HL)': 4, 'IN A,(5)': 3, 'OUT (5),A': 3, 'EXX': 1, 'ADD IX,BC': 4, 'LD IX,1234h': 4, 'LD (1234h),IX': 6}

def test_cpc_times_as_measured():
    for text, us in MEASURED.items():
        code = assemble(text)
        page = {0xCB: 1, 0xED: 2, 0xDD: 3}.get(code[0], 0)
        assert times('cpc')[page, code[1] if page else code[0], 0] == 4*us, text

# The specification language against Python

names = st.sampled_from(['A', 'B', 'HL', 'CF'])
expressions = st.recursive(names | st.integers(0, 300).map(str), lambda e: st.one_of(
    st.tuples(e, st.sampled_from('+ - * & | ^ == < <= !='.split()), e).map(lambda t: f'({t[0]} {t[1]} {t[2]})'), st.tuples(st.sampled_from(['-', '~']), e).map(''.join),
    st.tuples(e, e, e).map(lambda t: f'({t[0]} if {t[1]} else {t[2]})'), st.tuples(e, e).map(lambda t: f'min({t[0]}, {t[1]})'), e.map(lambda x: f's8({x})')), max_leaves=5)

@settings(max_examples=150, deadline=None)
@given(expressions, st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, 65535), st.integers(0, 1)), min_size=1, max_size=5))
def test_expressions_mean_what_python_means(text, states):
    rows = Rows(Spec(f'A, B, HL, CF -> HL = {text}'))
    Y, _ = rows.table(np.array(states).T)
    for a, b, hl, cf, got in Y.T.tolist():
        want = eval(text, dict(A=a, B=b, HL=hl, CF=cf, s8=lambda x: ((x & 255) ^ 128) - 128, min=min))
        assert (got - int(want)) & 0xFFFF == 0, text

@settings(max_examples=60, deadline=None)
@given(expressions, st.sampled_from(['A in 0..9, B in 3|250..255, HL in 0..1|8000h, CF', 'A in 255, B, HL in 77, CF in 1']))
def test_what_a_spec_says_of_itself(text, inputs):
    spec = Spec(f'{inputs} -> HL = {text}', clobbers='*')
    assert eval(repr(spec)) == spec
    rows = Rows(spec)
    X = rows.inputs_at(0, rows.total)
    assert X.shape[1] == spec.total == len(set(map(tuple, X.T.tolist()))) and sorted(map(tuple, X.T.tolist())) == list(map(tuple, X.T.tolist()))
    v = verify('', spec, samples=2000)
    Y, _ = rows.table(X)
    if not ((Y[-1] & 0xFFFF) == X[2]).all():
        j = int(np.flatnonzero((Y[-1] & 0xFFFF) != X[2])[0])
        assert v.refuted and v.inputs == dict(zip(('a', 'b', 'hl', 'cf'), X[:, j].tolist()))
    else: assert v.proved

# Bad input

@pytest.mark.parametrize('line, options, why', [
    ('A', {}, 'no arrow'), ('A -> ', {}, 'no output'), ('A -> C', {}, 'not an input'), ('A, A -> A', {}, 'twice'), ('AF, CF -> A = 1', {}, 'twice'), ('A in 300 -> A', {}, 'not a range'), ('A in x -> A', {}, 'not a number'),
    ('A -> mem[B] = A', {}, 'not an input'), ('A -> A', dict(clobbers='Q'), 'no register'), ('A -> A', dict(ends='stop'), 'one of'), ('A -> A', dict(writes=((5, 1),)), 'pairs'), ('A -> A', dict(stack=-1), 'stack'),
    ('(HL) -> A = (HL)', {}, 'memory is written mem.HL.'), ('HL -> A = (HL)', {}, 'mem.HL.'), ('HL -> (HL) = 1', {}, 'mem.HL.'), ('HL -> A = 1 + ( hl )', {}, 'mem.hl.'), ('A -> (8000h) = A', {}, 'mem.8000h.'), ('IX -> A = (IX+5)', {}, r'mem.IX.5.'), ('HL -> HL if (DE) -> 1', {}, 'mem.DE.'), ('A -> ' + '+'.join(['A']*5000), {}, 'too deep'),
    ('A -> 300', {}, '300 does not fit A: -128 to 255'), ('A -> -129', {}, '-129 does not fit A'), ('A -> CF = 2', {}, '2 does not fit CF: 0 to 1'), ('A -> CF = -1', {}, '-1 does not fit CF'), ('A -> HL = 65536', {}, '65536 does not fit HL'), ('A -> mem[8000h] = 256', {}, '256 does not fit mem.32768.'), ('A -> 5 if A else 300 if A else 1', {}, '300 does not fit A'), ('A -> mem[10000h] = A', {}, '65536 does not fit the address'),
    ('A -> __import__', {}, 'no place'), ('A -> (lambda: A)()', {}, 'no place'), ('A -> "x"', {}, 'no place'), ('A -> A**A', {}, 'no place'), ('A -> ', dict(like=b'\0'), 'no output')])
def test_contradictory_specs(line, options, why):
    with pytest.raises(SpecError, match=why): Spec(line, **options)

@pytest.mark.parametrize('line', ['A -> A*10', 'A -> 255', 'A -> -128', 'HL -> HL = (HL + 1)*300', 'A -> s8(A)', 'A -> abs (A)', 'A -> A + 300', 'A -> (A*2)', 'A, CF -> (CF)*2', 'HL -> HL = -32768'])
def test_what_may_stand_there(line): assert Spec(line, functions={'f': abs}).outputs

def test_specs_that_no_program_can_be_held_against():
    with pytest.raises(SpecError, match='no input fulfils'): verify('NOP', 'A if A > 255 -> A')
    with pytest.raises(SpecError, match='divides by zero'): verify('NOP', 'A, B -> A // B')
    with pytest.raises(SpecError, match='belongs to the program'): verify('NOP : NOP', '-> mem[1] = 0')
    with pytest.raises(SpecError, match='no room for a stack'): verify('NOP', 'HL in 16..0FFFFh, A -> mem[HL] = A')
    with pytest.raises(SpecError, match='does not fulfil|does not itself'): verify('NOP', Spec('A -> B', like=assemble('LD B,C'), clobbers='F'))
    with pytest.raises(SpecError, match='SP cannot be an input'): verify('RET', 'SP -> A = 1')
    with pytest.raises(ValueError, match='timing'): verify('NOP', 'A -> A', timing='c64')
    with pytest.raises(ValueError, match='method'): verify('NOP', 'A -> A', method='hope')
    with pytest.raises(ValueError): verify('NOPE', 'A -> A')
    with pytest.raises(TypeError, match='no truth value'): bool(verify('NOP', 'A -> A'))

def test_clear_outcomes():
    v = verify('loop: JR loop', 'A -> A', budget=1000)
    assert (v.kind, v.inputs, v.budget) == ('does not halt', {'a': 0}, 1000)
    assert verify('LD B,A : loop: DJNZ loop', Spec('A -> A', clobbers='BF'), budget=1000).inputs == {'a': 0}           # 256 rounds
    v = verify('LD (1234h),A', 'A -> A')
    assert (v.kind, v.got) == ('writes outside', {'writes': '1234h'})
    assert verify('LD (1234h),A', Spec('A -> A', writes=((0x1234, 0x1234),))).proved
    v = verify('LD C,B', Spec('A -> A'))
    assert v.kind == 'counterexample' and set(v.expected) == {'c'}
    assert verify('PUSH BC : POP BC', Spec('A -> A', stack=2)).proved
    assert verify('PUSH BC : POP BC', Spec('A -> A', stack=1)).kind == 'writes outside'
    assert verify('LD A,(1234h)', Spec('-> A = 7', clobbers='F')).kind == 'reads junk'
    assert verify('IN A,(5)', Spec('-> A = 7', clobbers='F')).kind == 'reads junk'
    assert verify('IN A,(5)', Spec('A in 3, port[305h] -> A = port[305h]', clobbers='F')).proved
    assert verify('LD HL,0 : ADD HL,SP', Spec('-> HL = 0', clobbers='F')).state.keys() == {'sp'}
    assert verify('LD B,5', Spec('-> A = 0', clobbers='B')).state.keys() == {'a'}
    assert verify('RET', 'A -> A').tstates[:2] == (10, 10)
    assert verify('RET NZ : NOP', Spec('A -> A', ends='end')).kind == 'reads junk'
    assert verify('POP HL : JP (HL)', Spec('A -> A', clobbers='HL', ends='ret')).proved
    assert verify('', 'A -> A').proved
    assert verify('LD SP,HL', 'A -> A').kind == 'counterexample'

def test_programs_that_write_themselves():
    patch = 'LD (n+1),A : n: LD A,0 : ADD A,A'                     # the operand is written before it is read
    v = verify(patch, Spec('A -> A*2', clobbers='F'))
    assert v.proved and 'writes into itself' in v.junk and v.n == 256
    once = 'LD HL,n : INC (HL) : n: LD A,0'                      # INC turns LD A,n into a CCF: what it does on a fresh copy is what counts
    assert verify(once, Spec('-> A = 0', clobbers='HLF')).refuted
    assert verify('n: LD A,1 : LD HL,n+1 : INC (HL)', Spec('-> A = 1', clobbers='HLF')).proved      # a second call would return 2
    assert verify('LD HL,0 : x: LD (HL),0 : INC HL : JR x', Spec('-> A = 1', clobbers='HLF')).refuted

def test_taint_decides_and_enumeration_is_the_referee():
    v = verify('INC C : DEC C : ADD A,A', Spec('A -> A*2', clobbers='F'))
    assert v.proved and 'all values of C' in v.junk
    v = verify('LD B,C : SRL B : RL C : SRL C : LD C,B', Spec('A -> A', clobbers='BF'))
    assert v.refuted and v.kind == 'counterexample'
    strange = 'LD A,B : CP 77h : LD A,0 : JR NZ,s : INC A : s:'    # depends on a single value of B
    v = verify(strange, Spec('-> A = 0', clobbers='F'))
    assert (v.kind, v.state) == ('reads junk', {'b': 0x77})
    assert 'mem' in verify('LD B,(HL) : LD A,B : XOR B', Spec('-> A = 0', clobbers='BF')).junk      # A XOR A in two registers: the analysis knows no values
    assert verify('LD B,(HL)', Spec('A -> A', clobbers='B')).junk.startswith('independent')

def test_functions_and_equivalence():
    assert verify('ADD A,A', Spec('A -> twice(A)', clobbers='F', functions={'twice': lambda a: 2*a})).proved
    spec = Spec('A, B -> A', like=assemble('ADD A,B : INC A'), clobbers='F')
    assert verify('INC B : ADD A,B : DEC B', spec).proved
    v = verify('ADD A,B', spec)
    assert (v.inputs, v.expected, v.got) == ({'a': 0, 'b': 0}, {'a': 1}, {'a': 0})

def test_large_spaces_are_sampled():
    v = verify('ADD HL,DE', Spec('HL, DE -> HL + DE', clobbers='F'), samples=5000, seed=3)
    assert v.kind == 'not proved: sampled' and not v.proved and not v.refuted and v.total == 1 << 32 and v.seed == 3 and v.n > 65536
    assert verify('ADD HL,DE', Spec('HL, DE -> HL + DE', clobbers='F'), samples=5000, seed=3).as_dict() == v.as_dict()

def test_tables():
    rows = [('ok', 'ADD A,A', 'A -> A*2', 'F'), ('wrong', '87 87', 'A -> A*2', 'F'), ('spec', '87', 'A -> Q', 'F'), ('asm', 'ADD A,Q', 'A -> A', '')]
    text = io.StringIO()
    out = csv.writer(text); out.writerow(['name', 'program', 'spec', 'clobbers']); out.writerows(rows)
    audit = verify_table(text.getvalue())
    assert audit.status == 2 and [r[0] for r in audit.wrong] == ['wrong', 'spec', 'asm']
    as_json = json.dumps([dict(zip(('name', 'program', 'spec', 'clobbers'), r)) for r in rows[:2]])
    assert verify_table(as_json).status == 1 and verify_table(json.dumps(json.loads(as_json)[:1])).status == 0
    assert [r['kind'] for r in json.loads(audit.as_json())] == ['proved', 'counterexample', 'error', 'error']
    for bad, why in [('', 'no rows'), ('program,spec\n', 'no rows'), ('program,what\n1,2\n', "no column 'what'"), ('program,spec\n1,2,3\n', 'more cells'), ('[1]', 'no object'), ('[{"program": "NOP"}]', 'no spec')]:
        with pytest.raises(ValueError, match=why): verify_table(bad)

def test_table_options():
    audit = verify_table(json.dumps([dict(program='LD (8000h),A', spec='A -> A', writes='8000h..80FFh'), dict(program='LD (8000h),A', spec='A -> A', writes='8001h'),
                                     dict(program='0x', spec='A -> A'), dict(program='NOP', spec='A -> A', stack='many')]))
    assert [getattr(v, 'kind', 'error') for *_, v in audit] == ['proved', 'writes outside', 'error', 'error'] and audit.status == 2
