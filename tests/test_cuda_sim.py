"""One source for CPU and GPU: the step functions, called from a CUDA kernel, give what the compiled core gives.

On a GPU `numba.cuda` compiles the functions that a kernel calls for the device by itself. Here its simulator stands in for the GPU. It runs kernels as plain Python and
wants the functions plain, too, which is what `NUMBA_DISABLE_JIT` makes of `@core` and `@page`. So the kernel below is the one for a GPU, to the letter.
"""
import os, subprocess, sys
from pathlib import Path

import numpy as np

from z80lit.emulator import Machine, new_machines, run_machine, set_register

root = Path(__file__).resolve().parent.parent
N, BUDGET = 200, 300

KERNEL = '''
import sys
import numpy as np
from numba import cuda
from z80lit.emulator import Machine, run_until

@cuda.jit
def run_all(machines, budget):
    i = cuda.grid(1)
    if i < machines.size: run_until(machines[i], budget)

path, budget = sys.argv[1], int(sys.argv[2])
machines = np.fromfile(path, np.uint8).view(Machine)
run_all[-(-machines.size // 32), 32](machines, budget)
machines.view(np.uint8).tofile(path)
'''


def random_machines(rng):
    "Random bytes as programs, random registers and ports; an INT or NMI waits in some"
    ms = new_machines(N)
    ms.memory[:, :64] = rng.integers(0, 256, (N, 64))
    ms.memory[::4, 0] = rng.choice([0xCB, 0xED, 0xDD, 0xFD], len(ms[::4]))
    ms.inp[:] = rng.integers(0, 256, ms.inp.shape)
    for name in 'af bc de hl ix iy sp wz af_ bc_ de_ hl_'.split(): set_register(ms, name, rng.integers(0, 65536, N))
    for name, top in dict(i=256, r=256, im=3, iff1=2, iff2=2, nmi=2, int_line=2, keep_q=2, cmos=2).items(): set_register(ms, name, rng.integers(0, top, N))
    return ms


def test_kernel_runs_as_the_core(tmp_path):
    expected, path = random_machines(np.random.default_rng(0)), tmp_path/'machines'
    expected.view(np.ndarray).view(np.uint8).tofile(path)
    subprocess.run([sys.executable, '-c', KERNEL, path, str(BUDGET)], cwd=root, check=True, env=os.environ | dict(NUMBA_ENABLE_CUDASIM='1', NUMBA_DISABLE_JIT='1'))
    found = np.fromfile(path, np.uint8).view(Machine)
    for k in range(N): run_machine(expected[k:k + 1], BUDGET, np.zeros(0, bool))
    assert expected.tstates.min() > 0 and len(np.unique(expected.tstates)) > 10
    for name in 'head', 'memory', 'log', 'out':
        differ = np.flatnonzero((found[name] != expected[name]).any(axis=1))
        assert not len(differ), f'{name} of machines {differ}'


def test_bench_has_a_row_for_a_gpu():
    "It compares the kernel's T-states with those of the CPU itself"
    code = "from z80lit.bench import bench_gpu; row, = bench_gpu(64, 1); print(row['unit'], row['median'] > 0)"
    done = subprocess.run([sys.executable, '-c', code], cwd=root, check=True, capture_output=True, text=True, env=os.environ | dict(NUMBA_ENABLE_CUDASIM='1', NUMBA_DISABLE_JIT='1'))
    assert done.stdout.split() == ['programs/s', 'True']
