"""Build the site into _docs/: nbdev makes readable pages of nbs/, then Quarto lays them out, or smalldocs where Quarto is not installed.

    python .ci/build_docs.py             Quarto when it is on the PATH
    python .ci/build_docs.py --builtin   smalldocs in any case

smalldocs leaves out four things that Quarto does: page names without the chapter number, numbered cross references, maths without a script from
elsewhere, and styled HTML tables. `stage` does these on a copy of nbdev's pages.
"""
import json, os, re, shutil, subprocess, sys
from pathlib import Path

import yaml
from latex2mathml.converter import convert
from nbdev.config import get_config
from nbdev.serve import proc_nbs

root = Path(__file__).resolve().parent.parent
kinds = dict(fig='Figure', tbl='Table', eq='Equation', sec='Section')
ref = '(?:fig|tbl|eq|sec)-[\\w-]*\\w'

def page_name(nb):
    "The name nbdev gave the page, in the front matter that it put into the first cell"
    m = re.search(r'^output-file: (\S+)\.html$', ''.join(nb['cells'][0]['source']), re.M)
    return m and m[1]

def labels(nb):
    "What each labelled figure, table, equation and heading of a page is called, such as {'fig-landscape': 'Figure 2'}"
    count, names = dict.fromkeys(kinds, 0), {}
    for cell in nb['cells']:
        for name in re.findall(rf'(?:\{{#|^#\| label: )({ref})', ''.join(cell['source']), re.M):
            kind = name.split('-')[0]
            count[kind] += 1
            names[name] = f'{kinds[kind]} {count[kind]}'
    return names

def caption(source, names):
    "A code cell whose caption begins with its number"
    label = re.search(rf'^#\| label: ({ref})', source, re.M)
    if not label: return source
    number = lambda m: f'{m[1]} {json.dumps(f"{names[label[1]]}: {yaml.safe_load(m[2])}", ensure_ascii=False)}'
    return re.sub(r'^(#\| (?:fig|tbl)-cap:)\s*(.+)$', number, source, flags=re.M)

def display(m, names):
    "A displayed equation as MathML, with its number when it has a label"
    tex, label = m[1].strip(), m[2]
    number = rf'\qquad({names[label].split()[1]})' if label else ''
    anchor = f' id="{label}"' if label else ''
    return f'\n```{{=html}}\n<div class="equation"{anchor}>{convert(tex + number, display="block")}</div>\n```\n'

def prose(text, names):
    "Markdown outside code: maths typeset, references and table captions numbered"
    text = re.sub(rf'\$\$(.+?)\$\$(?:\s*\{{#({ref})\}})?', lambda m: display(m, names), text, flags=re.S)
    text = re.sub(r'(?<![\\$\w])\$(?!\s)([^$\n]+?)(?<!\s)\$(?![\d$])', lambda m: convert(m[1]), text)
    text = re.sub(rf'(?<![\w/])@({ref})', lambda m: f'[{names[m[1]]}](#{m[1]})', text)
    return re.sub(rf'^: (.*\{{#({ref})\}})$', lambda m: f': {names[m[2]]}: {m[1]}', text, flags=re.M)

def markdown(source, names):
    "A markdown cell with its prose done and its code left alone"
    parts = re.split(r'(```.*?```|`[^`\n]*`)', source, flags=re.S)
    return ''.join(p if i % 2 else prose(p, names) for i, p in enumerate(parts))

def prepare(nb):
    "One page's notebook, made ready for smalldocs"
    names = labels(nb)
    nb['cells'][0]['source'] = re.sub(r'^output-file: .*\n', '', ''.join(nb['cells'][0]['source']), flags=re.M)
    for cell in nb['cells']:
        change = dict(code=caption, markdown=markdown).get(cell['cell_type'])
        if change: cell['source'] = change(''.join(cell['source']), names)
        for out in cell.get('outputs', []):
            if 'text/html' in out.get('data', {}):
                out['data']['text/html'] = ''.join(out['data']['text/html']).replace('<table>', '<table class="table table-sm table-striped">')
    return nb

def stage(proc, dest):
    "Fill `dest` with the pages of `proc`, under the names that Quarto would give them"
    shutil.rmtree(dest, ignore_errors=True)
    shutil.copytree(proc, dest, ignore=shutil.ignore_patterns('.*', '_*', 'nbdev.yml', 'site_libs', '*.ipynb', '*.html'))
    pages = {p.name: json.loads(p.read_text(encoding='utf-8')) for p in sorted(proc.glob('*.ipynb'))}
    rename = {name: f'{page_name(nb) or Path(name).stem}.ipynb' for name, nb in pages.items()}
    renamed = lambda text: re.sub(r'\w+\.ipynb', lambda m: rename.get(m[0], m[0]), text)
    for name, nb in pages.items():
        try: text = json.dumps(prepare(nb))
        except KeyError as e: sys.exit(f'{name}: a reference to {e}, which the page does not define')
        (dest/rename[name]).write_text(renamed(text), encoding='utf-8')
    config = yaml.safe_load(renamed((root/'_quarto.yml').read_text(encoding='utf-8')))
    page = config['format']['html']
    page['theme'] = {mode: names[0] for mode, names in page['theme'].items()}  # no Sass: styles.css says the rest
    del config['execute'], page['html-math-method'], page['grid']
    (dest/'_quarto.yml').write_text(yaml.safe_dump(config, sort_keys=False), encoding='utf-8')

def builtin(proc, out):
    "Build with smalldocs, whose themes ask for web fonts: ours come from the reader's machine"
    from smalldocs.site import build
    work = root/'_proc'/'.site'
    stage(proc, work)
    for w in build(str(work), quiet=True).warnings: print('note:', w)
    for css in (work/out).rglob('*.css'):
        css.write_text(re.sub(r'@import url\([^)]*\);?', '', css.read_text(encoding='utf-8')), encoding='utf-8')
    return work/out

def quarto(proc, out):
    "Build with Quarto"
    subprocess.run(['quarto', 'render'], cwd=proc, check=True)
    return proc/out

def relink_names(page, text, numbers, home):
    """nbdev links every `name` in code font to the page of a function called so, at the site's public address. Links within the site are better
    relative, so that they work anywhere; those to a later chapter, which the text cannot mean, and those inside code go."""
    fences = re.split(r'(^```python\n.*?^```)', text, flags=re.S | re.M)
    def link(m, code): return m[1] if code or numbers.get(m[2], '') > numbers[page] else f'[{m[1]}]({m[2]}.html{m[3]})'
    pattern = rf'\[(`[^`]+`)\]\({re.escape(home)}(\w+)\.html(#[^)]*|)\)'
    return ''.join(re.sub(pattern, lambda m: link(m, i % 2), part) for i, part in enumerate(fences))

def relink(proc, home):
    "Mend the links in all pages that nbdev made"
    pages = {p: json.loads(p.read_text(encoding='utf-8')) for p in proc.glob('*.ipynb')}
    numbers = {page_name(nb) or p.stem: p.stem for p, nb in pages.items()}
    for p, nb in pages.items():
        change = lambda text: relink_names(page_name(nb) or p.stem, ''.join(text), numbers, home)
        nb['metadata'].pop('widgets', None)             # nbdev's note that there are none; a page has no use for it
        for cell in nb['cells']:
            if cell['cell_type'] == 'markdown': cell['source'] = change(cell['source'])
            for out in cell.get('outputs', []):
                if 'text/markdown' in out.get('data', {}): out['data']['text/markdown'] = change(out['data']['text/markdown'])
        p.write_text(json.dumps(nb), encoding='utf-8')

def main():
    os.chdir(root)
    out = yaml.safe_load((root/'_quarto.yml').read_text(encoding='utf-8'))['project']['output-dir']
    cfg, proc = get_config(), proc_nbs(n_workers=2, force=True)
    relink(proc, cfg.doc_host + cfg.doc_baseurl)
    make = quarto if shutil.which('quarto') and '--builtin' not in sys.argv else builtin
    made = make(proc, out)
    shutil.rmtree(root/out, ignore_errors=True)
    shutil.move(made, root/out)
    print(f'{make.__name__}: {len(list((root/out).glob("*.html")))} pages in {out}/')

if __name__ == '__main__': main()
