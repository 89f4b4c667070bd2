"""Can the verifier be fooled? Programs that are proved are changed a little, and each of these mutants must be refuted, or be shown to be right by another route.

    python tests/test_mutation.py --mutants 20000 --out nbs/runs/mutation.jsonl      the whole experiment, a quarter of an hour of CPU time
"""
import argparse, random, time
from collections import Counter

import numpy as np
import pytest
from z80_python import Z80CPU
from tqdm import tqdm

import z3

from z80lit.emulator import NAMES
from z80lit.generator import generate
from z80lit.asm import assemble
from z80lit.isa import disassemble
from z80lit.smt import NotCovered, decide, problem
from z80lit.tasks import fresh_tasks
from z80lit.verify import ENDS, Rows, Spec, atoms, end_kind, evaluate, sample, task_spec, verify

STRANGERS = [                                       # questions people ask, with an answer that is right
    ('LD B,A : ADD A,A : ADD A,A : ADD A,B : ADD A,A', 'A -> A*10', 'BF'),
    ('CP 10 : SBC A,69h : DAA', 'A in 0..15 -> 48 + A if A < 10 else 55 + A', 'F'),
    ('LD L,A : ADD A,A : SBC A,A : LD H,A', 'A -> HL = s8(A)', 'AF'),
    ('OR A : JP P,skip : NEG : skip:', 'A -> abs(s8(A))', 'F'),
    ('LD B,A : ADD A,A : SBC A,A : SUB B : ADC A,B', 'A -> (s8(A) > 0) - (s8(A) < 0)', 'BF'),
    ('ADD A,L : LD L,A : ADC A,H : SUB L : LD H,A', 'HL, A -> HL + A', 'AF'),
    ('XOR A : SUB L : LD L,A : SBC A,A : SUB H : LD H,A', 'HL -> -HL', 'AF'),
    ('LD L,A : ADD A,A : ADD A,L : LD L,A : LD H,0 : ADD HL,HL : ADD HL,HL : ADD HL,HL : ADD HL,HL', 'A in 0..85 -> HL = A*48', 'AF'),
    ('ADD A,0FFh : SBC A,A : INC A', 'A -> A == 0', 'F'),
    ('ADD A,B : LD C,A : SBC A,A : OR C', 'A, B -> min(A + B, 255)', 'CF'),
    ('CP B : JR C,skip : LD A,B : skip:', 'A, B -> min(A, B)', 'F')]


def corpus(n):
    "`n` different (program, specification), programs right for all inputs"
    pairs = [(assemble(text), Spec(line, clobbers=clobbers)) for text, line, clobbers in STRANGERS]
    pairs += [(generate(t, 'all'), task_spec(t)) for t in fresh_tasks(4*n, seed=5) if t.params.get('n', 0) <= 8]    # long copies take the solver long
    return list({(p, s.text): (p, s) for p, s in pairs}.values())[:n]


# Mutants

def flip(code, rng):
    at = rng.randrange(8*len(code))
    return code[:at//8] + bytes([code[at//8] ^ 1 << at % 8]) + code[at//8 + 1:]

def swap(code, rng):
    parts = [i.code for i in disassemble(code)]
    k = rng.randrange(len(parts) - 1)
    return b''.join([*parts[:k], parts[k + 1], parts[k], *parts[k + 2:]])

def operand(code, rng):
    "Another register, condition or constant in one instruction"
    parts = [bytearray(i.code) for i in disassemble(code)]
    part = rng.choice(parts)
    if len(part) > 1 and part[0] not in (0xCB, 0xED): part[rng.randrange(1, len(part))] = rng.randrange(256)
    else: part[-1] = part[-1] & ~(7 << (shift := rng.choice((0, 3)))) | rng.randrange(8) << shift
    return b''.join(parts)

MUTATIONS = flip, swap, operand

def mutants(code, n, rng):
    "Up to `n` different (kind, mutant)"
    found = {}
    for _ in range(20*n):
        how = rng.choice(MUTATIONS)
        mutant = how(code, rng)
        if mutant != code and len(found) < n: found.setdefault(mutant, how.__name__)
    return [(how, m) for m, how in found.items()]


# The two other routes

def by_formula(code, spec):
    "'proved', 'refuted', 'unknown' or 'not covered', by Z3"
    try: return decide(problem(code, spec, 0), 20.0)[0]
    except NotCovered: return 'not covered'

def oracle_machine(code, regs, cells, image):
    "A z80-python machine in a start state, its program in place"
    memory = bytearray(image)
    for a, v in cells: memory[a & 0xFFFF] = v
    memory[:len(code)] = code
    cpu, written = Z80CPU(memory.__getitem__, lambda a, v: (written.add(a), memory.__setitem__(a, v))), set()
    for n, v in regs.items(): setattr(cpu, n, v)
    return cpu, memory, written

SIMPLE = 'a f b c d e h l ix iy sp'.split()

def by_oracle(code, spec, tries=400, seed=0):
    "Is the program right on z80-python, on `tries` of its inputs (all, if there are not more) with random junk?"
    rng, rows = np.random.default_rng(seed), Rows(spec)
    X = rows.inputs_at(0, rows.total) if rows.total <= tries else sample(rows, tries)
    table, _ = rows.table(X[:, rng.permutation(X.shape[1])[:tries]])
    ins, outs = [i.place for i in spec.inputs], [o.place for o in spec.outputs]
    image, how = rng.bytes(65536), ENDS[end_kind(code, spec)]
    for y in table.T.tolist():
        regs = {n: int(rng.integers(256)) for n in 'afbcdehl'} | {n: int(rng.integers(65536)) for n in ('ix', 'iy')} | {'sp': 0xFE00}
        addresses = dict(zip([(n, x.place.name) for n, x in rows.addressed], y[len(ins):]))
        cells = []
        for p, v in zip(ins, y):
            if p.kind == 'memory': cells.append((addresses['in', p.name], v))
            else: regs |= {part: v >> at & 0xFF for part, at in zip(reversed(atoms(p.name)), (0, 8))}
        cpu, memory, written = oracle_machine(code, regs, cells, image)
        for _ in range(500):
            if cpu.halted or cpu.pc == len(code): break
            cpu.step()
        if not (cpu.halted and how == 'halt' or cpu.pc == len(code) and how == 'end'): return False
        for p, v in zip(outs, y[rows.values:]):
            got = memory[addresses['out', p.name] & 0xFFFF] if p.kind == 'memory' else sum(getattr(cpu, part) << at for part, at in zip(reversed(atoms(p.name)), (0, 8)))
            if got != v & (1 << p.bits) - 1: return False
        if written - {addresses[k] & 0xFFFF for k in addresses if k[0] == 'out'} - {*range(0xFE00 - spec.stack, 0xFE00), *range(len(code))}: return False
        if any(getattr(cpu, n) != regs[n] for n in spec.preserved & set(SIMPLE)): return False
    return True


# The experiment

def judge(code, spec): return verify(code, spec, limit=1 << 16, samples=1 << 12, budget=500, junk=8, threads=1)

def trial(code, spec, ask):
    "What the verifier says of a mutant and what the others say: (verdict, by formula or None, by oracle or None); the formula is asked about a refuted one, too, if `ask`"
    v = judge(code, spec)
    return v, by_formula(code, spec) if ask or not v.refuted else None, None if v.refuted else by_oracle(code, spec)

def outcome(v, formula, oracle):
    "One word for a trial; 'wrong' is what must not happen"
    if v.refuted: return 'wrong: refuted, and proved by formula' if formula == 'proved' else 'refuted'
    if formula == 'proved': return 'equivalent, by formula' if oracle else 'wrong: the oracle differs'
    if formula == 'refuted': return 'wrong: proved, and refuted by formula' if v.proved else 'missed by sampling, refuted by formula'
    return 'equivalent on the oracle' if oracle else 'wrong: proved, and not so on the oracle' if v.proved else 'missed by sampling, refuted by the oracle'

def experiment(programs, wanted, seed=0, every=1, progress=lambda x: x):
    "A row for each program: its text, specification, and how many mutants had which outcome; one in `every` refutations is put to the formulas as well"
    rng, pairs, rows, done = random.Random(f'mutation {seed}'), corpus(programs), [], 0
    for k, (code, spec) in enumerate(progress(pairs)):
        assert by_formula(code, spec) == 'proved' and not judge(code, spec).refuted, (code.hex(), spec)
        tally, notes, changed = Counter(), [], mutants(code, wanted*(k + 1)//len(pairs) - done, rng)     # a short program has few: others make up for it
        done += len(changed)
        for n, (how, m) in enumerate(changed):
            v, formula, oracle = trial(m, spec, n % every == 0)
            word = outcome(v, formula, oracle)
            tally[word] += 1
            tally[f'of which {how}'] += 1
            if v.refuted and formula: tally[f'refuted, by formula {formula}'] += 1
            if word.startswith(('wrong', 'missed')) or word == 'equivalent on the oracle': notes.append([m.hex(' '), word, str(v)])
        rows.append({'program': code.hex(' '), 'spec': spec.text, 'outcomes': dict(tally)} | ({'notes': notes} if notes else {}))
    return rows

def total(rows):
    tally = Counter()
    for r in rows: tally.update(r['outcomes'])
    return dict(sorted(tally.items()))


def test_mutants(programs=125, wanted=1000):
    "Every mutant is refuted, or right by another route"
    rows = experiment(programs, wanted, every=8)
    tally = total(rows)
    print(tally)
    bad = [n for r in rows for n in r.get('notes', []) if n[1].startswith('wrong')]
    assert not bad, bad
    assert tally['refuted'] > 0.8*wanted


if __name__ == '__main__':
    from z80lit.record import write_run
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--programs', type=int, default=500)
    p.add_argument('--mutants', type=int, default=20_000)
    p.add_argument('--seed', type=int, default=0)
    p.add_argument('--out', default='nbs/runs/mutation.jsonl')
    a = p.parse_args()
    start = time.process_time()
    rows = experiment(a.programs, a.mutants, a.seed, progress=lambda x: tqdm(x, unit=' programs'))
    summary = {'programs': len(rows), 'mutants': sum(sum(v for k, v in r['outcomes'].items() if k == 'refuted' or k[:5] in ('equiv', 'misse', 'wrong')) for r in rows)} | total(rows)
    write_run(a.out, {'command': f'python tests/test_mutation.py --programs {a.programs} --mutants {a.mutants}', 'z3': z3.get_version_string()}, rows, summary | {'cpu_s': round(time.process_time() - start)}, a.seed)
    print(summary)
