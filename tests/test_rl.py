"Learning by reward: gradients, bandits, faults, and what a broken-off study leaves behind."
import json, signal, subprocess, sys, time
from pathlib import Path

import numpy as np
import pytest
import torch

from z80lit import attempts, causes
from z80lit.attempts import band, corpus, exam, iqm, marks, tasks_then, words
from z80lit.causes import FACTORS, REWARDS
from z80lit.generator import generate
from z80lit.model import CONTEXT, Config, build
from z80lit.record import read_run, study, write_run
from z80lit.rl import ALGORITHMS, SHARES, Knobs, gae, grouped, learn, objective, setting, surrogate, weights
from z80lit.tasks import benchmark, leak, other_inputs
from test_training import survives_kills

torch.set_num_threads(1)
TINY = Config(d=32, layers=1, heads=2, ff=64)

def test_the_gradient_is_an_unbiased_estimate():
    "Many sampled one-step episodes: the mean gradient approaches the exact one of the expected reward, whatever the baseline"
    rewards, theta = torch.tensor([3.0, -1.0, 0.5]), torch.tensor([0.2, -0.5, 1.0], requires_grad=True)
    p = theta.detach().softmax(0)
    a = torch.multinomial(p, 200_000, replacement=True, generator=torch.Generator().manual_seed(0))
    taken = torch.ones(len(a), 1).bool()
    for knobs in (Knobs(), Knobs(baseline='average'), Knobs(baseline='rloo', group=16)):
        weight = weights(rewards[a], None, taken, torch.tensor(1.5), knobs)
        logp = theta.log_softmax(0)[a][:, None]
        gradient = torch.autograd.grad(objective(surrogate(logp, logp.detach(), weight, knobs), taken, 'program'), theta)[0]
        assert gradient == pytest.approx(p * (rewards - (p * rewards).sum()), abs=0.01)

def test_gae_against_its_definition():
    "The sum of later errors, each lambda times less than the one before, on random episodes of different lengths"
    rng = np.random.default_rng(0)
    for lam in (0, 0.5, 0.95, 1):
        values, lengths, rewards = rng.normal(size=(6, 5)), rng.integers(1, 6, 6), rng.normal(size=6)
        taken = np.arange(5) < lengths[:, None]
        found = gae(*(torch.tensor(x, dtype=torch.float64) for x in (rewards, values)), torch.tensor(taken), lam)
        for n, T in enumerate(lengths):
            after = [*values[n, 1:T], rewards[n]]
            expected = [sum(lam ** (k - t) * (after[k] - values[n, k]) for k in range(t, T)) for t in range(T)]
            assert found[n, :T].tolist() == pytest.approx(expected) and not found[n, T:].any()

@pytest.mark.parametrize('name', ('REINFORCE', 'RLOO', 'PPO'))     # the chapter asks all of them
def test_it_finds_the_best_arm(name):
    "One context, four arms told apart by the top two bits of the one byte: the optimum is 1"
    pay = [-1.0, -0.2, -0.6, 1.0]
    knobs = setting(name, epochs=30, batch=32, lr=3e-3, max_len=1)
    rows = learn(build(TINY), np.zeros((64, CONTEXT)), lambda index, programs: [pay[p[0] >> 6] if p else -1.0 for p in programs], knobs)
    assert rows[0]['reward'] < 0.3 and rows[-1]['reward'] > 0.9

def test_rewards_of_zero_change_nothing():
    model = build(TINY); before = [p.clone() for p in model.parameters()]
    learn(model, np.zeros((16, CONTEXT)), lambda index, programs: np.zeros(len(programs)), Knobs(epochs=2, max_len=4))
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), before))

def test_equal_rewards_in_every_group_change_nothing():
    model = build(TINY); before = [p.clone() for p in model.parameters()]
    rows = learn(model, np.arange(16)[:, None] * np.ones((1, CONTEXT)), lambda index, programs: -index.astype(float), setting('GRPO', epochs=1, max_len=4))
    assert rows[0]['even'] == 1 and all(torch.equal(p, q) for p, q in zip(model.parameters(), before))

@pytest.mark.parametrize('knobs, says', [
    (dict(baseline='mean'), 'baseline'), (dict(negatives='ignore'), 'negatives'), (dict(share='token'), 'share'), (dict(epochs=0), 'epochs'), (dict(batch=0), 'batch'),
    (dict(group=3), 'divide'), (dict(baseline='grpo'), 'group must be 2'), (dict(lr=-1e-4), 'lr'), (dict(lr=float('nan')), 'lr'), (dict(kl=float('inf')), 'kl'),
    (dict(temperature=0), 'temperature'), (dict(lam=1.5), 'lam'), (dict(max_len=0), 'max_len'), (dict(passes=0), 'passes'), (dict(clip=-0.1), 'clip')])
def test_knobs_out_of_range(knobs, says):
    with pytest.raises(ValueError, match=says): Knobs(**knobs)

def test_names_that_do_not_exist(tmp_path):
    with pytest.raises(ValueError, match="no algorithm 'SAC'"): setting('SAC')
    with pytest.raises(ValueError, match="no start 'cold'"): attempts.warm_start('cold')
    for module in (attempts, causes):
        with pytest.raises(ValueError, match='no study'): module.run_study('everything', tmp_path)
    (tmp_path / 'notes.txt').write_text('LD A,1')
    with pytest.raises(ValueError, match='no .asm'): corpus(tmp_path)

def test_the_state_of_another_run_is_refused(tmp_path):
    reward = lambda index, programs: np.ones(len(programs))
    learn(build(TINY), np.zeros((16, CONTEXT)), reward, Knobs(epochs=1, max_len=2), checkpoint=tmp_path / 'state')
    with pytest.raises(ValueError, match='another run'): learn(build(TINY), np.zeros((16, CONTEXT)), reward, Knobs(epochs=1, max_len=2, lr=1e-5), checkpoint=tmp_path / 'state')

@pytest.mark.parametrize('name, writers', [('PPO', 1), ('GRPO', 2)])
def test_killed_and_resumed_equals_uninterrupted(tmp_path, name, writers):
    def train(seed, record, checkpoint):
        model, contexts = build(TINY, seed), np.arange(32)[:, None] % 16 * np.ones((1, CONTEXT), int)
        knobs = setting(name, epochs=8, lr=3e-3, max_len=4, kl=0.1)
        return model, learn(model, contexts, lambda index, programs: [len(p) - index[i] / 10 for i, p in enumerate(programs)], knobs, record, checkpoint, writers=writers)
    assert survives_kills(train, tmp_path)

def test_writers_share_equally_or_not_at_all():
    "The programs depend on the number of writers, and it must divide the tasks of every update"
    reward, rows = lambda index, programs: [sum(p) for p in programs], []
    for writers in (None, 1, 2, 4): rows.append(learn(build(TINY), np.zeros((16, CONTEXT)), reward, Knobs(epochs=1, batch=8, max_len=4), writers=writers)[0]['reward'])
    assert rows[0] == rows[1] and len(set(rows)) == 3
    with pytest.raises(ValueError, match='3 writers in 1 processes cannot share updates of 8 and 8 tasks'): learn(build(TINY), np.zeros((16, CONTEXT)), reward, Knobs(batch=8), writers=3)
    with pytest.raises(ValueError, match='8 and 1 tasks'): learn(build(TINY), np.zeros((17, CONTEXT)), reward, Knobs(batch=8), writers=2)

def test_marks_tells_given_from_general():
    "The leak is right for the given input of most tasks and in general of few; the generator's programs for all inputs pass both"
    tasks = benchmark(False)
    more = [o for t in tasks for o in other_inputs(t, 8)]
    given, strict = marks(tasks, more, [leak(t) for t in tasks])
    assert given.sum() == 12 and strict.sum() == 3
    assert all(m.all() for m in marks(tasks, more, [generate(t, 'all') for t in tasks]))
    assert not any(m.any() for m in marks(tasks, more, [b'\x76'] * 16))

def test_every_reward_prefers_the_right_program():
    tasks = tasks_then()[:32]
    for name, make in REWARDS.items():
        good, bad = make(tasks)(np.arange(32), [generate(t, 'all') for t in tasks]), make(tasks)(np.arange(32), [b'\x00'] * 32)
        assert (np.asarray(good) > np.asarray(bad)).mean() > 0.9, name

def test_every_factor_is_a_setting():
    for name, (algorithm, changes) in FACTORS.items(): setting(algorithm, **{k: v for k, v in changes.items() if k not in ('reward', 'start')})

def test_iqm_and_band_against_known_values():
    "The middle half of 1..8 has mean 4.5 and an outlier does not move it; runs that all agree leave no doubt; the band covers the truth about as often as it says"
    assert iqm(range(1, 9)) == 4.5 and iqm([1, 2, 3, 1000]) == 2.5 and band([3.0] * 10) == (3.0, 3.0)
    rng = np.random.default_rng(0)
    hits = [low <= 0 <= high for low, high in (band(rng.normal(size=20), draws=300, seed=i) for i in range(150))]
    assert 0.85 < np.mean(hits) < 0.99
    apart = band([0.0] * 5, [1.0] * 5)           # within each stratum nothing varies
    assert apart == (0.5, 0.5)

def test_words_of_assembly_text():
    assert words("loop:  LD (IX+5),A  ; comment") == ['LOOP', ':', 'LD', '(', 'IX', '+', '5', ')', ',', 'A']
    assert words("EX AF,AF'") == ['EX', 'AF', ',', "AF'"] and words('LD HL,0FFh') == ['LD', 'HL', ',', '0FFH']

VICTIM = '''
import sys, time
from z80lit.record import study
def cell(x):
    if x > 2: print('ready', flush=True); time.sleep(100)
    return {'y': [x, x]}
study(sys.argv[1], {'q': 1}, [dict(x=x) for x in range(6)], cell)
'''

def test_ctrl_c_leaves_a_readable_record(tmp_path):
    path = tmp_path / 's.jsonl'
    victim = subprocess.Popen([sys.executable, '-c', VICTIM, str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert victim.stdout.readline() == 'ready\n'
    victim.send_signal(signal.SIGINT); victim.wait(30)
    assert victim.returncode and not path.exists() and [r['x'] for r in read_run(f'{path}.part').rows] == [0, 1, 2]
    ran = []
    study(path, {'q': 1}, [dict(x=x) for x in range(6)], lambda x: ran.append(x) or {'y': x})
    assert ran == [3, 4, 5] and len(read_run(path).rows) == 6

def test_a_broken_record_is_named(tmp_path):
    write_run(tmp_path / '07a_headline.jsonl', {}, [{'seed': 0}, {'seed': 1}], {})
    text = (tmp_path / '07a_headline.jsonl').read_text().replace('{"seed": 0}', '{"seed"')
    (tmp_path / '07a_headline.jsonl').write_text(text)
    with pytest.raises(ValueError, match='07a_headline.jsonl, line 2'): attempts.run_study('headline', tmp_path)
