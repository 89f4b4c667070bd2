"What the tests need from outside: the data packs and a browser. Missing, they are skipped with a line that says so; in CI they fail."
import os, shutil, signal
from pathlib import Path

import pytest

root = Path(__file__).resolve().parent.parent
signal.signal(signal.SIGINT, signal.default_int_handler)     # a job in the background is born deaf to Ctrl-C, and so would be the processes that tests interrupt

def missing(what):
    "Skip for want of `what`; under CI, fail"
    (pytest.fail if os.environ.get('CI') else pytest.skip)(what)

@pytest.fixture(scope='session')
def data_dir():
    "The folder of data packs: Z80LIT_DATA, or ../shared/data beside the checkout"
    path = Path(os.environ.get('Z80LIT_DATA') or root.parent/'shared'/'data')
    if not path.is_dir(): missing(f'no data packs at {path}: set Z80LIT_DATA to the folder that holds them')
    return path

@pytest.fixture(scope='session')
def chromium():
    "The path of a Chromium or Chrome"
    path = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))), None)
    if not path: missing('no chromium on the PATH: the site is not opened in a browser')
    return path

def pytest_configure(config):
    config.addinivalue_line('markers', 'slow: minutes long; runs with Z80LIT_SLOW=1')
    config.addinivalue_line('markers', 'lab: every chapter in JupyterLab; `make lab-test`')
    config.addinivalue_line('markers', 'checked: for a core with bounds checks, in a process that tests/test_safety.py starts')

LONG = 'safety', 'site', 'lab_browser', 'conform', 'mutation', 'package', 'bad_asm', 'fuzz', 'emulator', 'torchrun'      # files of minutes; begun first, so that no worker is left alone with one at the end

def pytest_collection_modifyitems(config, items):
    "Leave out what this process is not meant to run, and begin with the longest files"
    out = {mark for mark, variable in (('slow', 'Z80LIT_SLOW'), ('lab', 'Z80LIT_LAB'), ('checked', 'NUMBA_BOUNDSCHECK')) if not os.environ.get(variable)}
    dropped = [i for i in items if out & {m.name for m in i.iter_markers()}]
    config.hook.pytest_deselected(items=dropped)
    rank = {f'test_{name}.py': k for k, name in enumerate(LONG)}
    items[:] = sorted((i for i in items if i not in dropped), key=lambda i: rank.get(i.path.name, len(LONG)))
