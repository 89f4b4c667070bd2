"""The tasks, the seeded set and the reward: what is too wide for a cell."""
import itertools, os, pickle, random, subprocess, sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from z80lit import tasks as T
from z80lit.reward import WRONG, score
from z80lit.tasks import KINDS, article_context, baseline, benchmark, fingerprint, fresh_tasks, identity, make, other_inputs, reg, right, run_tasks, training_tasks, with_inputs

FINGERPRINTS = dict(
    benchmark='15da03d0fdfee645be1036a4b884f495ec51d15a9d93ae2c806100571123147d',
    training='1952d2f21840be56127eec305d01df392e992e6d9422ea527bf25813e2df0881',
    fresh='7da861e4b59fb40a668da6837c1c84b2cb24b37b8d9cfdc95ca2cc9c44bc6168')

def every_setting(kind, limit=400):
    "Tasks of a kind, one for each of its parameter settings, or an even sample of them"
    rng = random.Random(0)
    all_params = [dict(zip(kind.spaces, v)) for v in itertools.product(*kind.spaces.values())]
    for params in all_params[::-(-len(all_params)//limit)]:
        yield make(kind, params, *(kind.given or kind.inputs)(rng, **params))

def test_fingerprints():
    assert fingerprint(benchmark()) == FINGERPRINTS['benchmark']
    assert fingerprint(training_tasks()) == FINGERPRINTS['training']
    assert fingerprint(fresh_tasks(1000)) == FINGERPRINTS['fresh']

def test_fingerprint_does_not_depend_on_hash_seed_or_process():
    code = 'from z80lit.tasks import *; print(fingerprint(training_tasks() + fresh_tasks(50)))'
    seen = {subprocess.run([sys.executable, '-c', code], env=os.environ | {'PYTHONHASHSEED': str(h)}, capture_output=True, text=True, check=True).stdout for h in (1, 2)}
    assert seen == {fingerprint(training_tasks() + fresh_tasks(50)) + '\n'}

def test_fingerprint_sees_every_part():
    t = benchmark()[4]
    variants = [t, with_inputs(t, {'b': 5}), with_inputs(t, {'hl': 0x9001}), with_inputs(t, {}, {0x9000: b'\x11\x22\x33\x45'}),
                make(KINDS[4], dict(n=3), t.registers, t.memory), make(KINDS[7], dict(n=4), t.registers, t.memory)]
    assert len({fingerprint([v]) for v in variants}) == len(variants)

@pytest.mark.parametrize('seed', range(12))
def test_training_sets(seed):
    ts = training_tasks(seed)
    assert len(ts) == 200 and ts[:16] == benchmark()
    for target in (False, True): assert len(np.unique(article_context(ts, target), axis=0)) == 200
    others = {article_context([t], False).tobytes() for t in ts if t not in benchmark()[1:3]}
    assert article_context(benchmark(False)[1:2], False).tobytes() not in others     # the undisambiguated pair collides with nothing but itself
    assert {t.name for t in ts[16:]} == {k.name for k in KINDS}
    assert right(ts, run_tasks(ts, [baseline(t) for t in ts])).all()

@pytest.mark.parametrize('seed', range(3))
def test_fresh_tasks_are_fresh(seed):
    fresh, known = fresh_tasks(5000, seed), {identity(t) for t in training_tasks() + benchmark() + benchmark(False)}
    ids = {identity(t) for t in fresh}
    assert len(ids) == 5000 and not ids & known

def test_many_fresh_tasks_do_not_hang(): assert len(fresh_tasks(40_000, 7)) == 40_000

@pytest.mark.parametrize('kind', KINDS, ids=lambda k: k.name)
def test_baseline_of_every_setting(kind):
    tasks = list(every_setting(kind))
    asked = tasks + [q for t in tasks for q in other_inputs(t, 8)]
    programs = [baseline(t) for t in tasks] + [baseline(t) for t in tasks for _ in range(8)]
    assert right(asked, run_tasks(asked, programs)).all()

def test_types():
    types = {k.name: k.type for k in KINDS}
    assert types['fold-add'] == types['fold-or'] == types['fold-muladd'] == 0 and types['shift'] == 3
    assert set(types.values()) <= set(range(16)) and len(set(types.values())) == 14

def test_tasks_travel_to_other_processes():
    for t in benchmark():
        u = pickle.loads(pickle.dumps(t))
        assert u == t and u.semantics(t.registers, t.memory) == t.expected

bytes8 = st.integers(0, 255)
@settings(max_examples=200, deadline=None)
@given(st.integers(0, 15), st.dictionaries(st.sampled_from('abcdehl'), bytes8))
def test_with_inputs(i, registers):
    task = benchmark()[i]
    asked = with_inputs(task, registers)
    assert task == benchmark()[i]                                             # the original is as it was
    assert asked.expected == task.semantics(asked.registers, asked.memory)
    assert all(reg(asked.registers, r) == v for r, v in registers.items())
    row = article_context([asked])[0]
    assert list(row[1:8]) == [reg(asked.registers, r) for r in 'abcdehl'] and row[8] == asked.expected[0] and row[0] == task.type

@pytest.mark.parametrize('registers, memory, words', [
    ({'x': 1}, {}, "no input register 'x'"), ({'A': 1}, {}, "'A'"), ({'a': 256}, {}, 'register a = 256'), ({'hl': 65536}, {}, 'register hl'),
    ({'b': -1}, {}, 'register b = -1'), ({}, {65536: b'x'}, 'address 65536'), ({}, {-1: b'x'}, 'address -1')])
def test_bad_inputs_are_named(registers, memory, words):
    with pytest.raises(ValueError, match=words): with_inputs(benchmark()[0], registers, memory)

def test_wrong_numbers_of_programs():
    with pytest.raises(ValueError, match='2 programs for 16 tasks'): run_tasks(benchmark(), [b'\x76']*2)
    with pytest.raises(ValueError, match='2 programs for 16 tasks'): score(benchmark(), [b'\x76']*2)

def test_empty_batch():
    assert article_context([]).shape == (0, 9) and fresh_tasks(0) == []

def article_reward(correct, cycles_saved, bytes_saved, hamming_match_ratio):
    "The formula as printed, one program at a time"
    r = 0.0
    if correct:
        r += 10.0
        r += cycles_saved*0.01
        r += bytes_saved*0.1
        if cycles_saved > 0 and bytes_saved > 0: r += 1.0
    else: r = -5.0*(1.0 - hamming_match_ratio)
    return r

def test_reward_is_the_article_formula():
    rng, tasks = np.random.default_rng(1), training_tasks()
    half = [baseline(t)[:int(rng.integers(0, 20))] + bytes(rng.integers(0, 256, 3, dtype=np.uint8)) for t in tasks]
    for programs in (half, [baseline(t) for t in tasks], [T.leak(t) for t in tasks], [b'']*200):
        s, batch, base = score(tasks, programs), run_tasks(tasks, programs), run_tasks(tasks, [baseline(t) for t in tasks])
        for i, (t, p) in enumerate(zip(tasks, programs)):
            got = bytes(batch.outputs[i, :len(t.expected)])
            match = 1 - sum((a ^ b).bit_count() for a, b in zip(got, t.expected))/(8*len(t.expected))
            assert s.match[i] == pytest.approx(match) and s.size[i] == len(p)
            assert s.correct[i] == (str(T.Stop(batch.stop[i])) == 'halted' and got == t.expected)
            assert s.reward[i] == pytest.approx(article_reward(s.correct[i], base.tstates[i] - batch.tstates[i], len(baseline(t)) - len(p), match))

def test_arrays_and_lists_score_the_same():
    tasks = benchmark()
    programs = [baseline(t) for t in tasks]
    lengths = np.array([len(p) for p in programs])
    array = np.zeros((16, lengths.max()), np.uint8)
    for row, p in zip(array, programs): row[:len(p)] = list(p)
    for a, b in zip(score(tasks, programs), score(tasks, array, lengths)): assert (a == b).all()

def test_wrong_rewards_stay_between_minus_five_and_zero():
    rng = np.random.default_rng(2)
    tasks = training_tasks()*20
    s = score(tasks, rng.integers(0, 256, (len(tasks), 9), dtype=np.uint8), budget=500)
    assert ((s.reward[~s.correct] >= WRONG) & (s.reward[~s.correct] <= 0)).all()
