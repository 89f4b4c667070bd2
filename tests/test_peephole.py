"""Is what the optimiser returns the same program? Random programs, before and after, on the emulator; beside them what upeepz80 makes of the same text.

    python tests/test_peephole.py        20,000 programs, recorded in nbs/runs/peephole.jsonl
"""
import json, random, sys, time

import numpy as np
import pytest

from z80lit.asm import assemble
from z80lit.emulator import Z80
from z80lit.peephole import agree, filled, load_rules, optimise
from z80lit.record import write_run
from z80lit.verify import ATOMS, atoms

ORIGIN, CALLER, SP = 0x8000, 0xFE00, 0xF100
R8, PAIRS, CONDITIONS = 'ABCDEHL', ('BC', 'DE', 'HL'), ('NZ', 'Z', 'NC', 'C')
ALU = 'ADD A,', 'ADC A,', 'SUB ', 'SBC A,', 'AND ', 'XOR ', 'OR ', 'CP '
ROTATE = 'RLC RRC RL RR SLA SRA SLL SRL'.split()
LIVE = '*', 'A', 'HL', 'A,CF', 'BC,DE', 'A,HL,ZF', 'A,B,C,D,E,H,L', 'A,F', 'DE,CF,SF', ''

# Programs

def constant(rng): return rng.choice([0, 1, 255, 0x80, 0x0F, rng.randrange(256), rng.randrange(256)])

def computing(rng):
    "An instruction that computes in registers"
    r, s, p = rng.choice(R8), rng.choice(R8), rng.choice(PAIRS)
    return rng.choice([f'LD {r},{s}', f'LD {r},{s}', f'LD {r},{constant(rng)}', f'LD A,{constant(rng)}', f'LD {p},{rng.choice([0, 5, rng.randrange(0x7000)])}', f'{rng.choice(ALU)}{r}', f'{rng.choice(ALU)}{constant(rng)}',
                       f'{rng.choice(["INC", "DEC"])} {r}', f'{rng.choice(["INC", "DEC"])} {p}', f'{rng.choice(ROTATE)} {r}', f'{rng.choice(ROTATE)} A', f'{rng.choice(["BIT", "RES", "SET"])} {rng.randrange(8)},{r}',
                       f'{rng.choice(["ADD", "ADC", "SBC"])} HL,{p}', rng.choice('RLCA RRCA RLA RRA CPL NEG SCF CCF DAA NOP EXX'.split() + ['EX DE,HL', "EX AF,AF'", 'LD IXH,B', 'ADD IX,BC', 'INC IX', 'XOR A', 'OR A'])])

def touching(rng):
    "An instruction with memory, a port or the stack"
    r, p = rng.choice(R8), rng.choice(PAIRS)
    return rng.choice([f'LD {r},(HL)', f'LD (HL),{r}', 'LD A,(DE)', 'LD (BC),A', f'LD {r},(IX+{rng.randrange(5)})', f'LD (IY-3),{r}', 'INC (HL)', f'BIT {rng.randrange(8)},(HL)', f'{rng.choice(ROTATE)} (HL)', 'LD (4000h),A', 'LD A,(4001h)',
                       f'LD (4002h),{p}', f'LD {p},(4004h)', f'{rng.choice(ALU)}(HL)', 'RLD', 'LDI', f'OUT ({rng.randrange(256)}),A', f'OUT (C),{r}', 'IN A,(7)', f'IN {r},(C)', 'CPI', 'OUTI', f'PUSH {p} : POP {rng.choice(PAIRS)}', 'PUSH AF : POP BC', 'LD A,I'])

def block(rng, n): return [touching(rng) if rng.random() < .15 else computing(rng) for _ in range(n)]

def random_program(rng) -> str:
    "A program of 4 to 25 instructions, with jumps forwards, counted loops, and one of three ends"
    lines, label = [], 0
    for _ in range(rng.choice([1, 1, 2, 3])):
        label += 1
        part, kind = block(rng, rng.randrange(3, 9)), rng.random()
        if kind < .3: part.insert(rng.randrange(len(part)), f'{rng.choice(["JR", "JP"])} {rng.choice(CONDITIONS)},L{label}'); part.append(f'L{label}:')
        elif kind < .45: part = [f'LD B,{rng.randrange(1, 6)}', f'L{label}:'] + part + [f'DJNZ L{label}']
        lines += part
    return '\n'.join(l if l.endswith(':') else '        ' + l.replace(' : ', '\n        ') for l in lines + [rng.choice(['', 'RET', 'HALT'])]) + '\n'

# Judging

def machine(code, rng):
    "A machine in a random state, the program in place, a caller waiting"
    cpu = Z80(sp=SP, pc=ORIGIN)
    for pair in 'bc', 'de', 'hl', ('ixh', 'ixl'), ('iyh', 'iyl'), 'af':
        word = rng.choice([0, 0x0100, rng.randrange(65536), rng.randrange(0x4000, 0x7000)])
        cpu.state[pair[0]], cpu.state[pair[1]] = word >> 8, word & 255
    for name, top in (*dict.fromkeys('af_ bc_ de_ hl_ wz'.split(), 65536).items(), ('i', 256), ('q', 256), ('iff2', 2)): cpu.state[name] = rng.randrange(top)
    noise = np.frombuffer(rng.randbytes(256), np.uint8)
    cpu.memory.reshape(256, 256)[:] = noise
    cpu.inputs.reshape(256, 256)[:] = noise[::-1]
    for at, data in (SP, CALLER.to_bytes(2, 'little')), (CALLER, b'\x76'), (ORIGIN, code + b'\x76'): cpu.memory[at:at + len(data)] = list(data)
    return cpu

def run(code, seed):
    "The machine after the program, or None if it does not end"
    cpu = machine(code, random.Random(seed))
    cpu.run(20_000)
    return cpu if cpu.halted else None

def end_of(cpu, code): return 'end' if cpu.pc == ORIGIN + len(code) + 1 else 'ret' if cpu.pc == CALLER + 1 else 'inside'

def difference(code, other, live, seed):
    "What differs after the two programs, None if nothing does or the first does not end"
    a, b = run(code, seed), run(other, seed)
    if a is None or a.memory[CALLER] != 0x76: return None            # or one that has overwritten its caller
    if b is None: return 'the second does not end'
    if end_of(a, code) != end_of(b, other): return 'they end elsewhere'
    for n in sorted(live):
        if n == 'f_' and a.f_ != b.f_ and not (a.f_ ^ b.f_) & ~0x28: return f'xf or yf in f_ is {a.f_:X}h and {b.f_:X}h'
        if getattr(a, n) != getattr(b, n): return f'{n} is {getattr(a, n):X}h and {getattr(b, n):X}h'
    size = max(len(code), len(other)) + 1
    for m in a.memory, b.memory: m[ORIGIN:ORIGIN + size] = m[SP - 64:SP] = 0      # the program, and what is below the stack
    if (a.memory != b.memory).any(): return 'memory'
    if a.outputs != b.outputs: return 'ports'

def touches_itself(code, seed):
    "Does a pointer come near the program's own bytes? Then nothing was promised"
    cpu = machine(code, random.Random(seed))
    while not cpu.halted and cpu.tstates < 20_000:
        if any(ORIGIN - 140 <= getattr(cpu, n) <= ORIGIN + len(code) + 140 for n in 'bc de hl ix iy sp'.split()): return True
        cpu.step()
    return False

def unsound(code, other, live, seeds):
    "The first difference that counts"
    if code == other: return None
    for seed in seeds:
        found = difference(code, other, live, seed)
        if found and not touches_itself(code, seed): return found

def by_upeepz80(text):
    "What the other optimiser makes of a text, as bytes; or what is wrong"
    upeepz80 = pytest.importorskip('upeepz80') if 'pytest' in sys.modules else __import__('upeepz80')
    return assemble(upeepz80.optimize(text), ORIGIN)

def tstates(code, seed): return getattr(run(code, seed), 'tstates', 0)

def trial(seed, others=('all alive', 'upeepz80')):
    "One random program, optimised with some and with all registers alive, and by the other optimiser: (bytes saved, T-states saved in one run, changed?, what is wrong) of each"
    rng = random.Random(seed)
    text, live, objective = random_program(rng), rng.choice(LIVE), rng.choice(['bytes', 'tstates', 'both'])
    code, seeds = assemble(text, ORIGIN), [seed*10 + k for k in range(4)]
    def row(other, live, wrong=None):
        same = other == code
        return len(code) - len(other), 0 if same or not tstates(other, seeds[0]) else tstates(code, seeds[0]) - tstates(other, seeds[0]), not same, wrong or unsound(code, other, live, seeds)
    rows = {}
    for name, wanted in [('some alive', live)] + [('all alive', '*')]*('all alive' in others):
        done = optimise(text, wanted, objective, ORIGIN)
        worse = done.refused or done.bytes_saved < 0 and objective != 'tstates' or done.tstates_saved < 0 and objective != 'bytes'
        rows[name] = row(done.code, {a for n in done.live_out for a in atoms(n)}, worse and 'refused or worse')
    if 'upeepz80' in others: rows['upeepz80'] = row(by_upeepz80(text), {*ATOMS})
    return dict(size=len(code), tstates=tstates(code, seeds[0]), rows=rows, text=text, live=live)

# Tests

def test_random_programs():
    "None of these is changed in what it does"
    saved = 0
    for seed in range(500):
        done = trial(seed, others=())
        for name, row in done['rows'].items(): assert not row[3], f'seed {seed}, alive {done["live"]}, {name}: {row[3]}\n{done["text"]}'
        saved += done['rows']['some alive'][0]
    assert saved > 1500

@pytest.mark.slow
def test_twenty_thousand_random_programs():
    for seed in range(20_000): assert not any(row[3] for row in trial(seed, others=())['rows'].values()), seed

def test_rules_hold():
    "A sample of the table, for constants that it was not made with, on the emulator: where the proof says yes, it is so"
    rng, rules = random.Random(5), sorted(load_rules().items())
    for window, found in rng.sample(rules, 150):
        env = dict(n=rng.randrange(256), m=rng.randrange(256), w=rng.randrange(65536))
        code = assemble(filled(window, env))
        for dead, other in found:
            other = assemble(filled(other, env))
            sound = {a for a in ATOMS if a not in dead and agree(code, other, a)}
            for seed in range(3): assert difference(code, other, sound, seed) is None, (window, dead, other.hex())

@pytest.mark.parametrize('text, live', [('loop: LD A,0 : JR NZ,loop : RET', 'A'), ('LD B,3 : loop: LD A,0 : ADD A,A : DJNZ loop : RET', 'A'), ('CALL f1 : LD A,0 : RET : f1: LD C,0 : RET', 'A')])
def test_objectives_never_get_worse(text, live):
    for objective in 'bytes', 'tstates', 'both':
        done = optimise(text, live, objective)
        assert not done.refused and done.bytes_saved >= 0 and done.tstates_saved >= 0

def test_pointers_are_seen_in_wz():
    "Seed 13528: SBC HL,DE leaves HL + 1 in WZ, and BIT 0,(HL) shows two bits of it"
    text = 'LD H,A : LD L,H : SBC HL,DE : LD HL,12507 : BIT 0,(HL)'
    code, other = assemble(text, ORIGIN), optimise(text, '*').code
    assert all(difference(code, other, {*ATOMS}, seed) is None for seed in range(135280, 135300))

def test_tables_move():
    "What a program reads from its data is the same, wherever they are now"
    text = 'LD C,0 : LD B,3 : LD HL,table : LD DE,(word) : loop: LD A,0 : ADD A,(HL) : INC HL : ADD A,C : LD C,A : LD A,E : LD (DE),A : DJNZ loop : LD A,C : RET : table: DB 17,4,9 : word: DW spare : spare: DB 0,0'
    done = optimise(text, 'A')
    assert not done.refused and done.bytes_saved >= 2
    a, b = run(done.original, 1), run(done.code, 1)
    assert a.a == b.a == 30 and a.memory[ORIGIN + len(done.original) - 2] == (ORIGIN + len(done.original) - 2) & 255 and b.memory[ORIGIN + len(done.code) - 2] == (ORIGIN + len(done.code) - 2) & 255
    assert optimise('ORG 9000h : ' + text, 'A').code != optimise(text, 'A').code and optimise('ORG 8000h : ' + text, 'A').code == done.code

def test_jumps_into_a_window():
    "A place that is jumped to is not melted into what stands before it"
    text = 'LD B,1 : JR Z,l1 : LD B,7 : l1: LD C,2 : RET'
    done = optimise(text, 'BC')
    assert not [c for c in done.changes if 'LD BC' in c.after]
    assert optimise('LD B,7 : LD C,2 : RET', 'BC').code == assemble('LD BC,0702h : RET')

@pytest.mark.parametrize('names', ['Q1', 'AB', 'A,,Z'])
def test_bad_names(names):
    with pytest.raises(ValueError, match='live_out'): optimise('RET', names)
    with pytest.raises(ValueError, match='objective'): optimise('RET', 'A', 'speed')

@pytest.mark.parametrize('words, stdin, status', [(['--live', 'A', '-'], 'LD A,0\nRET\n', 0), (['-c', '3E 00 C9', '--from', 'hex', '--live', 'A'], None, 0), (['-c', 'JP (HL)'], None, 1), (['-c', 'LD A,'], None, 2),
                                                  (['-c', 'RET', '--live', 'Q'], None, 2), (['-c', 'RET', '--objective', 'beauty'], None, 2), (['A -> Q'], None, 2), ([], None, 2)])
def test_command_line(words, stdin, status):
    from typer.testing import CliRunner
    from z80lit.cli import app
    said = CliRunner().invoke(app, ['optimise', *words, '--json'], input=stdin)
    assert said.exit_code == status, said.output
    if status == 0: assert json.loads(said.output)['code'] in ('97c9', 'afc9')
    if status == 1: assert 'JP (HL)' in json.loads(said.output)['refused']

def judged(seeds):
    "Processor time, and for each optimiser the sums over some programs and what is wrong"
    started, sums, wrong = time.process_time(), {}, {}
    for seed in seeds:
        done = trial(seed, ('all alive', 'upeepz80')[seed % 8 > 0:])
        for name, row in done['rows'].items():
            hidden = bool(row[3]) and row[3].split()[0] in ('xf', 'yf')
            numbers = 1, done['size'], done['tstates'], *row[:2], bool(row[2]), bool(row[3]) and not hidden, hidden
            sums[name] = [x + int(y) for x, y in zip(sums.get(name, [0]*8), numbers)]
            if row[3]: wrong.setdefault(name, []).append(dict(seed=seed, what=row[3], program=done['text'], alive=done['live']))
    return time.process_time() - started, sums, wrong

def record(n=20_000, path='nbs/runs/peephole.jsonl'):
    "Judge n programs, on all cores; every eighth also with everything alive; all also as the other optimiser leaves them"
    from importlib.metadata import version
    from joblib import Parallel, delayed
    from tqdm import tqdm
    cpu, sums, wrong = 0, {}, {}
    for t, some, bad in tqdm(Parallel(n_jobs=-1, return_as='generator')(delayed(judged)(range(k, min(k + 500, n))) for k in range(0, n, 500)), total=-(-n//500), unit='500 programs', disable=None):
        cpu += t
        for name in some:
            sums[name] = [x + y for x, y in zip(sums.get(name, [0]*8), some[name])]
            wrong[name] = wrong.get(name, []) + bad.get(name, [])
    rows = [dict(zip(('optimiser', 'programs', 'bytes', 'tstates', 'bytes_saved', 'tstates_saved', 'changed', 'unsound', 'undocumented'), (name, *s)), wrong=wrong[name]) for name, s in sums.items()]
    write_run(path, dict(command='python tests/test_peephole.py', programs=n, states=4, upeepz80=version('upeepz80')), rows, dict(programs=n, states=4, cpu_s=round(cpu)), seed=0)

if __name__ == '__main__': record(*map(int, sys.argv[1:2]))
