"""A full disk, and two trainings into one folder. The other faults have their tests where they belong: a cache that cannot be written to in test_safety, records cut off or of another version
in test_training and 05c_record, broken and wrong checkpoints and pickles in test_model, kill -9 in test_training and test_rl, a worker killed in test_scale."""
import subprocess, sys, time
from dataclasses import asdict
from pathlib import Path

import pytest

from z80lit.model import build, fit, load, save
from z80lit.record import Recorder, read_run, rewrite
from test_training import KNOBS, TINY, lesson, same, timeless

HERE = str(Path(__file__).parent)
ROOM = '''
import resource, sys; sys.path.insert(0, {here!r})
from test_training import *
resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room}))        # a write beyond this fails in the middle, as on a full disk
'''
TRAIN = ROOM + '''
with Recorder({folder!r} + '/run.jsonl', asdict(KNOBS), 0) as record:
    fit(build(TINY), *lesson(), KNOBS, record, {folder!r} + '/state.safetensors')
'''

def child(code, **values): return subprocess.run([sys.executable, '-c', code.format(here=HERE, **values)], capture_output=True, text=True)

def test_training_on_a_full_disk_goes_on_where_it_stopped(tmp_path):
    "First no room for a state, then none for the record; with room the end is that of a run that was never stopped"
    whole = build(TINY)
    expected = fit(whole, *lesson(), KNOBS)
    for room, victim in (1500, 'state.safetensors'), (100, 'run.jsonl'):
        out = child(TRAIN, folder=str(tmp_path), room=room)
        assert out.returncode == 1 and 'File too large' in out.stderr.splitlines()[-1] and victim in out.stderr.splitlines()[-1], out.stderr
        assert not list(tmp_path.glob('*.tmp')) and not list(tmp_path.glob('.tmp*')) and not (tmp_path/'run.jsonl').exists()
    resumed = build(TINY)         # no state was ever whole
    with Recorder(tmp_path/'run.jsonl', asdict(KNOBS), 0) as record:
        rows = fit(resumed, *lesson(), KNOBS, record, tmp_path/'state.safetensors')
        record.close(loss=rows[-1]['loss'])
    assert same(whole, resumed) and timeless(read_run(tmp_path/'run.jsonl').rows) == timeless(expected)

def test_full_disk_loses_no_old_state(tmp_path):
    "A run that was broken off, and then finds the disk full, can still be gone on with"
    def stop(row):
        if row['epoch'] == 3: raise KeyboardInterrupt
    state = tmp_path/'state.safetensors'
    with pytest.raises(KeyboardInterrupt), Recorder(tmp_path/'run.jsonl', asdict(KNOBS), 0) as record: fit(build(TINY), *lesson(), KNOBS, record, state, tell=stop)
    before = state.read_bytes()
    out = child(TRAIN, folder=str(tmp_path), room=2500)
    assert out.returncode == 1 and 'state.safetensors' in out.stderr.splitlines()[-1], out.stderr
    assert state.read_bytes() == before and len(read_run(tmp_path/'run.jsonl.part').rows) in (3, 4)

def test_full_disk_loses_no_old_checkpoint(tmp_path):
    "Neither weights nor configuration of the old model are touched when those of the new one do not fit"
    save(build(TINY), tmp_path/'model')
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    out = child(ROOM + "from z80lit.model import save\nsave(build(Config(d=64, layers=2, heads=2, ff=64)), {folder!r} + '/model')", folder=str(tmp_path), room=2500)
    assert out.returncode == 1 and 'model.safetensors' in out.stderr.splitlines()[-1], out.stderr
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before and same(load(tmp_path/'model'), build(TINY))

def test_two_trainings_into_one_folder(tmp_path):
    "The second says that there is a first, which does not notice"
    code = TRAIN.replace("'/state.safetensors')", "'/state.safetensors', tell=lambda row: time.sleep(0.4))\n    record.close(done=True)")
    first = subprocess.Popen([sys.executable, '-c', code.format(here=HERE, folder=str(tmp_path), room=-1)], stderr=subprocess.PIPE, text=True)
    while not (tmp_path/'run.jsonl.part').exists():
        assert first.poll() is None, first.stderr.read()
        time.sleep(0.02)
    with pytest.raises(BlockingIOError, match='run.jsonl: another process is writing this record'), Recorder(tmp_path/'run.jsonl', asdict(KNOBS), 0) as record:
        fit(build(TINY), *lesson(), KNOBS, record, tmp_path/'state.safetensors')
    assert first.wait(60) == 0, first.stderr.read()
    assert timeless(read_run(tmp_path/'run.jsonl').rows) == timeless(fit(build(TINY), *lesson(), KNOBS))

def test_read_only_folder():
    "/proc is one, whoever runs this"
    with pytest.raises(OSError, match='/proc/z80lit'): rewrite('/proc/z80lit/run.jsonl', lambda p: p.write_text(''))
    with pytest.raises(OSError, match='/proc/z80lit'): Recorder('/proc/z80lit/run.jsonl', {})
