"Grids of experiments on more than one process: joblib's processes, and a Dask cluster of two workers, one of which dies."
import os, signal
from pathlib import Path

import joblib
import pytest

from z80lit.record import read_run, study

CELLS = [dict(number=n) for n in range(8)]

def square(number): return {'square': number**2, 'process': os.getpid()}

def squares(run): return sorted((r['number'], r['square']) for r in run.rows)

EXPECTED = [(n, n * n) for n in range(8)]

def dies_once(number, folder):
    "Kills its own process the first time it is asked for 3"
    mark = Path(folder)/'died'
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return square(number)

def test_processes(tmp_path):
    with joblib.parallel_config(n_jobs=2): run = study(tmp_path/'run.jsonl', {}, CELLS, square)
    assert squares(run) == EXPECTED and os.getpid() not in {r['process'] for r in run.rows}

def test_interrupted_grid_runs_what_is_missing(tmp_path):
    "The first three cells alone, then all eight on two processes: five are run"
    first = study(tmp_path/'run.jsonl', {}, CELLS[:3], square)
    with joblib.parallel_config(n_jobs=2): run = study(tmp_path/'run.jsonl', {}, CELLS, square)
    assert squares(run) == EXPECTED and run.rows[:3] == first.rows

@pytest.fixture(scope='module')
def cluster():
    "Two Dask workers on this machine"
    from dask.distributed import Client, LocalCluster
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster): yield cluster

def test_dask_survives_the_death_of_a_worker(tmp_path, cluster):
    "The cell is run again elsewhere, and is in the record once"
    cells = [c | dict(folder=str(tmp_path)) for c in CELLS]
    with joblib.parallel_config(backend='dask'): run = study(tmp_path/'run.jsonl', {}, cells, dies_once)
    assert (tmp_path/'died').exists() and squares(run) == EXPECTED
    assert read_run(tmp_path/'run.jsonl').summary == {'cells': 8}
