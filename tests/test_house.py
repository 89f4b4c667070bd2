"The house rules: what a reader of the repository may rely on, checked on the files as they are."
import ast, configparser, json, re, runpy, shutil, subprocess, sys
from pathlib import Path

import pytest
import yaml

root = Path(__file__).resolve().parent.parent
notebooks = sorted((root/'nbs').glob('*.ipynb'))
modules = sorted(p for p in (root/'z80lit').glob('*.py') if p.name[0] != '_')
settings = configparser.ConfigParser(delimiters=['='])
settings.read(root/'settings.ini', encoding='utf-8')
settings = settings['DEFAULT']
each_notebook = pytest.mark.parametrize('path', notebooks, ids=lambda p: p.stem)
each_module = pytest.mark.parametrize('path', modules, ids=lambda p: p.stem)

def cells(path, kind='code'): return [c for c in json.loads(path.read_text(encoding='utf-8'))['cells'] if c['cell_type'] == kind]
def source(cell): return ''.join(cell['source'])
def outputs(path): return [o for c in cells(path) for o in c['outputs']]

# The package

def test_import_is_light():
    "`import z80lit` takes under 0.3 s and loads nothing heavy"
    heavy = {'torch', 'matplotlib', 'numba', 'fastcore', 'IPython'}
    code = f'import sys, time; t = time.perf_counter(); import z80lit; print(time.perf_counter() - t, *({heavy} & sys.modules.keys()))'
    runs = [subprocess.run([sys.executable, '-c', code], cwd=root, capture_output=True, text=True, check=True).stdout.split() for _ in range(3)]
    seconds = min(float(r[0]) for r in runs)
    print(f'import z80lit: {seconds:.3f} s')
    assert runs[0][1:] == [] and seconds < 0.3

def imported(tree):
    "The modules that a syntax tree imports, with their node; a relative import counts as one from z80lit"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import): yield from ((a.name, node) for a in node.names)
        if isinstance(node, ast.ImportFrom):
            base = '.'.join(filter(None, ['z80lit' if node.level else '', node.module]))
            yield from ((f'{base}.{a.name}' if base == 'z80lit' else base, node) for a in node.names)

def chapter_numbers():
    "The number of each chapter's module, as text: '01' < '01b' < '02'. The command line may import all of them."
    exported = {p: re.search(r'^#\| *default_exp (\w+)', '\n'.join(map(source, cells(p))), re.M) for p in notebooks}
    return {m[1]: p.stem.split('_')[0] for p, m in exported.items() if m} | {'cli': 'last'}

@each_module
def test_imports_go_one_way(path):
    "No module imports a later chapter, fastcore or a pickle; torch only where a model is trained; matplotlib only inside functions"
    tree, number = ast.parse(path.read_text(encoding='utf-8')), chapter_numbers()
    for name, node in imported(tree):
        top, chapter = (name.split('.') + [''])[:2]
        if top == 'z80lit' and chapter in number: assert number[chapter] < number[path.stem], f'imports {name}'
        assert top not in {'fastcore', 'nbdev', 'pickle'}, f'imports {name}'
        if path.stem not in {'model', 'pairs', 'rl', 'attempts', 'causes', 'sft', 'dissect', 'synthesis'}: assert top != 'torch' or node not in tree.body, f'imports {name}'
        assert top != 'matplotlib' or node not in tree.body, f'imports {name} at the top'
    assert not re.search(r'torch\.(save|load)\(', path.read_text(encoding='utf-8')), 'a checkpoint is safetensors and JSON'

@each_module
def test_functions_are_short(path):
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.FunctionDef): assert node.end_lineno - node.lineno < 50, f'{node.name} has more than 50 lines'

# The notebooks

@pytest.fixture(scope='module')
def rebuilt(tmp_path_factory):
    "A copy of the tree in which the notebooks have been exported and cleaned"
    copy = tmp_path_factory.mktemp('tree')
    for name in ('settings.ini', 'setup.py'): shutil.copy(root/name, copy)
    for name in ('nbs', 'z80lit'): shutil.copytree(root/name, copy/name, ignore=shutil.ignore_patterns('__pycache__', '.*'))
    code = "from nbdev.doclinks import nbdev_export; from nbdev.clean import nbdev_clean; nbdev_export.__wrapped__(); nbdev_clean.__wrapped__()"
    subprocess.run([sys.executable, '-c', code], cwd=copy, check=True)
    return copy

@pytest.mark.parametrize('folder, pattern, command', [('z80lit', '*.py', 'nbdev_export'), ('nbs', '*.ipynb', 'nbdev_clean')], ids=['exported', 'clean'])
def test_notebooks_are_exported_and_clean(rebuilt, folder, pattern, command):
    there, here = [{p.name: p.read_bytes() for p in (top/folder).glob(pattern)} for top in (rebuilt, root)]
    stale = sorted(n for n in there.keys() | here.keys() if there.get(n) != here.get(n))
    assert not stale, f'not as {command} leaves them (run `make export`): {stale}'

@each_notebook
def test_notebook_was_executed(path):
    "Saved with its outputs, none of them an error, a warning or HTML, for which Quarto would fetch scripts from elsewhere"
    assert not [o for o in outputs(path) if o['output_type'] == 'error'], 'an error output'
    assert not [o for o in outputs(path) if o.get('name') == 'stderr'], 'output on the error stream'
    assert not [o for o in outputs(path) if 'text/html' in o.get('data', {})], 'an HTML output'
    assert not [o for o in outputs(path) if 'application/vnd.jupyter.widget-view+json' in o.get('data', {})], 'a widget, which needs a living kernel: run .ci/run_nbs.py'
    silent = [source(c) for c in cells(path) if re.search(r'^print\(', source(c), re.M) and not c['outputs']]
    assert not silent, f'not executed: {silent[:1]}'

@each_notebook
def test_notebook_is_small(path):
    assert path.stat().st_size <= 300 * 1024
    for c in cells(path): assert len(source(c).splitlines()) <= 60, f'a cell of more than 60 lines: {source(c)[:80]}'

@each_notebook
def test_imports_have_cells_of_their_own(path):
    "nbdev runs every cell that holds an import when it builds the pages, without the cells before it"
    for c in cells(path):
        if source(c).startswith('%%') or re.search(r'^#\| *(export|eval: *false)', source(c), re.M): continue
        tree = ast.parse(re.sub(r'^[!%].*', '', source(c), flags=re.M))
        others = [n for n in tree.body if not isinstance(n, (ast.Import, ast.ImportFrom))]
        assert not (list(imported(tree)) and others), f'an import among other code: {source(c)[:80]}'

@each_notebook
def test_first_cell_is_title_and_quote(path):
    "nbdev makes the page's title and description of the first cell and drops whatever else stands there"
    first = [line for line in source(cells(path, 'markdown')[0]).splitlines() if line.strip()]
    assert len(first) == 2 and first[0].startswith('# ') and first[1].startswith('> '), f'text after the quote belongs into the next cell: {first[2:3]}'

def test_sidebar_lists_every_notebook():
    "Each notebook once, and the site's facts as in settings.ini"
    conf = yaml.safe_load((root/'_quarto.yml').read_text(encoding='utf-8'))
    site = conf['website']
    listed = [n for e in site['sidebar']['contents'] for n in e.get('contents', [e.get('href')])]
    assert sorted(listed) == [p.name for p in notebooks]
    facts = [conf['project']['output-dir'], site['title'], site['description'], site['site-url'], site['repo-url']]
    assert facts == [settings[k] for k in ('doc_path', 'title', 'description', 'doc_host', 'git_url')]

def test_front_page_names_every_chapter():
    "With its title, as a link"
    front = '\n'.join(map(source, cells(root/'nbs'/'index.ipynb', 'markdown')))
    titles = {p.name: source(cells(p, 'markdown')[0]).splitlines()[0].lstrip('# ') for p in notebooks if p.stem != 'index'}
    missing = [name for name, title in titles.items() if f'[{title}]({name})' not in front]
    assert not missing

def test_index_names_everything():
    "The saved output of the index of names has every exported function and class (`.ci/run_nbs.py nbs/22_api.ipynb` brings it up to date)"
    index, names = (root/'nbs'/'22_api.ipynb').read_text(encoding='utf-8'), set()
    for path in (root/'z80lit').glob('[a-z]*.py'):
        body = ast.parse(path.read_text(encoding='utf-8')).body
        public = next((ast.literal_eval(n.value) for n in body if isinstance(n, ast.Assign) and getattr(n.targets[0], 'id', '') == '__all__'), [])
        names |= {n.name for n in body if getattr(n, 'name', None) in public}
    assert len(names) > 200 and not [n for n in sorted(names) if f'[`{n}`]' not in index]

def test_readme_is_fresh():
    render = runpy.run_path(str(root/'.ci'/'readme.py'))['render']
    assert (root/'README.md').read_text(encoding='utf-8') == render(), 'run `make export`'

# The tree

def files():
    "The files of the repository"
    inside = (p for d in ('.ci', '.github', 'nbs', 'tests', 'z80lit') for p in (root/d).rglob('*'))
    return [p for p in (*root.iterdir(), *inside) if p.is_file()]

def test_no_machine_paths_and_no_pickles():
    "Nothing in the repository names a folder of the machine it was written on, and no file holds a pickle"
    place = re.compile(r'(?<![\w.~])/(?:home|root|tmp|Users|work|mnt)/\w')
    for path in files():
        assert path.suffix not in {'.pt', '.pth', '.pkl', '.pickle', '.ckpt'}, path
        if path.suffix in {'.py', '.ipynb', '.md', '.yml', '.ini', '.jsonl', '.json', '.cff', '.css', '.svg', ''}:
            found = place.search(path.read_text(encoding='utf-8'))
            assert not found, f'{path.name}: {found[0]}'

@pytest.mark.parametrize('path', sorted((root/'nbs'/'runs').glob('*.jsonl')), ids=lambda p: p.stem)
def test_recorded_run_is_whole(path):
    "A recorded run begins with its configuration and ends with its summary"
    lines = [json.loads(line) for line in path.read_text(encoding='utf-8').splitlines()]
    assert {'config', 'seed', 'versions', 'machine', 'date'} <= lines[0].keys() and lines[-1].keys() == {'summary'}
