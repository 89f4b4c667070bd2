"JupyterLab, driven by a real browser as a reader would drive it: the emulator chapter is run, the magic is used, and the stepper is clicked."
import json, os, re, secrets, shutil, socket, subprocess, sys, time, urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright

from conftest import missing
from test_site import flags

expect.set_options(timeout=60_000)

root = Path(__file__).resolve().parent.parent
shots = root/'_shots'                                   # what the browser saw, to be looked at

def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]

@pytest.fixture(scope='module')
def lab(chromium, tmp_path_factory):
    "The address of a JupyterLab over a copy of the book, with settings of its own"
    if not find_spec('ipywidgets'): missing("no ipywidgets: pip install -e '.[dev]'")
    here, port, token = tmp_path_factory.mktemp('lab'), free_port(), secrets.token_hex(8)
    shutil.copytree(root/'nbs', here/'nbs', ignore=shutil.ignore_patterns('.*'))
    (quiet := here/'settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings').parent.mkdir(parents=True)
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    env = os.environ | {f'JUPYTER_{d}_DIR': str(here/d.lower()) for d in ('CONFIG', 'RUNTIME')} | \
        {'JUPYTERLAB_SETTINGS_DIR': str(here/'settings'), 'JUPYTERLAB_WORKSPACES_DIR': str(here/'workspaces'), 'PYTHONPATH': str(root)}
    server = subprocess.Popen([sys.executable, '-m', 'jupyterlab', '--no-browser', '--allow-root', f'--port={port}', f'--IdentityProvider.token={token}', f'--ServerApp.root_dir={here/"nbs"}',
                               '--LabApp.extension_manager=readonly'],
                              env=env, stdout=subprocess.DEVNULL, stderr=open(here/'log', 'w'))
    for _ in range(300):
        try: urllib.request.urlopen(f'http://127.0.0.1:{port}/api/status?token={token}'); break
        except OSError: time.sleep(.2)
    else: pytest.fail((here/'log').read_text()[-2000:])
    yield f'http://127.0.0.1:{port}/lab/tree/{{}}?reset&token={token}'
    server.terminate()
    try: server.wait(10)
    except subprocess.TimeoutExpired: server.kill()      # its kernels notice

@pytest.fixture(scope='module')
def page(lab, chromium):
    "The emulator chapter, opened and run from top to bottom; what goes wrong on the way is in `page.wrong`"
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=flags)
        page = browser.new_context(viewport=dict(width=1400, height=1000)).new_page()    # a second page may be opened beside it
        page.set_default_timeout(60_000)
        page.wrong = []
        page.on('pageerror', lambda e: page.wrong.append(f'script: {e}'))
        page.on('request', lambda r: re.match(r'(http|ws)://127\.0\.0\.1|data:|blob:', r.url) or page.wrong.append(f'asks another host: {r.url}'))
        page.goto(lab.format('01_emulator.ipynb'))
        expect(page.locator('#jp-main-statusbar')).to_contain_text('| Idle')
        page.wait_for_timeout(500)                       # before that, Lab asks for a kernel
        page.locator('.lm-MenuBar-itemLabel', has_text=re.compile('^Run$')).click()
        page.locator('[data-command="runmenu:run-all"]').click()
        ran(page)
        yield page
        browser.close()

def ran(page, patience=150_000):
    "Wait until no code cell waits for its turn, `patience` milliseconds at most"
    page.wait_for_function(r"""() => {const prompts = [...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputPrompt')].map(e => e.textContent)
        return prompts.some(t => /\d/.test(t)) && !prompts.some(t => t.includes('*'))}""", timeout=patience, polling=200)

def shoot(page, name):
    shots.mkdir(exist_ok=True)
    page.screenshot(path=shots/f'{name}.png')

def type_cell(page, text):
    "Write a cell below the last one and run it; its output"
    cells = page.locator('.jp-Notebook .jp-CodeCell')
    cells.last.scroll_into_view_if_needed()
    cells.last.locator('.jp-InputPrompt').click()        # command mode
    page.keyboard.press('b')
    page.keyboard.press('Enter')
    page.keyboard.insert_text(text)
    page.keyboard.press('Control+Enter')
    ran(page)
    return cells.last.locator('.jp-OutputArea').first

def test_chapter_runs(page):
    "Every cell, without an error, a warning or a request to elsewhere"
    wrong = page.locator('[data-mime-type="application/vnd.jupyter.error"], [data-mime-type="application/vnd.jupyter.stderr"]').all_text_contents()
    assert [t for t in wrong if not t.startswith('compiling the Z80 core')] == []
    assert page.wrong == []

def test_magic(page):
    "A reader's own cell: the listing, the sum in A, what changed in bold"
    out = type_cell(page, '%%z80 a=30 b=4\nadd a,b\nld (8000h),a')
    expect(out).to_contain_text('Returned after 17 T-states and 2 instructions.')
    assert '2230' in out.locator('strong').all_inner_texts()
    shoot(page, 'magic')

def test_magic_points_at_a_mistake(page):
    out = type_cell(page, '%%z80 a=1\nadd a,b\nld q,5')
    expect(out).to_contain_text('line 3, column 4')
    out = type_cell(page, '%%z80 a=256\nhalt')
    expect(out).to_contain_text('line 1, column 9: a = 256 is out of range 0..0FFh')
    shoot(page, 'mistake')

def test_stepper(page):
    "Step, back, run to the cursor and play, with the registers following"
    state, press = page.locator('.z80lit-state'), lambda name: page.get_by_role('button', name=name, exact=True).click()
    state.scroll_into_view_if_needed()
    value = lambda register: state.locator('table').first.evaluate('(t, r) => t.rows[1].cells[[...t.rows[0].cells].findIndex(c => c.innerText == r)].innerText', register)
    expect(state).to_contain_text('Step 2, 11 T-states')
    assert (value('PC'), value('AF'), value('HL')) == ('0003', '0044', '9000')
    press('Step')
    expect(state).to_contain_text('Step 3, 18 T-states')
    assert (value('PC'), value('AF')[:2]) == ('0004', '0A')
    press('Step')
    expect(state).to_contain_text('Step 4')
    assert value('HL') == '9001'
    shoot(page, 'stepper')
    press('Back')
    expect(state).to_contain_text('Step 3, 18 T-states')
    assert (value('PC'), value('HL')) == ('0004', '9000')
    page.locator('.z80lit-lines select').select_option(index=5)
    press('Run to cursor')
    expect(state).to_contain_text('Step 17')
    assert (value('PC'), value('AF')[:2]) == ('0007', '96')
    while 'Step 10,' not in state.inner_text(): press('Back'); page.wait_for_timeout(50)
    page.locator('.jupyter-widgets .fa-play').click()
    expect(state).to_contain_text('ended')
    assert (value('PC'), value('AF')[:2]) == ('000D', '4B')
    shoot(page, 'played')
    assert page.wrong == []

def has_code(path): return any(c['cell_type'] == 'code' for c in json.loads(path.read_text(encoding='utf-8'))['cells'])

chapters = [p.stem for p in sorted((root/'nbs').glob('*.ipynb')) if has_code(p)]

@pytest.mark.parametrize('name', ['02_tasks', *(pytest.param(c, marks=pytest.mark.lab) for c in chapters if c != '02_tasks')])
def test_notebook_runs_from_top_to_bottom(lab, page, name):
    "Opened and run by a reader who chose Run All; `make lab-test` does so with every chapter that has code"
    tab = page.context.new_page()
    tab.goto(lab.format(f'{name}.ipynb'))
    expect(tab.locator('#jp-main-statusbar')).to_contain_text('| Idle')
    tab.wait_for_timeout(500)
    tab.locator('.lm-MenuBar-itemLabel', has_text=re.compile('^Run$')).click()
    tab.locator('[data-command="runmenu:run-all"]').click()
    ran(tab, 900_000)
    errors = tab.locator('[data-mime-type="application/vnd.jupyter.error"]').all_text_contents()
    tab.close()
    assert errors == []
