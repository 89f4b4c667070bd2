"""The core is compiled without bounds checks: nothing that a program does, and nothing that a caller passes, may reach beyond its own machine.

The tests of the first half run twice: as they stand, and, together with the recorded cases of test_emulator.py, on a core with bounds checks (`test_with_bounds_checks`).
"""
import os, re, shutil, signal, subprocess, sys, time
from pathlib import Path

import numpy as np
import pytest

from z80lit.emulator import IX, LOG, NAMES, Machine, Stop, Z80, new_machines, registers, run_batch, run_chunk, run_machine
from z80lit.asm import assemble

root = Path(__file__).resolve().parent.parent
CHECKED = os.environ.get('NUMBA_BOUNDSCHECK') == '1'
outside = pytest.mark.skipif(CHECKED, reason='starts processes of its own')
NO_STOPS = np.zeros(0, bool)
PUSH_BC, INC_A, LD_A, OR_A, PREFIX, HALT = 0xC5, 0x3C, 0x3E, 0xB7, 0xDD, 0x76
PAIRS = 'af bc de hl ix iy sp wz af_ bc_ de_ hl_'.split()


# One machine

class Guarded:
    "A `Z80` that lies in memory between two others; leaving the block compares those with what they were"
    def __init__(self, **values):
        self.machines = new_machines(3)
        self.machines.view(np.uint8).reshape(3, -1)[::2] = np.random.default_rng(0).integers(0, 256, (2, Machine.itemsize))
        self.cpu = Z80()
        vars(self.cpu).update(machines=self.machines[1:2])
        for name, v in values.items(): setattr(self.cpu, name, v)
    def neighbours(self): return self.machines.view(np.uint8).reshape(3, -1)[::2].copy()
    def __enter__(self):
        self.before = self.neighbours()
        return self.cpu
    def __exit__(self, *error):
        assert (self.neighbours() == self.before).all(), 'a machine beside was changed'


@pytest.mark.checked
def test_checks_are_on():
    "A register that no front would let in indexes a table beyond its end: with checks that raises, without it would not"
    ms = new_machines()
    ms.a, ms.memory[0, 0] = 1000, OR_A
    with pytest.raises(IndexError): run_machine(ms, 1, NO_STOPS)


def test_random_programs():
    "Memory full of random bytes, every register at random, interrupts waiting: every register stays in its range"
    rng = np.random.default_rng(1)
    for k in range(300):
        with Guarded() as cpu:
            cpu.memory[:] = rng.integers(0, 256, 65536)
            for name in PAIRS + ['pc']: setattr(cpu, name, int(rng.integers(0, 65536)))
            cpu.im, cpu.i, cpu.r, cpu.iff1, cpu.nmi, cpu.int_line = (int(rng.integers(0, n)) for n in (3, 256, 256, 2, 2, 2))
            cpu.state.bus[:], cpu.state.bus_size = rng.integers(0, 256, 4), rng.integers(1, 5)
            cpu.run(int(rng.integers(0, 5000)))
            for field, shift, width in {part for parts in NAMES.values() for part in parts}:
                top = max(s + w for parts in NAMES.values() for f, s, w in parts if f == field)
                assert field in ('r', 'held', 'pending') or 0 <= cpu.state[field] < 1 << top, field


@pytest.mark.parametrize('byte, expect', [(PUSH_BC, dict(sp=(0xFFF0 - 2*100_000) & 0xFFFF, instructions=100_000)), (INC_A, dict(a=275_000 % 256, instructions=275_000)),
                                          (0xCD, {}), (0xFF, {}), (HALT, dict(pc=1, tstates=4)), (0xE3, dict(h=0xE3, l=0xE3))], ids=lambda v: f'{v:02X}' if isinstance(v, int) else '')
def test_memory_full_of_one_byte(byte, expect):
    "The stack goes round all of memory, the write log is overrun, PC wraps"
    with Guarded(bc=PUSH_BC*0x101, hl=0xE3E3) as cpu:
        cpu.memory[:] = byte
        cpu.run(1_100_000)
        assert {k: getattr(cpu, k) for k in expect} == expect


@pytest.mark.parametrize('prefix', [0xDD, 0xFD, 0xED, 0xCB])
def test_memory_full_of_prefixes(prefix):
    with Guarded() as cpu:
        cpu.memory[:] = prefix
        assert cpu.run(1000) == Stop.BUDGET


def test_program_at_the_end_of_memory():
    with Guarded(pc=0xFFFF, sp=1, hl=0xFFFF, ix=0xFFFF) as cpu:
        cpu.load([LD_A], 0xFFFF).load(assemble('DB 12h : PUSH AF : LD (HL),H : LD (IX+127),A : LD (0FFFFh),HL : HALT'))
        assert cpu.run() == Stop.HALTED and cpu.a == 0x12
        assert (cpu.sp, int(cpu.memory[0xFFFF]), int(cpu.memory[0]), int(cpu.memory[0x7E])) == (0xFFFF, 0xFF, 0xFF, 0x12)


@pytest.mark.parametrize('budget, t', [(0, 0), (1, 4), (4, 4), (5, 11)])
def test_small_budgets(budget, t):
    code = bytes([INC_A, LD_A, 7, HALT])
    with Guarded() as cpu:
        assert cpu.load(code).run(budget) == Stop.BUDGET and cpu.tstates == t
    assert run_batch([code], budget=budget).tstates[0] == t


def test_ldir_over_itself():
    "The byte at 0 is copied through all memory, over the LDIR when it comes there: ED becomes 00, and B0 is OR B"
    with Guarded(de=1, pc=0x8000) as cpu:
        cpu.load([0xED, 0xB0], 0x8000)
        assert cpu.run(21*0x8000, breakpoints=[0x8002]) == Stop.BUDGET
        assert (cpu.bc, cpu.pc, cpu.de) == (0x8000, 0x8000, 0x8001)
        assert not cpu.memory[:0x8001].any() and cpu.memory[0x8001] == 0xB0
        cpu.run(8)
        assert (cpu.pc, cpu.a) == (0x8002, 0x80)


def test_ldir_and_lddr_over_everything():
    "BC = 0: each byte of memory onto itself, once round"
    for op, step in (0xB0, 1), (0xB8, -1):
        with Guarded(pc=0x1234, hl=0x5678, de=0x5678) as cpu:
            cpu.memory[:] = np.arange(65536) % 251
            before = cpu.load([0xED, op, HALT], 0x1234).memory.copy()
            assert cpu.run() == Stop.HALTED and cpu.tstates == 1_376_251 + 4
            assert (cpu.memory == before).all() and (cpu.bc, cpu.hl, cpu.de) == (0, 0x5678, 0x5678)


def test_bytes_on_the_bus_wrap_below_0():
    with Guarded(im=0, iff1=1, pc=1) as cpu:
        before = cpu.memory.copy()
        cpu.interrupt(assemble('LD (IX+1),2'))
        assert cpu.step() == 21 and cpu.pc == 1
        before[1] = 2
        assert (cpu.memory == before).all()


# Batches

STORM, VISIT = bytes([PUSH_BC, 0x18, 0xFD]), assemble('LD A,7 : LD (9000h),A : HALT')   # the first pushes for ever

def same(a, b): return all(x is None and y is None or (x == y).all() and x.dtype == y.dtype for x, y in zip(a, b))

def test_nothing_leaks_from_one_program_to_the_next():
    "Not even from one that writes more than the log of writes holds"
    b = run_batch([STORM, VISIT, b'\xED\xB0\x76', VISIT]*20, init=registers(80, bc=np.tile([0x1234, 0, 0, 0], 20)), budget=2_000_000, outputs=(0, 65536))
    alone = run_batch([VISIT], outputs=(0, 65536))
    visit = np.zeros(65536, np.uint8)
    visit[:len(VISIT)], visit[0x9000] = list(VISIT), 7
    assert (alone.outputs[0] == visit).all() and (b.outputs[1::2] == visit).all() and (b.tstates[1::2] == alone.tstates[0]).all()
    assert (b.outputs[0][3:] != 0).sum() > LOG and (b.outputs[::4] == b.outputs[0]).all()

def test_fill_and_origin():
    "Programs may lie over the end of memory, or fill all of it"
    b = run_batch([VISIT, b''], origin=0xFFFE, fill=HALT, outputs=(0xFFFE, 3))
    assert (b.stop == Stop.HALTED).all() and b.outputs.tolist() == [list(VISIT[:3]), [HALT]*3] and b.tstates.tolist() == [24, 4]
    whole = np.full((2, 65536), INC_A, np.uint8)
    whole[:, -1] = HALT
    b = run_batch(whole, budget=10**6, outputs=(0, 65536))
    assert (b.instructions == 65536).all() and (b.outputs == whole).all()

@pytest.mark.parametrize('programs', [[], (), np.zeros((0, 5), np.uint8), np.zeros((0, 0), np.uint8)], ids=str)
def test_empty_batch(programs):
    b = run_batch(programs, outputs=(0, 3), final=True)
    assert b.stop.shape == b.tstates.shape == b.registers.shape == (0,) and b.outputs.shape == (0, 3)

def test_empty_and_ragged_programs():
    codes = [b'', VISIT, b'\x76', VISIT[:3], b'']
    b = run_batch(codes, budget=100, outputs=(np.array([0, 0x9000, 0, 0, 0]), np.array([0, 1, 2, 3, 4])))
    assert b.stop.tolist() == [0, 1, 1, 0, 0] and b.outputs.tolist() == [[0]*4, [7, 0, 0, 0], [HALT, 0, 0, 0], [7, *VISIT[1:3], 0], [0]*4]   # the fourth stores A at 0
    array = np.full((5, 9), 0xFF, np.uint8)         # what lies beyond a program's length does not count
    for row, code in zip(array, codes): row[:len(code)] = list(code)
    assert same(b, run_batch(array, [len(c) for c in codes], budget=100, outputs=(np.array([0, 0x9000, 0, 0, 0]), np.array([0, 1, 2, 3, 4]))))

def test_arrays_of_any_layout():
    "Slices, transposes, read-only and broadcast arrays give what contiguous ones give, and are left as they were"
    rng = np.random.default_rng(2)
    wide = rng.integers(0, 256, (80, 24), dtype=np.uint8)
    init = registers(80, **{n: rng.integers(0, 65536, 80) for n in PAIRS})
    for view, rows in (wide[::2, ::-2], init[::2]), (np.asfortranarray(wide), init), (wide[::-1], init[::-1]), (np.broadcast_to(wide[0], (80, 24)), np.broadcast_to(init[0], 80)):
        expected = run_batch(view.copy(), init=rows.copy(), budget=500, outputs=(0, 64), final=True)
        view, rows, lengths = view.view(), rows.view(), np.full(len(view), view.shape[1], np.uint8)
        at = np.full(len(view), 0x9000)
        for a in view, rows, lengths, at: a.flags.writeable = False
        compiled = len(run_chunk.signatures)
        assert same(expected, run_batch(view, lengths, init=rows, budget=500, outputs=(0, 64), final=True))
        assert run_batch(view, lengths, init=rows, budget=500, outputs=(at, at % 7), patches=(at[:3], at[:3] % 9)).stop.shape == (len(view),)
        assert len(run_chunk.signatures) == compiled, 'the core was compiled once more'

@pytest.mark.parametrize('wrong, says', [
    (dict(programs=np.zeros((2, 3))), 'programs must be uint8'), (dict(programs=np.zeros((2, 3), np.int64)), 'programs must be uint8'), (dict(programs=np.zeros(3, np.uint8)), 'programs must be uint8'),
    (dict(programs=[[1, 2], [300]]), 'byte 0 of the code = 300 is out of range'), (dict(programs=[b'v'], lengths=[1]), 'lengths go with an array'),
    (dict(lengths=[1.0, 2.0]), 'lengths'), (dict(lengths=[1]), 'lengths'), (dict(lengths=[1, 4]), 'lengths'), (dict(lengths=[-1, 1]), 'lengths'), (dict(lengths=[[1], [1]]), 'lengths'),
    (dict(init=np.zeros(2)), 'init'), (dict(init=registers(3)), 'init'), (dict(init=registers(6).reshape(3, 2)), 'init'), (dict(init=registers(2).reshape(1, 1, 2)), 'init'),
    (dict(patches=([1], [256])), 'patch'), (dict(patches=([-2], [0])), 'patch'), (dict(patches=([65536], [0])), 'patch'), (dict(patches=([1, 2], [0])), 'patches'), (dict(patches=([1.0], [0])), 'patches'),
    (dict(patches=(np.zeros((3, 1), int), np.zeros((3, 1), int))), 'patches'), (dict(patches=(1, 2)), 'patches'),
    (dict(outputs=(0, 65537)), 'outputs'), (dict(outputs=(-1, 1)), 'outputs'), (dict(outputs=(0, [1, 2, 3])), 'outputs'), (dict(outputs=(0.0, 1)), 'outputs'),
    (dict(budget=-1), 'budget'), (dict(origin=65536), 'origin'), (dict(origin=-1), 'origin'), (dict(fill=256), 'fill'),
    (dict(init=registers(6).reshape(2, 3), patches=(np.zeros((1, 2, 1), int), np.zeros((1, 2, 1), int))), 'runs a program'),
], ids=lambda v: v if isinstance(v, str) else ' '.join(v))
def test_arguments_that_do_not_fit(wrong, says):
    with pytest.raises(ValueError, match=says): run_batch(**dict(programs=np.zeros((2, 3), np.uint8)) | wrong)

def test_registers_out_of_range():
    "Start states written to behind the back of `registers`: the core would look beyond the end of its tables"
    for name in 'a', 'bus_size':
        init = registers(2)
        init[name] = [0, 1000]
        with pytest.raises(ValueError, match='init'): run_batch([b'\xB7\x76']*2, init=init)

def test_program_longer_than_memory():
    with pytest.raises(ValueError, match='lengths'): run_batch(np.zeros((1, 65537), np.uint8))


# From here on in processes of their own

def run_pytest(*args, **env): return subprocess.run([sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider', *args], cwd=root, capture_output=True, text=True, env=os.environ | env)

@outside
def test_with_bounds_checks(pytestconfig):
    "Everything above, and all recorded cases, on a core that checks every index. It is compiled into a folder of its own, and kept there"
    done = run_pytest('-rA', 'tests/test_emulator.py', 'tests/test_safety.py', NUMBA_BOUNDSCHECK='1', NUMBA_CACHE_DIR=str(pytestconfig.cache.mkdir('checked')))
    assert done.returncode == 0 and re.search(r'^PASSED .*test_checks_are_on', done.stdout, re.M), done.stdout[-3000:]

@outside
def test_without_compiling():
    "For debugging: the same functions as plain Python"
    done = run_pytest('tests/test_pitfalls.py', '-k', 'test_instruction or test_32 or test_33 or test_35', NUMBA_DISABLE_JIT='1')
    assert done.returncode == 0 and ' passed' in done.stdout, done.stdout[-3000:]

# What a long run is interrupted in, and how to see that the machine is between two instructions afterwards
INTERRUPTED = '''
import sys, time
import numpy as np
from z80lit.emulator import Stop, Z80, registers, run_batch
loop = bytes([0x18, 0xFE])                          # JR $: 12 T-states
cpu = Z80(r=0x80).load(loop)
cpu.run(100)
cpu.run(100, breakpoints=[9])
run_batch([loop], budget=100)
print('running', flush=True)
try:
    if sys.argv[1] == 'run': cpu.run(10**13)
    elif sys.argv[1] == 'breakpoints': cpu.run(10**13, breakpoints=[9])
    else: run_batch(np.tile(np.frombuffer(loop, np.uint8), (10**5, 1)), init=registers(16)[None], budget=10**6, threads=int(sys.argv[1]))
except KeyboardInterrupt: print('interrupted', flush=True)
t, n = cpu.tstates, cpu.instructions
assert t == 12*n and cpu.pc == 0 and cpu.r == 0x80 | n & 0x7F
assert cpu.run(1200) == Stop.BUDGET and cpu.tstates == t + 1200 and cpu.instructions == n + 100
assert run_batch([loop, b'v'], budget=100).tstates.tolist() == [108, 4]
print('consistent', flush=True)
'''

@outside
@pytest.mark.parametrize('what', ['run', 'breakpoints', '1', '2'])
def test_ctrl_c(what):
    "A long run, with and without breakpoints, and a long batch on one thread and on two stop within a second"
    with subprocess.Popen([sys.executable, '-c', INTERRUPTED, what], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        while (line := child.stdout.readline()) and line != 'running\n': pass
        time.sleep(0.5)
        assert child.poll() is None, child.stderr.read()
        child.send_signal(signal.SIGINT)
        t = time.perf_counter()
        assert child.stdout.readline() == 'interrupted\n', child.stderr.read()
        assert time.perf_counter() - t < 1
        assert child.stdout.readline() == 'consistent\n', child.stderr.read()

REPORT = '''
import z80lit.emulator as em
cpu = em.Z80(a=1).load([0x3C, 0x76])                # INC A; HALT
cpu.run()
s = em.run_machine.stats
print(cpu.a, cpu.tstates, sum(s.cache_hits.values()), s.cache_path)
'''

@outside
def test_compiled_code_is_kept_and_never_stale(tmp_path):
    """A package in a folder that cannot be written to keeps its compiled code with the user, and finds it again; two processes at once do no harm;
    after a change of either source the old code is not used. Where nothing can be written at all it still imports."""
    package = tmp_path/'site'/'z80lit'
    package.mkdir(parents=True)
    for name in '__init__', 'isa', 'emulator': shutil.copy(root/'z80lit'/f'{name}.py', package)
    (package/'__pycache__').write_text('a file, so that no folder can be made here, whoever runs this')
    env = {k: v for k, v in os.environ.items() if k != 'NUMBA_CACHE_DIR'} | dict(PYTHONPATH=str(package.parent), XDG_CACHE_HOME=str(tmp_path/'cache'), HOME=str(tmp_path))

    def start(code=REPORT): return subprocess.Popen([sys.executable, '-c', code], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    def ended(child, alone=True):
        out, err = child.communicate()
        assert child.returncode == 0, err
        a, t, hits, place = out.split(maxsplit=3)
        assert tmp_path/'cache' in Path(place).parents
        assert 'compiling' in err or hits != '0', 'it says so when it compiles'
        assert not alone or hits == '0' or 'compiling' not in err, 'and only then; of two at once, one can find what the other has just kept'
        return int(a), int(t), int(hits) > 0
    def edit(name, old, new):
        text = (package/f'{name}.py').read_text(encoding='utf-8')
        assert text.count(old) == 1
        (package/f'{name}.py').write_text(text.replace(old, new), encoding='utf-8')

    assert ended(start()) == (2, 8, False)
    assert ended(start()) == (2, 8, True)
    edit('isa', 'def table(', "_TABLES[''][0x3C] = _TABLES[''][0x03]\n\ndef table(")        # INC A with the 6 T-states of INC BC
    assert [ended(child, alone=False)[:2] for child in [start(), start()]] == [(2, 10)]*2
    edit('emulator', 'v = (v + 1) & 0xFF', 'v = (v + 2) & 0xFF')
    assert ended(start()) == (3, 10, False)
    env['XDG_CACHE_HOME'] = env['HOME'] = str(package/'__pycache__')
    out, err = start('import z80lit.emulator as em; print(em.run_machine.stats.cache_path); em._announce(em.run_machine)').communicate()
    assert out == 'None\n' and 'compiling' in err and 'Error' not in err, err
