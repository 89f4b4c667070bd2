"""Random programs on three emulators: this one, `z80-python` (the oracle: pure Python, says it models all of the state) and `z80` (a second opinion: C++).

A case is two byte strings: one spells the program, the other the state it starts from, so that fewer and smaller bytes make a simpler case.
`compare` runs a case whole on all three. Where they end differently it runs them again one instruction at a time, puts each difference down to
one of the known `CAUSES`, copies our state over and goes on. A difference without a cause is an `AssertionError`; the recorded run counts them.

    python tests/fuzz.py --cases 1000000        record a run in nbs/runs/fuzz.jsonl; started again, it goes on where it was stopped
"""
import argparse, importlib.metadata, json, time
from collections import Counter, namedtuple
from pathlib import Path

import numpy as np
from tqdm import tqdm
from z80 import Z80Machine
from z80_python import Z80CPU, CPUState

from z80lit.emulator import INT_ONCE, NMI, STATE32, Registers, new_machines, run_machine
from z80lit.isa import disassemble
from z80lit.record import Recorder, read_run

# Cases

PAGES = [b'', b'', b'\xcb', b'\xed', b'\xdd', b'\xfd', b'\xdd\xcb', b'\xfd\xcb']
PAIRS = 'bc de hl ix iy sp wz af_ bc_ de_ hl_ af pc'.split()
KNOBS = 2*len(PAIRS) + 9
RNG = np.random.default_rng(0)
IMAGES = [np.zeros(65536, np.uint8), RNG.integers(0, 256, 65536, dtype=np.uint8)]   # what lies around the program
INPUTS = RNG.integers(0, 256, 65536, dtype=np.uint8)

Case = namedtuple('Case', 'lines state image events bus when budget')
Case.__doc__ = "Instructions (bytes each), registers by name, number of the image; at T-state `when` the `events` (bits: 1 INT with `bus` on the bus, 2 NMI)"

def _size(page, op):
    "Bytes of an instruction; a prefix or a row of them counts alone"
    code = page + (b'\0' if len(page) == 2 else b'') + bytes([op])
    return len(code) if code[-1] in (0xDD, 0xFD, 0xCB, 0xED) and len(page) < 2 else disassemble(code + bytes(3))[0].size

FAVOURITES = [(0, 0xFB), (0, 0xFB), (0, 0xF3), (0, 0x37), (0, 0x3F), (4, 0x37), (5, 0x3F), (3, 0x57), (3, 0x5F), (3, 0xB0), (0, 0xF1), (0, 0x08)]   # as (page, opcode)
SIZES = [[_size(page, op) for op in range(256)] for page in PAGES]

def spell(program):
    "The instructions that a byte string stands for: for each a page, an opcode, and operands. All opcodes are as likely but for a few that interrupts or Q look at"
    lines, at = [], 0
    while at < len(program):
        k, op = program[at] & 7, program[at + 1] if at + 1 < len(program) else 0
        if program[at] >= 0xF0: k, op = FAVOURITES[op % len(FAVOURITES)]
        page = PAGES[k]
        n = SIZES[k][op] - len(page) - 1
        operands = program[at + 2:at + 2 + n].ljust(n, b'\0')
        lines.append(page + operands + bytes([op]) if len(page) == 2 else page + bytes([op]) + operands)
        at += 2 + n
    return lines

def decode(program, knobs):
    "The case of two byte strings, `program` of any length and `knobs` of `KNOBS` bytes"
    words = [knobs[2*k] << 8 | knobs[2*k + 1] for k in range(len(PAIRS))]
    s, (bits, near, i, r, im, events, bus, when, budget) = dict(zip(PAIRS, words)), knobs[2*len(PAIRS):]
    if bits & 0x80: s['pc'] |= 0xFFF0                # a quarter of the programs run over the end of memory
    for k, name in enumerate(PAIRS[:6]):            # some pointers point into the program
        if bits & 0x40 and near >> k & 1: s[name] = s['pc'] + (s[name] & 31) - 8 & 0xFFFF
    s |= dict(i=i, r=r, im=im % 3, iff1=bits & 1, iff2=bits >> 1 & 1, after_ei=bits >> 2 & 1, q=s['af'] & 0xFF if bits & 8 else 0)
    return Case(spell(program), s, bits >> 4 & 1, events & 3 if events & 0x80 else 0, bus | 0xC7, 2*when, 2*budget)

def show(case):
    "A case as text, the program disassembled"
    at, text = case.state['pc'], []
    for code in case.lines:
        chain = code[-1] in (0xDD, 0xFD, 0xCB, 0xED) and len(code) < 3 and code[0] in (0xDD, 0xFD, 0xCB, 0xED)
        text.append(f"{at:04X}  {code.hex(' '):12} {'prefix' if chain else disassemble(code)[0].text}")
        at = at + len(code) & 0xFFFF
    state = ' '.join(f'{k}={v:X}' for k, v in case.state.items() if v)
    return '\n'.join(text + [f"with {state or 'all zero'}, image {case.image}, events {case.events} (bus {case.bus:X}) at T {case.when}, budget {case.budget}"])

# The three machines, with one face: put, step, get, memory, ports

FIELDS = 'a f b c d e h l ix iy sp pc wz i r iff1 iff2 im af_ bc_ de_ hl_ q after_ei halted t'.split()
State = namedtuple('State', FIELDS)
AT = {n: k for k, n in enumerate(STATE32)}

class Ours:
    def __init__(self):
        self.machines = new_machines()
        m = self.machines.view(np.ndarray)          # plain fields are quicker from Python than those of a recarray
        self.memory, self.words, self.out, self.bus = m['memory'][0], m['head'][0].view(np.int32), m['out'][0], m['bus'][0]
        self.clock, self.nout, self.asked = m['tstates'], m['nout'], m['pending']
        m['inp'] = INPUTS

    def put(self, s, memory):
        "Requests of interrupts stay as they are"
        self.memory[:] = memory
        v = dict.fromkeys(STATE32, 0) | s._asdict()
        v |= dict(ixh=s.ix >> 8, ixl=s.ix & 255, iyh=s.iy >> 8, iyl=s.iy & 255, r7=s.r >> 7, held=s.after_ei, pending=int(self.asked[0]), bus_size=1)
        self.words[:len(STATE32)] = [v[n] for n in STATE32]
        self.clock[0], self.nout[0] = s.t, 0

    def get(self):
        v = dict(zip(STATE32, self.words.tolist()))
        v |= dict(ix=v['ixh'] << 8 | v['ixl'], iy=v['iyh'] << 8 | v['iyl'], r=v['r'] & 127 | v['r7'] << 7, after_ei=v['held'] & 1, t=int(self.clock[0]))
        return State(*[v[n] for n in FIELDS])

    def run(self, limit): run_machine(self.machines, limit, NO_STOPS)
    def step(self): self.run(int(self.clock[0]) + 1)
    def request(self, events, bus):
        self.bus[0] = bus
        self.asked |= (INT_ONCE if events & 1 else 0) | (NMI if events & 2 else 0)
    def clear(self): self.asked[:] = 0
    def forget(self): self.nout[0] = 0
    def ports(self): return [(e >> 8, e & 255) for e in self.out[:self.nout[0]].tolist()]
    pending = property(lambda self: bool(self.asked[0] & INT_ONCE) | bool(self.asked[0] & NMI) << 1, doc='As `events`')

NO_STOPS = np.zeros(0, bool)

class Oracle:
    def __init__(self):
        self.memory, self.out = bytearray(65536), []
        self.cpu = Z80CPU(self.memory.__getitem__, self.memory.__setitem__, read_port=INPUTS.tolist().__getitem__, write_port=lambda p, v: self.out.append((p, v)))

    def put(self, s, memory):
        "Requests of interrupts stay as they are"
        self.memory[:] = memory.tobytes()
        self.out.clear()
        d, c = s._asdict(), self.cpu
        self.t, delay = d.pop('t'), d.pop('after_ei')
        for k in 'iff1', 'iff2', 'halted': d[k] = bool(d[k])
        for k in 'af', 'bc', 'de', 'hl': d[k + '_alt'] = d.pop(k + '_')
        c.restore_state(CPUState(**d, ei_delay=delay, maskable_interrupt_vector=c._pending_maskable_interrupt,
                                 non_maskable_interrupt_pending=c.non_maskable_interrupt_pending))

    def get(self):
        c = self.cpu                                # capture_state() raises after EI; DI, where the delay becomes -1
        return State(c.a, c._f, c.b, c.c, c.d, c.e, c.h, c.l, c.ix, c.iy, c.sp, c.pc, c.wz, c.i, c.r, int(c.iff1), int(c.iff2), c.im,
                     c.af_, c.bc_, c.de_, c.hl_, c.q, max(0, c._ei_delay), int(c.halted), self.t)

    def step(self): self.t += self.cpu.step()
    def run(self, limit):
        c, t = self.cpu, self.t
        while t < limit:
            if c.halted and not c.non_maskable_interrupt_pending and not (c.iff1 and c.maskable_interrupt_pending): break
            t += c.step()
        self.t = t
    def request(self, events, bus):
        if events & 1: self.cpu.request_maskable_interrupt(bus)
        if events & 2: self.cpu.request_non_maskable_interrupt()
    def clear(self):
        self.cpu.clear_maskable_interrupt()
        self.cpu.clear_non_maskable_interrupt()
    def forget(self): self.out.clear()
    def ports(self): return self.out

# The state of a Z80Machine as it lies in memory
SECOND = np.dtype([(n, 'u1') for n in 'cbedlhfa'] + [(n, '<u2') for n in ('pc', 'sp', 'wz', 'last_read')] + [('ticks_to_stop', '<u4'), ('t', '<u4'), ('ix', '<u2'), ('iy', '<u2')]
                  + [(n, '<u2') for n in ('bc_', 'de_', 'hl_', 'af_')] + [(n, 'u1') for n in ('r', 'i', 'iff1', 'iff2', 'after_ei', 'halted', 'im', 'prefix')])

class Second:
    "It has no NMI pin and no Q; it executes prefixes one at a time and goes on through HALT"
    def __init__(self):
        self.z, self.out, self.bus, self.asked = Z80Machine(), [], 0xFF, False
        view = self.z.get_state_view()
        self.state, self.memory = np.frombuffer(view, SECOND, 1), np.frombuffer(view, np.uint8, offset=SECOND.itemsize)
        self.clock, self.limit, self.prefix = (self.state[n] for n in ('t', 'ticks_to_stop', 'prefix'))
        self.z.set_input_callback(INPUTS.tolist().__getitem__)
        self.z.set_output_callback(lambda p, v: self.out.append((p, v)))
        self.z.set_get_int_vector_callback(lambda: self.bus)

    def put(self, s, memory):
        self.memory[:] = memory
        self.out.clear()
        d = s._asdict() | dict(last_read=0, ticks_to_stop=0, prefix=0)
        self.state[0] = tuple(d[n] for n in SECOND.names)

    def get(self):
        d = dict(zip(SECOND.names, self.state[0].item()))
        return State(*[d.get(n, 0) for n in FIELDS])

    def run(self, limit):
        "To a T-state at which the other machine stopped: between instructions, and just past a HALT if there is one"
        while self.asked and self.clock[0] < limit: self.step()
        if self.clock[0] < limit:
            self.limit[0] = limit - int(self.clock[0])
            self.z.run()
            while self.prefix[0]: self._one()
    def _one(self):
        self.limit[0] = 1
        self.z.run()
    def step(self):
        if self.asked and self.z.on_handle_active_int(): self.asked = False
        else:
            self._one()
            while self.prefix[0]: self._one()
    def request(self, events, bus): self.asked, self.bus = bool(events & 1), bus
    def clear(self): self.asked = False
    def forget(self): self.out.clear()
    def ports(self): return self.out

# Comparing

Step = namedtuple('Step', 'code before earlier mine theirs')
Step.__doc__ = "One instruction: its bytes (none: an interrupt was taken), the state before, the bytes of the one before, and what each machine made of it"

def start(case):
    s = dict(case.state)
    for p in 'af', 'bc', 'de', 'hl':
        w = s.pop(p)
        s |= {p[0]: w >> 8, p[1]: w & 0xFF}
    memory, code = IMAGES[case.image].copy(), b''.join(case.lines)
    memory[(s['pc'] + np.arange(len(code))) & 0xFFFF] = np.frombuffer(code, np.uint8)
    return State(**s, halted=0, t=0), memory

def fetched(memory, pc):
    "The instruction at `pc` with its prefixes, the displacement of DD CB and FD CB taken out"
    at = lambda k: int(memory[(pc + k) & 0xFFFF])
    n = 0
    while at(n) in (0xDD, 0xFD) and at(n + 1) in (0xDD, 0xFD, 0xED) and n < 65536: n += 1   # those before the last have no effect
    first = at(n)
    if first in (0xDD, 0xFD): return bytes([first, 0xCB, at(n + 3)] if at(n + 1) == 0xCB else [first, at(n + 1)])
    return bytes([first, at(n + 1)] if first in (0xCB, 0xED) else [first])

# For each emulator: cause -> (why, whether it applies to a step, what may differ, which bits of F)
SPOILT_P = ('an INT right after LD A,I or LD A,R does not spoil P, as it does on NMOS chips', lambda s: not s.code and s.earlier in (b'\xed\x57', b'\xed\x5f'), set(), 0x04)
CAUSES = dict(
    oracle={
        'EI after EI': ('a row of EI holds an INT off until its second EI, not until the instruction after its last',
                        lambda s: s.code[-1:] == b'\xfb' and s.before.after_ei, {'after_ei'}, 0),
        'INT after LD A,I': SPOILT_P,
        'NMI with IFF1 and IFF2 unlike': ('an NMI copies IFF1 to IFF2; ours clears IFF1 and leaves IFF2 alone', lambda s: not s.code, {'iff2'}, 0),
        'NMI after EI': ('the NMI does not end the wait after EI (it shows in nothing: IFF1 is 0)', lambda s: not s.code and s.before.after_ei, {'after_ei'}, 0),
    },
    second={
        'INT after LD A,I': SPOILT_P,
        'Q': ('SCF and CCF take Y and X from A alone', lambda s: s.code in SCF_CCF, set(), 0x28),
        'repeating LD, CP': ('Y and X of a repeating LDIR, LDDR, CPIR or CPDR are those of its last iteration, not of PC',
                             lambda s: s.code in LD_CP, set(), 0x28),
        'repeating IN, OUT': ('a repeating INIR, INDR, OTIR or OTDR does not set WZ, nor H, P, Y and X once more',
                              lambda s: s.code in IN_OUT and s.mine[0].b, {'wz'}, 0x3C),
        'WZ of INI, IND': ('WZ is made from B after the decrement, not before; so, too, in the last iteration of INIR and INDR',
                           lambda s: s.code in INI_IND or s.code in IN_OUT and not s.mine[0].b, {'wz'}, 0),
        'IM 0': ('it calls 0038h whatever is on the bus', lambda s: not s.code and s.before.im == 0, {'pc', 'wz'}, 0),
    })
SCF_CCF = {p + op for p in (b'', b'\xdd', b'\xfd') for op in (b'\x37', b'\x3f')}
INI_IND, LD_CP, IN_OUT = ({b'\xed' + bytes([op]) for op in ops} for ops in ((0xA2, 0xAA), (0xB0, 0xB1, 0xB8, 0xB9), (0xB2, 0xB3, 0xBA, 0xBB)))

def explain(who, step, case):
    "The names of the known causes of a difference; AssertionError if they do not cover it"
    (a, *mine), (b, *theirs) = step.mine, step.theirs
    differ, bits = {n for n, x, y in zip([*FIELDS, 'memory', 'ports'], [*a, *mine], [*b, *theirs]) if x != y}, a.f ^ b.f
    known = {name: c for name, c in CAUSES[who].items() if c[1](step) and (differ & c[2] or bits & c[3])}
    if differ - {'f'} <= set().union(*(c[2] for c in known.values())) and not bits & ~sum({c[3] for c in known.values()}): return known
    values = ', '.join(f'{n} {getattr(a, n):X} (theirs {getattr(b, n):X})' for n in FIELDS if n in differ)
    raise AssertionError(f"{who}: {step.code.hex(' ') or 'interrupt'} at {step.before.pc:04X}: {values} {differ - set(FIELDS) or ''}\n{show(case)}")

class Rig:
    "The three machines, and a table of the differences met"
    def __init__(self):
        self.ours, self.others, self.causes = Ours(), dict(oracle=Oracle(), second=Second()), Counter()

    def ends(self, who, machine):
        "What is compared. The second opinion has no Q"
        s = machine.get()
        return s._replace(q=0) if who == 'second' else s, bytes(machine.memory), list(machine.ports())

    def compare(self, case):
        "Run a case on all three; AssertionError with the program at the first difference that has no cause"
        first, memory = start(case)
        phases = [(case.when if case.events else 0, 0), (case.budget, case.events)]
        self.ours.clear()
        self.ours.put(first, memory)
        stops = []
        for limit, events in phases:
            self.ours.request(events, case.bus)
            self.ours.run(limit)
            stops.append(int(self.ours.clock[0]))
        ends = {who: self.ends(who, self.ours) for who in self.others}
        for who, other in self.others.items():
            if who == 'second' and case.events & 2: continue
            other.clear()
            other.put(first, memory)
            for (limit, events), stop in zip(phases, stops):
                other.request(events, case.bus)
                other.run(limit if who == 'oracle' else stop)
            if ends[who] != self.ends(who, other): self.walk(case, who, other, phases)

    def walk(self, case, who, other, phases):
        "Run a case whose ends differ one instruction at a time, explaining every difference"
        ours, earlier, met = self.ours, b'', False
        for m in ours, other:
            m.clear()
            m.put(*start(case))
        for limit, events in phases:
            for m in ours, other: m.request(events, case.bus)
            while ours.clock[0] < limit:
                before, waiting, code = ours.get(), ours.pending, fetched(ours.memory, ours.get().pc)
                ours.step()
                if ours.clock[0] == before.t: break     # halted
                other.step()
                if ours.pending != waiting: code = b''
                mine, theirs = self.ends(who, ours), self.ends(who, other)
                if mine != theirs:
                    met = True
                    self.causes.update((who, name) for name in explain(who, Step(code, before, earlier, mine, theirs), case))
                    other.clear()
                    other.put(ours.get(), ours.memory)
                    other.request(ours.pending, case.bus)
                earlier = code
                ours.forget()
                other.forget()
        assert met, f'{who} differs, but not one instruction at a time:\n{show(case)}'

# The recorded run

BLOCK = 10_000                                      # cases to a line of the record
RUN = Path(__file__).resolve().parent.parent/'nbs'/'runs'/'fuzz.jsonl'

def block(rig, seed, k):
    "Compare the `k`-th block of random cases: the causes met, by name, and the messages of differences without one, if any"
    rng, rig.causes, found = np.random.default_rng([seed, k]), Counter(), []
    for _ in range(BLOCK):
        try: rig.compare(decode(rng.bytes(int(rng.integers(0, 64))), rng.bytes(KNOBS)))
        except AssertionError as e: found.append(str(e))
    return dict(differences={f'{who}: {name}': n for (who, name), n in sorted(rig.causes.items())}) | (dict(unexplained=found) if found else {})

def summary(rows):
    causes = sum((Counter(r['differences']) for r in rows), Counter())
    why = {f'{who}: {name}': c[0] for who in CAUSES for name, c in CAUSES[who].items()}
    return dict(cases=sum(r['cases'] for r in rows), cpu=round(sum(r['cpu'] for r in rows)), unexplained=sum(len(r.get('unexplained', [])) for r in rows),
                differences={name: dict(count=n, why=why[name]) for name, n in causes.most_common()})

def record(cases, seed, path=RUN):
    "Compare `cases` random cases, a line of the record for each block; a run that was stopped goes on"
    command = f'python tests/fuzz.py --cases {cases} --seed {seed}'
    peers = {p: importlib.metadata.version(p) for p in ('z80-python', 'z80')}
    config = dict(command=command, cases=cases, block=BLOCK, bytes_of_program='0..63', budget='0..510 T-states', against=peers)
    part, rig = path.with_name(path.name + '.part'), Rig()
    header, rows, _ = read_run(part) if part.exists() else ({}, [], None)
    if header.get('config') != config: rows = []
    with Recorder(path, config, seed, rows) as run, tqdm(total=cases, initial=len(rows)*BLOCK, unit='case', disable=None) as bar:
        for k in range(len(rows), -(-cases//BLOCK)):
            t = time.process_time()
            rows.append(dict(block=k, cases=BLOCK) | block(rig, seed, k))
            rows[-1]['cpu'] = round(time.process_time() - t, 1)
            run.row(**rows[-1])
            bar.update(BLOCK)
        run.close(**summary(rows))
    return summary(rows)

if __name__ == '__main__':
    parser = argparse.ArgumentParser(description='Compare the core with z80-python and z80 on random programs and record it')
    parser.add_argument('--cases', type=int, default=1_000_000)
    parser.add_argument('--seed', type=int, default=0)
    print(json.dumps(record(**vars(parser.parse_args())), indent=1))
