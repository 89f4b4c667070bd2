"The bus trace against recorded ones (tests/conftest.py says where they are looked for), and against the core itself."
import numpy as np
import pytest

from test_emulator import COMPARED, load_lines, load_pack
from z80lit.bus import Kind, bus_trace, duration, mcycles, trace, watch
from z80lit.emulator import Stop, Z80, registers
from z80lit.asm import assemble
from z80lit.isa import table


def load_trace(path):
    "Where each case starts, and kind, address and data (-1: none) of every T-state"
    with np.load(path, allow_pickle=False) as z: return np.cumsum(z['t'], dtype=np.int64) - z['t'], z['pins'], z['addr'], z['data']


def test_single_step_traces(data_dir):
    "All 80,200 recorded cases, T-state by T-state"
    p, (start, *recorded) = load_pack(data_dir/'sst_z80_dev50.npz'), load_trace(data_dir/'sst_z80_dev50_trace.npz')
    n, cpu, failed = len(p['t']), Z80(), []
    heads = registers(n, keep_q=1, **{f: p['before'][f] for f in COMPARED}).view(np.int64).reshape(n, -1)
    for k in range(n):
        at = p['ram_addr'][:p['nram'][k], k]
        cpu.memory[at] = p['ram_i'][:len(at), k]
        cpu.machines.head[0] = heads[k]
        cpu.machines.nlog[0] = k                    # somewhere in the ring
        if p['port_dir'][k] == 1:
            cpu.inputs[:] = p['port_val'][k] ^ 0xFF
            cpu.inputs[p['port_addr'][k]] = p['port_val'][k]
        bus, rows = bus_trace(cpu), slice(start[k], start[k] + p['t'][k])
        ours = bus['kind'], bus['address'], bus['data']
        if not all(np.array_equal(x, y[rows]) for x, y in zip(ours, recorded)): failed.append(p['names'][k])
        cpu.memory[at] = 0
    assert n == 80_200 and not failed, (len(failed), sorted(set(failed)))


def listen(bus, memory, inputs):
    "Follow `bus` with a copy of the memory before: every byte read must be the one there, every byte taken in the one at the port; the memory after and the (port, byte) put out"
    memory, put = memory.copy(), []
    for (address, now, kind), (_, later, _) in zip(bus.tolist(), [*bus[1:].tolist(), (0, -1, 0)]):
        if kind == Kind.READ: assert memory[address] == later
        if kind == Kind.IN: assert inputs[address] == later
        if kind == Kind.WRITE: memory[address] = now
        if kind == Kind.OUT: put.append((address, now))
    return memory, put


def test_gap_cases(data_dir):
    "Ends of block instructions, rows of prefixes, undefined ED opcodes, wrap-around: no traces are recorded, but lengths, writes and ports"
    cases = load_lines(data_dir/'gap_cases.jsonl.gz')
    assert len(cases) == 3_130
    for case in cases:
        cpu = Z80(**{f: case['initial'][f] for f in COMPARED})
        for a, v in case['initial']['ram']: cpu.memory[a] = v
        for a, v, kind in case.get('ports', []):
            if kind == 'r': cpu.inputs[a] = v
        before = cpu.memory.copy()
        bus = bus_trace(cpu)
        after, put = listen(bus, before, cpu.inputs)
        assert len(bus) == case['t'] and (after == cpu.memory).all(), case['name']
        assert put == [(a, v) for a, v, kind in case.get('ports', []) if kind == 'w'], case['name']


def test_random_programs():
    "A trace is a run: the same state, clock and memory; and a listener on the bus ends with that memory, interrupts and all"
    rng = np.random.default_rng(3)
    for k in range(90):
        first, start = rng.integers(0, 256, 65536, dtype=np.uint8), {n: int(rng.integers(65536)) for n in 'af bc de hl ix iy sp pc'.split()}
        traced, ran = (Z80(im=int(k % 3), i=k, iff1=1, **start).load(first) for _ in 'ab')
        for cpu in traced, ran:
            cpu.inputs[:] = first[::-1]
            cpu.nmi = k % 2
            if k % 5 and k % 3: cpu.interrupt(k)    # not in IM 0, where PC stands still and the device gives the bytes
        t = trace(traced, 2000)
        ran.run(2000)
        assert (traced.machines.head == ran.machines.head).all() and (traced.memory == ran.memory).all() and t.t == traced.tstates == len(t.bus)
        memory, put = listen(t.bus, first, traced.inputs)
        assert (memory == traced.memory).all() and put[-256:] == traced.outputs
        assert all(s.t == len(s.bus) for s in t)


@pytest.mark.parametrize('im, bus, t, letters', [(0, 0xDF, 13, 'Kww'), (0, assemble('CALL NZ,1234h'), 19, 'Knnww'), (0, assemble('LD A,(IX+3)'), 21, 'KMnh'),
                                                 (1, 0xFF, 13, 'kww'), (2, 0xFE, 19, 'kwwvv')])
def test_interrupts(im, bus, t, letters):
    cpu = Z80(im=im, iff1=1, i=0x40, ix=0x5000, pc=0x8000).load([0x34, 0x12], 0x40FE).load([9], 0x5003)
    cpu.interrupt(bus)
    s = watch(cpu)
    assert (s.t, len(s.bus), ''.join(c.letter for c in s.cycles), s.text[:3]) == (t, t, letters, 'INT')
    assert [c.rest for c in s.cycles if c.letter in 'KMk'] == [0x4000 + k for k in range(sum(c.letter in 'KMk' for c in s.cycles))]
    assert s.memory == ({} if 'h' in letters else {0xFFEF: 0x80, 0xFFEE: 0x00})


def test_edges():
    cpu = Z80(pc=0xFFFF, sp=1).load([0xCD], 0xFFFF).load([0x34, 0x12])          # CALL 1234h, PC and SP wrap
    s = watch(cpu)
    assert (s.text, [c.address for c in s.cycles]) == ('CALL 1234h', [0xFFFF, 0, 1, 0, 0xFFFF])
    assert [c.data for c in s.cycles] == [0xCD, 0x34, 0x12, 0x00, 0x02]         # it overwrites what it was read from
    cpu = Z80().load([0xDD] * 65536)                                            # nothing but prefixes
    s = watch(cpu)
    assert s.t == len(s.bus) == cpu.tstates and {c.letter for c in s.cycles} == {'M'}
    cpu = Z80().load([0xDD] * 9 + [0x18, 0xFE])
    assert watch(cpu).text == 'JR 0009h'
    assert len(trace(Z80(), 0)) == 0 and trace(Z80(), 1).t == 4 and repr(trace(Z80(), 0)) == '0 steps, 0 T-states'
    halted = Z80().load(assemble('HALT'))
    assert [s.text for s in trace(halted)] == ['HALT'] and not trace(halted) and halted.run() == Stop.HALTED


def test_long_trace_is_abridged():
    t = trace(Z80(), 4000)
    assert len(t) == 1000 and '960 more' in repr(t) and '960 more' in t._repr_markdown_() and len(repr(t).split('\n')) == 42
    assert type(t[3:5]) is type(t) and t[3:5].t == 8 and t[3].address == 3


def test_durations_are_those_of_the_table():
    "The M-cycles, derived on their own, take the T-states of chapter 0, on every page"
    for prefix in '', 'CB', 'ED', 'DD', 'FD', 'DDCB', 'FDCB':
        for op, cycles in zip(table(prefix), mcycles(prefix)):
            ways = [duration(c) for c in cycles.split('|')]
            assert op.mnemonic == 'prefix' or (ways[0], ways[-1]) == (op.t, op.t_taken), op
