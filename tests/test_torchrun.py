"Two processes of torchrun learn what one learns: the same losses and weights, one record, and nothing lost when one is killed."
import json, os, signal, subprocess, sys
from pathlib import Path

import numpy as np
import pytest
import torch

from z80lit.model import CONTEXT, Config, Training, build, crew, fit, join, load, save
from z80lit.record import Recorder, read_run
from z80lit.rl import learn, setting

torch.set_num_threads(1)
HERE = str(Path(__file__).parent)
TINY, KNOBS = Config(d=16, layers=1, heads=2, ff=16), Training(epochs=3, batch=5, lr=3e-3, ema=0.5, patience=2)

def lesson(n, seed=0):
    "Programs of one to nine bytes: the shares of two processes hold different numbers of tokens"
    c = np.random.default_rng(seed).integers(0, 256, (n, CONTEXT)); c[:, 0] %= 16
    return c, [bytes([t] * (1 + t % 9)) for t in c[:, 8]]

def by_example(out, record, watch):
    "31 programs by fives: the last batch has one, and one process none"
    model = build(TINY)
    fit(model, *lesson(31), KNOBS, record, out/'example.state', watch, validation=lesson(9, 1))
    return model

def by_reward(name):
    def train(out, record, watch):
        contexts, knobs = lesson(24)[0], setting(name, epochs=3, batch=16, lr=3e-3, max_len=5, entropy=0.01, kl=0.1, lessons=1)
        model = build(TINY)
        learn(model, contexts, lambda index, programs: [len(p) - contexts[i, 8]/100 for i, p in zip(index, programs)], knobs, record, out/f'{name}.state', watch, writers=2)
        return model
    return train

JOBS = {'example': by_example, 'GRPO': by_reward('GRPO'), 'PPO': by_reward('PPO')}

def run_jobs(out, watch):
    "All trainings, each with its record and its model, which process 0 writes; one that is broken off has none"
    for name, job in JOBS.items():
        try:
            if crew()[0]: job(out, None, watch(name)); continue
            with Recorder(out/f'{name}.jsonl', {}) as record:
                save(job(out, record, watch(name)), out/name)
                record.close()
        except KeyboardInterrupt: pass

def on_and_off(out):
    "Run by torchrun. In the first life each training is broken off after two epochs, the last by the death of process 1; in the second they go on"
    join('cpu')
    def watch(name):
        epochs = []
        def each(model):
            epochs.append(model)
            if len(epochs) == 2 and os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':
                if name != 'PPO': raise KeyboardInterrupt
                if crew()[0]: os.kill(os.getpid(), signal.SIGKILL)
            return {'process': crew()[0]}
        return each
    run_jobs(Path(out), watch)
    with pytest.raises(ValueError, match='different weights'): fit(build(TINY, seed=crew()[0]), *lesson(8))
    with pytest.raises(ValueError, match='3 writers in 2 processes'): learn(build(TINY), lesson(8)[0], None, writers=3)
    print(json.dumps([os.environ['TORCHELASTIC_RESTART_COUNT'], *crew()]))

def torchrun(code, *options):
    "Two processes of torchrun that run `code`. A second life needs a store of addresses of its own: in the shared one it would find those of the first (pytorch issue 135712)"
    env = os.environ | {'PYTHONPATH': os.pathsep.join([HERE, os.environ.get('PYTHONPATH', '')]), 'OMP_NUM_THREADS': '1', 'TORCH_DISABLE_SHARE_RDZV_TCP_STORE': '1'}
    command = [sys.executable, '-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', '2', '--monitor-interval', '0.1', *options, '--no-python', sys.executable, '-c', code]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)

@pytest.fixture(scope='module')
def both(tmp_path_factory):
    "The folders of one process, and of two of which one was killed and started again"
    one, two = tmp_path_factory.mktemp('one'), tmp_path_factory.mktemp('two')
    run_jobs(one, lambda name: lambda model: {'process': 0})
    out = torchrun(f'import test_torchrun; test_torchrun.on_and_off({str(two)!r})', '--max-restarts', '1')
    assert out.returncode == 0, out.stderr
    assert sorted(out.stdout.splitlines()) == ['["1", 0, 2]', '["1", 1, 2]'], out.stdout
    return one, two

@pytest.mark.parametrize('name', JOBS)
def test_two_processes_learn_what_one_learns(both, name):
    rows = [read_run(folder/f'{name}.jsonl').rows for folder in both]
    assert len(rows[0]) == len(rows[1]) == 3
    for one, two in zip(*rows):
        assert one.keys() == two.keys()
        assert [two[k] for k in one if k != 'seconds'] == pytest.approx([one[k] for k in one if k != 'seconds'], rel=2e-3, abs=1e-5)
    one, two, start = *(load(folder/name) for folder in both), build(TINY)
    for p, q in zip(one.parameters(), two.parameters()): torch.testing.assert_close(q, p, rtol=1e-3, atol=1e-4)
    assert max((p - q).abs().max() for p, q in zip(one.parameters(), start.parameters())) > 3e-3
