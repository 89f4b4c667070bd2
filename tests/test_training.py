"Training by example and by reward: stopping, going on, recording, the main job in small."
import os, random, signal, subprocess, sys, time, warnings
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from z80lit.dissect import pass_at, splits, supply, training_set
from z80lit.model import CONTEXT, Config, Training, batches, build, encode, fit, has_bf16, load, pick_device, save, schedule, validate
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

def killed_until_done(job, record, seconds, seed=0):
    """Run `job` in one child process after another, each killed with -9 at a random moment, until one has completed `record`; returns the number of rows each left behind.
    `seconds` is what the whole job takes; the lives are shorter than a quarter of it at first and grow."""
    left, rng, life = [], random.Random(seed), seconds / 4
    while not record.exists():
        child = os.fork()
        if not child:
            try: job()
            finally: os._exit(0)
        time.sleep(rng.uniform(0, life))
        os.kill(child, signal.SIGKILL); os.waitpid(child, 0)
        life *= 1.15
        part = Path(f'{record}.part')
        if part.exists():
            with warnings.catch_warnings(): warnings.simplefilter('ignore'); left.append(len(read_run(part).rows))
    return left

def survives_kills(train, folder):
    "`train(seed of the weights, record, checkpoint)` returns a model and rows. Killed at many moments, does it end with the weights and rows of a run that was left alone?"
    train(0, None, None)              # what torch does once only
    start = time.perf_counter()
    whole, expected = train(0, None, None)
    seconds = time.perf_counter() - start
    def job():
        with Recorder(folder/'run.jsonl', {}) as record:
            _, rows = train(99 if (folder/'state').exists() else 0, record, folder/'state')      # other weights: everything must come from the state
            record.close(rows=len(rows))
    left = killed_until_done(job, folder/'run.jsonl', seconds)
    print('rows at each kill:', left)
    resumed, _ = train(99, None, folder/'state')
    return len(set(left)) > 2 and same(whole, resumed) and timeless(read_run(folder/'run.jsonl').rows) == timeless(expected)

@pytest.mark.parametrize('more', [{}, dict(ema=0.9, patience=3)])
def test_killed_and_resumed_equals_uninterrupted(tmp_path, more):
    def train(seed, record, checkpoint):
        model, knobs = build(TINY, seed), replace(KNOBS, epochs=12, **more)
        return model, fit(model, *lesson(), knobs, record, checkpoint, validation=lesson(32, seed=5))
    assert survives_kills(train, tmp_path)

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

def test_pieces_of_a_batch_add_up_to_it():
    "Four programs at once instead of eight: the losses and weights of the whole batches but for rounding, and one run can go on as the other"
    whole, cut = build(TINY), build(TINY)
    one, two = fit(whole, *lesson(), KNOBS), fit(cut, *lesson(), KNOBS, micro=3)
    assert [r['loss'] for r in two] == pytest.approx([r['loss'] for r in one], rel=1e-3)
    for p, q in zip(whole.parameters(), cut.parameters()): torch.testing.assert_close(q, p, rtol=1e-2, atol=1e-3)
    with pytest.raises(ValueError, match='micro=0'): fit(build(TINY), *lesson(), KNOBS, micro=0)

def test_compiled_is_the_same():
    "By the backend that needs no C++ compiler: what torch makes of the model, run as it is. The record and the weights belong to the model itself"
    plain, fast = build(TINY), build(TINY)
    knobs = replace(KNOBS, epochs=2)
    one, two = fit(plain, *lesson(), knobs), fit(fast, *lesson(), knobs, compiler='eager')
    assert [r['loss'] for r in two] == pytest.approx([r['loss'] for r in one], rel=1e-3)
    for p, q in zip(plain.parameters(), fast.parameters()): torch.testing.assert_close(q, p, rtol=1e-2, atol=1e-3)

@pytest.mark.parametrize('gpus, mps, rank, asked, given', [
    (0, False, None, 'auto', 'cpu'), (0, True, None, 'auto', 'mps:0'), (2, True, None, 'auto', 'cuda:0'), (2, False, '1', 'auto', 'cuda:1'), (2, False, '1', 'cuda', 'cuda:1'),
    (2, False, '1', 'cuda:0', 'cuda:0'), (2, False, None, 'cpu', 'cpu'), (0, True, '1', 'mps', 'mps:0'), (0, True, None, torch.device('mps:0'), 'mps:0'),
    (0, False, None, 'cuda', None), (0, False, None, 'mps', None), (1, False, '1', 'cuda', None), (1, False, None, 'gpu', None), (1, False, None, 'cuda:x', None)])
def test_one_function_picks_the_device(monkeypatch, gpus, mps, rank, asked, given):
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: gpus)
    monkeypatch.setattr(torch.backends.mps, 'is_available', lambda: mps)
    if rank: monkeypatch.setenv('LOCAL_RANK', rank)
    else: monkeypatch.delenv('LOCAL_RANK', raising=False)
    if given: assert pick_device(asked) == torch.device(given)
    else:
        with pytest.raises(ValueError, match=f'no device .* here, only .*cpu'): pick_device(asked)

def test_a_device_that_is_not_there_is_refused_by_name(tmp_path):
    save(build(TINY), tmp_path/'m')
    for make in (lambda d: build(TINY, device=d), lambda d: load(tmp_path/'m', d)):
        with pytest.raises(ValueError, match="no device 'cuda:77' here"): make('cuda:77')

def test_bfloat16_where_there_is_any(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_bf16_supported', lambda including_emulation: False)
    monkeypatch.setattr(torch.backends.mps, 'is_macos_or_newer', lambda major, minor: major <= 13)
    assert [has_bf16(torch.device(d)) for d in ('cpu', 'cuda', 'mps')] == [True, False, False]
    dtypes, model = [], build(TINY)
    model.blocks[0].feed.up.register_forward_hook(lambda module, inputs, out: dtypes.append(out.dtype))
    for bf16 in (False, True): fit(model, *lesson(8), replace(KNOBS, epochs=1, bf16=bf16))
    assert dtypes == [torch.float32, torch.bfloat16]

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
