"Training by example and by reward: stopping, going on, recording, the main job in small."
import signal, subprocess, sys, time, warnings
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from z80lit.dissect import pass_at, splits, supply, training_set
from z80lit.model import CONTEXT, Config, Training, batches, build, encode, fit, schedule, validate
from z80lit.record import Recorder, read_run, study, write_run
from z80lit import sft
from z80lit.tasks import KINDS, article_context

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

@pytest.mark.parametrize('more', [dict(ema=0.9), dict(patience=2), dict(ema=0.9, patience=2, epochs=12)])
def test_resumed_with_an_average_and_a_best_equals_uninterrupted(tmp_path, more):
    "Broken off after each of the first epochs, and again: the end is the same to the bit"
    knobs, unseen = replace(KNOBS, **more), lesson(32, seed=5)
    whole = build(TINY)
    expected = fit(whole, *lesson(), knobs, validation=unseen)
    def stop(row): raise KeyboardInterrupt
    for seed in range(3):             # later runs begin with other weights: everything must come from the state
        with pytest.raises(KeyboardInterrupt): fit(build(TINY, seed), *lesson(), knobs, checkpoint=tmp_path / 's', validation=unseen, tell=stop)
    resumed = build(TINY, 9)
    assert timeless(fit(resumed, *lesson(), knobs, checkpoint=tmp_path / 's', validation=unseen)) == timeless(expected) and same(whole, resumed)

def test_early_stop_keeps_the_best():
    "A validation set that contradicts the lesson: its loss rises soon, and the weights are those from before"
    model, unseen = build(TINY), (lesson()[0], [b'\x00\x01\x02'] * 64)
    rows = fit(model, *lesson(), replace(KNOBS, epochs=30, patience=2), validation=unseen)
    best = min(rows, key=lambda r: r['validation'])
    assert len(rows) == best['epoch'] + 2 < 30
    assert validate(model, encode(*unseen)) == pytest.approx(best['validation'], rel=1e-4)
    with pytest.raises(ValueError, match='validate on'): fit(build(TINY), *lesson(), replace(KNOBS, patience=1))

def test_batches_take_every_program_once_and_little_padding():
    for seed in range(20):
        rng = torch.Generator().manual_seed(seed)
        lengths = torch.randint(1, 30, (101,), generator=rng)
        parts = batches(lengths, 8, rng)
        assert sorted(torch.cat(parts).tolist()) == list(range(101)) and [len(p) for p in parts].count(8) == 12
        padded = lambda parts: sum(len(p) * int(lengths[p].max()) for p in parts)
        assert padded(parts) < 0.85 * padded(torch.arange(101).split(8))
    assert any((a != b).any() for a, b in zip(batches(lengths, 8, rng), batches(lengths, 8, rng)) if len(a) == len(b))

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

def test_a_study_that_is_killed_goes_on_with_what_is_missing(tmp_path):
    cells, ran = [dict(x=x, seed=s) for x in 'ab' for s in range(3)], []
    def run(x, seed):
        if len(ran) in (2, 4) and (x, seed) not in ran: ran.append(None); raise KeyboardInterrupt
        ran.append((x, seed)); return {'y': seed}
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt): study(tmp_path / 's.jsonl', {'q': 1}, cells, run)
        assert not (tmp_path / 's.jsonl').exists()
    result = study(tmp_path / 's.jsonl', {'q': 1}, cells, run)
    assert [r for r in ran if r] == [(c['x'], c['seed']) for c in cells] and result.summary == {'cells': 6} and len(result.rows) == 6
    assert study(tmp_path / 's.jsonl', {'q': 1}, cells, None) == result          # nothing is left to run
    with pytest.raises(ValueError, match='another configuration'): study(tmp_path / 's.jsonl', {'q': 2}, cells, run)

def test_a_broken_study_is_not_overwritten(tmp_path):
    write_run(tmp_path / 's.jsonl', {}, [{'x': 1}, {'x': 2}], {})
    spoilt = (tmp_path / 's.jsonl').read_text().replace('{"x": 1}', '{"x"')
    (tmp_path / 's.jsonl').write_text(spoilt)
    with pytest.raises(ValueError, match='line 2'): study(tmp_path / 's.jsonl', {}, [{'x': 3}], None)
    assert (tmp_path / 's.jsonl').read_text() == spoilt

# the splits

def test_splits_are_the_same_every_time_and_share_nothing():
    one, two = splits(160), splits(160)
    assert one == two
    contexts = [article_context([t]).tobytes() for ts in one.values() for t in ts]
    assert len(contexts) == len(set(contexts)) == sum(map(len, one.values()))
    with pytest.raises(ValueError, match='too many'): supply(2000, 'x', [k for k in KINDS if k.name == 'fill'], lambda t: True, set())   # there are but 1,792

def test_training_sets_have_what_their_names_say():
    assert [len(training_set(n)) for n in ('16', '50', '100', '200', '8+100', '8+100 of all kinds')] == [16, 50, 100, 200, 108, 108]
    assert len({t.category for t in training_set('8+100 of all kinds')[:8]}) == 8

def test_pass_at_one_is_the_share_and_grows_with_k():
    right = np.array([0, 1, 5, 16])
    values = [pass_at(k, 16, right) for k in (1, 2, 4, 8, 16)]
    assert values[0] == pytest.approx(right.mean() / 16) and values == sorted(values) and values[-1] == 0.75

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
    code = "import sys; import z80lit.causes; assert 'z80lit.sft' not in sys.modules"
    subprocess.run([sys.executable, '-c', code], check=True)
