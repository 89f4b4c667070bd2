"Write README.md from the front page of the book, nbs/index.ipynb: prose as it stands, code in fences, outputs below."
import json, os, re
from pathlib import Path

root = Path(__file__).resolve().parent.parent

def fence(language, text): return f'```{language}\n{text.strip()}\n```'

def shown(cell):
    "The source of a code cell without its `#|` lines, or nothing where these hide it"
    source = ''.join(cell['source'])
    if re.search(r'^#\| *(hide|default_exp|echo: *false)', source, re.M): return ''
    return fence('python', re.sub(r'^#\|.*\n?', '', source, flags=re.M))

def output(out):
    "What a cell gave: a stream or plain text in a fence, markdown as it is"
    data = out.get('data', {})
    if 'text/markdown' in data: return ''.join(data['text/markdown'])
    return fence('text', ''.join(out.get('text') or data['text/plain']))

def parts(nb):
    "The pieces of the README, one after another"
    for cell in nb['cells']:
        if cell['cell_type'] == 'markdown': yield ''.join(cell['source'])
        if cell['cell_type'] == 'code':
            yield shown(cell)
            yield from map(output, cell['outputs'])

def render():
    "The README as text. Links to chapters and pictures lead into nbs/."
    nb = json.loads((root/'nbs'/'index.ipynb').read_text(encoding='utf-8'))
    text = '\n\n'.join(p.strip('\n') for p in parts(nb) if p)
    return '<!-- Made from nbs/index.ipynb by .ci/readme.py -->\n' + re.sub(r'\]\((\w+\.(?:ipynb|svg))', r'](nbs/\1', text) + '\n'

if __name__ == '__main__':
    tmp = root/'.README.md.tmp'
    tmp.write_text(render(), encoding='utf-8')
    os.replace(tmp, root/'README.md')
