"Training by example and by reward: stopping, going on, recording, the main job in small."
import signal, subprocess, sys, time, warnings
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from z80lit.model import CONTEXT, Config, Recorder, Training, build, fit, read_run, schedule
from z80lit.rl import Reinforce, reinforce, spread_loss
from z80lit import sft

torch.set_num_threads(1)
TINY = Config(d=32, layers=1, heads=2, ff=64)
KNOBS = Training(epochs=6, batch=8, lr=3e-3)

def lesson(n=64, seed=0):
    c = np.random.default_rng(seed).integers(0, 256, (n, CONTEXT)); c[:, 0] %= 16
    return c, [bytes([0x3E, t, 0x76]) for t in c[:, 8]]

def same(a, b): return all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters()))
def timeless(rows): return [{k: v for k, v in r.items() if k not in ('seconds', 'cpu')} for r in rows]

VICTIM = '''
import sys, time; sys.path.insert(0, {here!r})
from test_training import *
torch.set_num_threads(1)
with Recorder({folder!r} + '/run.jsonl', asdict(KNOBS), 0) as record:
    fit(build(TINY), *lesson(), KNOBS, record, {folder!r} + '/state.safetensors', tell=lambda row: time.sleep(100 if row['epoch'] > {after} else 0.05))
'''

@pytest.mark.parametrize('after', [1, 3])
def test_killed_and_resumed_equals_uninterrupted(tmp_path, after):
    torch.set_num_threads(1)
    whole = build(TINY)
    expected = fit(whole, *lesson(), KNOBS)
    part = tmp_path / 'run.jsonl.part'
    victim = subprocess.Popen([sys.executable, '-c', VICTIM.format(here=str(Path(__file__).parent), folder=str(tmp_path), after=after)])
    try:
        deadline = time.time() + 120
        while not ((tmp_path / 'state.safetensors').exists() and part.read_text().count('"epoch"') >= after):
            assert victim.poll() is None and time.time() < deadline
            time.sleep(0.02)
    finally: victim.send_signal(signal.SIGKILL); victim.wait()
    assert not (tmp_path / 'run.jsonl').exists()
    assert read_run(part).summary is None
    resumed = build(TINY, seed=9)     # other weights: everything must come from the state
    with Recorder(tmp_path / 'run.jsonl', asdict(KNOBS), 0) as record:
        rows = fit(resumed, *lesson(), KNOBS, record, tmp_path / 'state.safetensors')
        record.close(loss=rows[-1]['loss'])
    assert same(whole, resumed)
    assert timeless(read_run(tmp_path / 'run.jsonl').rows) == timeless(expected)

def test_state_of_another_run_is_refused(tmp_path):
    state = tmp_path / 's'
    fit(build(TINY), *lesson(), KNOBS, checkpoint=state)
    for change in (dict(knobs=replace(KNOBS, seed=1)), dict(model=build(replace(TINY, ff=32))), dict(data=lesson(seed=1))):
        with pytest.raises(ValueError, match='state of another run'):
            fit(change.get('model', build(TINY)), *change.get('data', lesson()), change.get('knobs', KNOBS), checkpoint=state)
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(ValueError, match='broken or no safetensors'): fit(build(TINY), *lesson(), KNOBS, checkpoint=state)

def test_seeds_decide_everything():
    torch.set_num_threads(1)
    a, b, c = build(TINY), build(TINY), build(TINY)
    assert timeless(fit(a, *lesson(), KNOBS)) == timeless(fit(b, *lesson(), KNOBS)) and same(a, b)
    fit(c, *lesson(), replace(KNOBS, seed=1))
    assert not same(a, c)

def test_a_loss_that_is_no_number_stops_the_run():
    model = build(TINY)
    model.head.weight.data[0] = torch.nan
    with pytest.raises(FloatingPointError, match='loss is nan'): fit(model, *lesson(), KNOBS)

def test_schedule():
    total = 100
    rates = [schedule(s, total, 0.05) for s in range(total)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0]) and max(rates) == 1 and rates == sorted(rates[:5]) + sorted(rates[5:], reverse=True)
    assert schedule(0, 1, 0.0) == 1 and rates[-1] < 1e-3

def test_interrupt_leaves_a_readable_record(tmp_path):
    def stop(row):
        if row['epoch'] == 2: raise KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt), Recorder(tmp_path / 'r.jsonl', {}, 0) as record:
        fit(build(TINY), *lesson(), KNOBS, record, tell=stop)
    run = read_run(tmp_path / 'r.jsonl.part')
    assert len(run.rows) == 2 and run.summary is None

def test_every_cut_of_a_record_is_read_or_refused(tmp_path):
    with Recorder(tmp_path / 'r.jsonl', {'a': 1}, 0) as record:
        record.row(step=1); record.row(step=2); record.close(done=True)
    whole = (tmp_path / 'r.jsonl').read_text()
    header = whole.index('\n') + 1
    for n in range(0, len(whole), 3):
        (tmp_path / 'cut').write_text(whole[:n])
        if n < header - 1:
            with pytest.raises(ValueError, match='cut'): read_run(tmp_path / 'cut')
        else:
            with warnings.catch_warnings(): warnings.simplefilter('ignore'); run = read_run(tmp_path / 'cut')
            assert run.header['config'] == {'a': 1} and [r['step'] for r in run.rows] == [1, 2][:len(run.rows)]

def test_header_says_what_made_the_run():
    run = read_run(Path(__file__).parent.parent / 'nbs/runs/08_sft_pocket_0.jsonl')
    assert {'config', 'seed', 'versions', 'machine', 'date'} <= run.header.keys()
    assert {'model', 'training', 'tasks'} <= run.header['config'].keys() and run.summary['solved'] == 16
    assert [r['epoch'] for r in run.rows] == list(range(1, 36))

# reward

def test_reinforce_gradient_is_an_unbiased_estimate():
    "Many sampled one-step episodes: the mean gradient approaches the exact one of the expected reward."
    rewards, theta = torch.tensor([3.0, -1.0, 0.5]), torch.tensor([0.2, -0.5, 1.0], requires_grad=True)
    p = theta.detach().softmax(0)
    a = torch.multinomial(p, 200_000, replacement=True, generator=torch.Generator().manual_seed(0))
    spread_loss(theta.log_softmax(0)[a][:, None], torch.ones(len(a), 1).bool(), rewards[a]).backward()
    assert -theta.grad == pytest.approx(p * (rewards - (p * rewards).sum()), abs=0.01)

def test_reinforce_finds_the_best_arm():
    "One context, four arms told apart by the top two bits of the one byte: the optimum is 1."
    contexts = np.zeros((64, CONTEXT), dtype=np.uint8)
    pay = [0.1, 0.3, 0.2, 1.0]
    reward = lambda index, programs: [pay[p[0] >> 6] if p else 0.0 for p in programs]
    for seed in range(3):
        rows = reinforce(build(TINY, seed), contexts, reward, Reinforce(epochs=25, lr=3e-3, max_len=1, seed=seed))
        assert rows[0]['reward'] < 0.6 and rows[-1]['reward'] > 0.95

def test_rewards_of_zero_change_nothing():
    model = build(TINY); before = [p.clone() for p in model.parameters()]
    reinforce(model, np.zeros((16, CONTEXT)), lambda index, programs: np.zeros(len(programs)), Reinforce(epochs=2, max_len=4))
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before))

# the main job, in small

def test_reproduce_says_what_it_found_and_keeps_it(tmp_path, capsys):
    solved = sft.reproduce(seed=1, epochs=2, out=tmp_path)
    said = capsys.readouterr().out
    assert f'Solved: {solved} of 16' in said and solved < 16 and 'among the 200' in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ['model.json', 'model.safetensors', 'run.jsonl']
    assert read_run(tmp_path / 'run.jsonl').summary['solved'] == solved
    from z80lit.model import load
    assert [r[2] for r in sft.report(load(tmp_path / 'model'))].count('yes') == solved

def test_rl_does_not_know_sft():
    code = "import sys; import z80lit.rl; assert 'z80lit.sft' not in sys.modules"
    subprocess.run([sys.executable, '-c', code], check=True)
