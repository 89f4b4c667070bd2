"The site, opened page by page in a headless browser: whole, quiet, and asking nothing of any other host."
import functools, json, re, subprocess, sys, threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
import yaml
from playwright.sync_api import sync_playwright

root = Path(__file__).resolve().parent.parent
notebooks = sorted((root/'nbs').glob('*.ipynb'))
each_notebook = pytest.mark.parametrize('path', notebooks, ids=lambda p: p.stem)
flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
leftovers = re.compile(r'@(?:fig|tbl|eq|sec)-\w|^:::|^#\||\{#\w|\$\$', re.M)

class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args): pass

@pytest.fixture(scope='module')
def site():
    "The site's folder, built if it is missing; `make test` builds it afresh before"
    folder = root/'_docs'
    if not (folder/'index.html').exists(): subprocess.run([sys.executable, root/'.ci'/'build_docs.py'], check=True)
    return folder

@pytest.fixture(scope='module')
def address(site):
    "Where the site is served, on this machine only"
    server = ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f'http://127.0.0.1:{server.server_port}/'
    server.shutdown()

@pytest.fixture(scope='module')
def browser(chromium):
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()

@pytest.fixture(scope='module')
def pages(site, address, browser):
    "Every page as the browser saw it: ids, links, images, text, what went wrong"
    names, seen = [p.name for p in sorted(site.glob('*.html'))], {}
    for some in (names[i:i + 4] for i in range(0, len(names), 4)):          # four at a time, for each is idle while it waits for silence
        opened = [open_page(browser, address, name) for name in some]
        seen |= {name: look(*page) for name, page in zip(some, opened)}
    return seen

def open_page(browser, address, name):
    "Begin to load a page on a wide screen; it comes with a list of what goes wrong"
    page, wrong = browser.new_page(viewport=dict(width=1280, height=900)), []
    page.on('console', lambda m: m.type in ('error', 'warning') and wrong.append(f'console: {m.text}'))
    page.on('pageerror', lambda e: wrong.append(f'script: {e}'))
    page.on('request', lambda r: r.url.startswith((address, 'data:', 'blob:')) or wrong.append(f'asks another host: {r.url}'))
    page.on('response', lambda r: r.status >= 400 and wrong.append(f'{r.status}: {r.url}'))
    page.goto(address + name, wait_until='commit')
    return page, wrong

def look(page, wrong):
    "What is on a page when all is loaded; then it is narrowed to a telephone's width"
    page.wait_for_load_state('networkidle')
    seen = page.evaluate('''() => ({
        title: document.querySelector('h1')?.innerText,
        ids: [...document.querySelectorAll('[id]')].map(e => e.id),
        links: [...document.querySelectorAll('a[href]')].map(a => a.href),
        images: [...document.querySelectorAll('main img, main svg')].filter(e => e.tagName == 'svg' || e.complete && e.naturalWidth).length,
        headings: [...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].filter(e => e.offsetParent).map(e => +e.tagName[1]),
        mute: [...document.querySelectorAll('main img')].filter(e => !e.alt).length,
        blank: [...document.querySelectorAll('main img')].filter(e => !e.naturalWidth).map(e => e.src.slice(0, 80)),
        prose: [...document.querySelectorAll('main p, main li, main td, main figcaption')].map(e => e.innerText).join('\\n')})''')
    page.set_viewport_size(dict(width=390, height=844))
    seen['overflow'] = page.evaluate('document.documentElement.scrollWidth - window.innerWidth')
    page.close()
    return seen | {'wrong': wrong}

def page_of(path): return re.sub(r'^\d+[a-z]*_', '', path.stem) + '.html'

def figures(path):
    "How many pictures the notebook's visible cells hold"
    cells = [c for c in json.loads(path.read_text(encoding='utf-8'))['cells'] if c['cell_type'] == 'code']
    shown = [c for c in cells if not re.search(r'^#\| *(hide|include: *false|output: *false)\s*$', ''.join(c['source']), re.M)]
    return sum(bool({'image/png', 'image/svg+xml'} & o.get('data', {}).keys()) for c in shown for o in c['outputs'])

@each_notebook
def test_page_is_whole(pages, path):
    "Every notebook has its page, with its title and all its figures, and no markup left as text"
    page, title = pages[page_of(path)], ''.join(json.loads(path.read_text(encoding='utf-8'))['cells'][0]['source']).splitlines()[0]
    assert page['title'] == title.lstrip('# ')
    assert not page['blank'] and page['images'] >= figures(path)
    assert not (found := leftovers.search(page['prose'])), f'markup left as text: {found[0]}'

@each_notebook
def test_page_is_quiet(pages, path):
    "No console message, no failed or foreign request"
    assert pages[page_of(path)]['wrong'] == []

@each_notebook
def test_page_can_be_heard(pages, path):
    "For a screen reader: one first-rank heading, no rank passed over on the way down, a text for every picture"
    ranks = pages[page_of(path)]['headings']
    assert ranks.count(1) == 1 and all(b <= a + 1 for a, b in zip(ranks, ranks[1:]))
    assert pages[page_of(path)]['mute'] == 0

@each_notebook
def test_page_fits_a_telephone(pages, path):
    assert pages[page_of(path)]['overflow'] <= 0

@each_notebook
def test_links_lead_somewhere(pages, address, site, path):
    "Every link within the site names a page and a place on it that exist, by a relative address"
    broken, public = [], yaml.safe_load((root/'_quarto.yml').read_text(encoding='utf-8'))['website']['site-url']
    for link in set(pages[page_of(path)]['links']):
        url, place = urldefrag(link)
        if url.startswith(public): broken.append(link)
        if not url.startswith(address): continue
        name = unquote(url[len(address):]) or 'index.html'
        if name in pages: ok = not place or unquote(place) in pages[name]['ids']
        else: ok = (site/name).is_file()
        if not ok: broken.append(link[len(address):])
    assert broken == []

def shoot(page, name):
    "What the browser saw, kept to be looked at"
    (root/'_shots').mkdir(exist_ok=True)
    page.screenshot(path=root/'_shots'/f'{name}.png')

def test_search_finds_an_instruction(address, browser):
    page = browser.new_page()
    page.goto(address, wait_until='networkidle')
    page.get_by_label('Search').fill('LDIR')
    hits = page.locator('.smalldocs-search-results a, .aa-Item a')
    hits.first.wait_for()
    shoot(page, 'search')
    hits.first.click()
    page.wait_for_load_state('networkidle')
    assert page.url.split('#')[0] not in (address, address + 'index.html') and 'LDIR' in page.locator('main').inner_text()
    page.close()

def test_dark_mode(address, browser):
    "The switch turns the page dark and back, and every colour of the text stays readable: contrast at least 4.5"
    page = browser.new_page(viewport=dict(width=1280, height=900))
    page.goto(address + 'sft.html', wait_until='networkidle')
    def contrast():
        "Between the colour of the prose and that behind it, by the formula of WCAG 2"
        return page.evaluate('''() => {
            const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126*r + .7152*g + .0722*b }
            const text = light(getComputedStyle(document.querySelector('main p')).color), back = light(getComputedStyle(document.body).backgroundColor)
            return [back, (Math.max(text, back) + .05) / (Math.min(text, back) + .05)] }''')
    (day, one), _ = contrast(), shoot(page, 'light')
    page.locator('.quarto-color-scheme-toggle').first.click()
    page.wait_for_timeout(500)
    (night, two), _ = contrast(), shoot(page, 'dark')
    page.locator('.quarto-color-scheme-toggle').first.click()
    page.wait_for_timeout(500)
    assert day > .8 and night < .1 and one > 4.5 and two > 4.5
    assert contrast()[0] == day
    page.close()

def test_both_builders_make_the_same_pages(site):
    "What Quarto would render, by _quarto.yml, is every notebook under the name that nbdev gives it; the site here has those and no others"
    project = yaml.safe_load((root/'_quarto.yml').read_text(encoding='utf-8'))['project']
    assert project['render'] == ['*.ipynb', '!nbs/']
    assert {p.name for p in site.glob('*.html')} - {'404.html'} == {page_of(p) for p in notebooks}
