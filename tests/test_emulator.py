"""The core against recorded cases of single instructions and whole programs (tests/conftest.py says where they are looked for)."""
import gzip, json, subprocess, sys, zlib

import numpy as np
import pytest

from z80lit.emulator import NAMES, Registers, Stop, Z80, get_register, new_machines, registers, run_batch, run_machine, set_register

NO_STOPS = np.zeros(0, bool)
ONE = 1                                             # a budget of one T-state: one whole instruction


def load_pack(path):
    "A pack as a dict of arrays, one row a case; `final` arrays are stored as differences"
    with np.load(path, allow_pickle=False) as z: p = {k: z[k] for k in z.files}
    p['before'] = dict(zip(str(p['f8']).split(), p['i8'])) | dict(zip(str(p['f16']).split(), p['i16']))
    p['after'] = dict(zip(str(p['f8']).split(), p['i8'] ^ p['x8'])) | dict(zip(str(p['f16']).split(), p['i16'] ^ p['x16']))
    p['names'] = np.array(str(p['files']).split('\n'))[p['fileno']]
    return p


COMPARED = 'a f b c d e h l i r im iff1 iff2 q pc sp ix iy wz af_ bc_ de_ hl_'.split()


def failures(p, keep_q):
    "The file names of the failing cases of a pack: any register, T-states, memory (also bytes that must not be touched) or port"
    n = len(p['t'])
    start = registers(n, keep_q=keep_q, **{f: p['before'][f] for f in COMPARED})
    heads, after = start.view(np.int64).reshape(n, -1), np.zeros((n, Registers.itemsize//8), np.int64)
    bad, ms = np.zeros(n, bool), new_machines()
    memory, inp = ms.memory[0], ms.inp[0]
    for k in range(n):
        at, port = p['ram_addr'][:p['nram'][k], k], int(p['port_addr'][k]) << 8 | int(p['port_val'][k])
        memory[at] = p['ram_i'][:len(at), k]
        ms.head[0] = heads[k]
        if p['port_dir'][k] == 1:                   # every other port delivers something else
            inp[:] = p['port_val'][k] ^ 0xFF
            inp[p['port_addr'][k]] = p['port_val'][k]
        run_machine(ms, ONE, NO_STOPS)
        after[k] = ms.head[0]
        written = ms.log[0][:int(ms.nlog[0])] & 0xFFFF
        wrote_port = ms.out[0][:int(ms.nout[0])].tolist()
        bad[k] = (memory[at] != p['ram_i'][:len(at), k] ^ p['ram_x'][:len(at), k]).any() or not np.isin(written, at).all() \
            or wrote_port != ([port] if p['port_dir'][k] == 2 else [])
        memory[at] = memory[written] = 0
    state = after.view(Registers)[:, 0]
    for f in COMPARED: bad |= get_register(state, f) != p['after'][f]
    bad |= state['tstates'] != p['t']
    return p['names'][bad]


@pytest.mark.parametrize('pack, cases, prefix_cases', [('dev50', 80_200, 37), ('edge', 3_012, 3)])
def test_single_step_tests(data_dir, pack, cases, prefix_cases):
    p = load_pack(data_dir/f'sst_z80_{pack}.npz')
    assert len(p['t']) == cases
    assert not len(failures(p, keep_q=1))
    # with Q cleared by an ineffective prefix exactly the cases of the one open question differ
    names = failures(p, keep_q=0)
    assert len(names) == prefix_cases and set(names) <= {'dd 37', 'dd 3f', 'fd 37', 'fd 3f'}


def load_lines(path):
    with gzip.open(path, 'rt') as f: return [json.loads(line) for line in f]


def test_gap_cases(data_dir):
    "Ends of block instructions, rows of prefixes, R with bit 7, DAA, undefined ED opcodes, wrap-around"
    cases = load_lines(data_dir/'gap_cases.jsonl.gz')
    assert len(cases) == 3_130
    for case in cases:
        before, after = case['initial'], case['final']
        cpu = Z80(**{f: before[f] for f in COMPARED})
        for a, v in before['ram']: cpu.memory[a] = v
        ports = case.get('ports', [])
        for a, v, kind in ports:
            if kind == 'r':
                cpu.inputs[:] = v ^ 0xFF
                cpu.inputs[a] = v
        assert cpu.step() == case['t'], case['name']
        assert {f: getattr(cpu, f) for f in COMPARED} == {f: after[f] for f in COMPARED}, case['name']
        assert all(cpu.memory[a] == v for a, v in after['ram']), case['name']
        assert cpu.outputs == [(a, v) for a, v, kind in ports if kind == 'w'], case['name']


def test_program_cases(data_dir):
    "4,000 random programs, run to HALT or the budget: registers, T-states, instructions, all of memory"
    cases = load_lines(data_dir/'program_cases.jsonl.gz')
    assert len(cases) == 4_000
    for k, case in enumerate(cases):
        code, data = bytes.fromhex(case['code']), bytes.fromhex(case['data'])
        cpu = Z80(**{f: case['init'][f] for f in COMPARED}).load(data, 0x9000)
        cpu.memory[(case['org'] + np.arange(len(code))) & 0xFFFF] = np.frombuffer(code, np.uint8)   # some wrap round
        cpu.inputs[:] = case['pin']
        assert (cpu.run(case['budget']) == Stop.HALTED) == bool(case['halted']), k
        assert (cpu.tstates, cpu.instructions) == (case['t'], case['n']), k
        assert {f: getattr(cpu, f) for f in COMPARED} == {f: case['final'][f] for f in COMPARED}, k
        assert zlib.crc32(cpu.memory.tobytes()) == case['crc'], k
