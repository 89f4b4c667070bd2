"""Run notebooks in place and clean them, so that running one again leaves an empty diff.

    python .ci/run_nbs.py                      every notebook of nbs/
    python .ci/run_nbs.py nbs/08_sft.ipynb     one
    python .ci/run_nbs.py --flag slow ...      its slow cells too

What a cell writes to the error stream (progress, warnings, the note that something is being compiled) is shown here and not saved.
Nor is a widget, which dies with its kernel: of such an output the other forms stay, text and Markdown.
Cells that nbdev_test would skip (`#| slow`, `#| gpu`, `#| notest`, `#| eval: false`) are not run and keep the outputs they were saved with.
A notebook with a failing cell is left as it was, and the exit status is 1.
"""
import argparse, json, os, re, sys, time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbdev.clean import _nbdev_clean
from nbdev.config import get_config
from execnb.nbio import nb2str

root = Path(__file__).resolve().parent.parent

def directives(source):
    "The words after `#|` at the top of a cell, such as `slow` or `eval:false`"
    found = []
    for line in source.splitlines():
        if not line.strip(): continue
        m = re.match(r'\s*#\s*\|\s*(\S.*?)\s*$', line)
        if not m: break
        found.append(re.sub(r'\s*:\s*', ':', m[1]))
    return found

class Runner(NotebookClient):
    "A notebook client that passes over the cells in `skip` and remembers which cell it was at"
    skip, at = frozenset(), None

    async def async_execute_cell(self, cell, index, **kw):
        if cell.cell_type == 'code':
            if self.skip & {w.split()[0].lower() for w in directives(cell.source)}: return cell
            self.at = f"cell {index} (id {cell.get('id')})"
        return await super().async_execute_cell(cell, index, **kw)

def skips_whole(nb):
    "Does the front matter say `skip_exec: true`?"
    return any(c.cell_type == 'raw' and re.search(r'^skip_exec:\s*true', c.source, re.M) for c in nb.cells)

def drop_widgets(cell):
    "Take the reference to a living widget out of the cell's outputs"
    for o in cell.get('outputs', []): o.get('data', {}).pop('application/vnd.jupyter.widget-view+json', None)

def divert_errors(cell):
    "Print what the cell wrote to the error stream, and drop it from the cell"
    is_error = lambda o: o.get('name') == 'stderr'
    for o in filter(is_error, cell.get('outputs', [])): sys.stderr.write(o.text)
    if 'outputs' in cell: cell.outputs = [o for o in cell.outputs if not is_error(o)]

def run(path, skip, timeout):
    "Execute the notebook at `path`, clean it, and put it in place of the old one only if every cell ran; the cell that failed, or None"
    nb = nbformat.read(path, as_version=4)
    if skips_whole(nb): return
    client = Runner(nb, timeout=timeout, kernel_name='python3', coalesce_streams=True, store_widget_state=False, extra_arguments=['--log-level=ERROR'],
                    resources={'metadata': {'path': str(path.parent)}})
    client.skip = skip
    try: client.execute()
    except (CellControlSignal, DeadKernelError) as e: return f'{client.at}\n{e}'
    for cell in nb.cells: divert_errors(cell); drop_widgets(cell)
    done = json.loads(nbformat.writes(nb))
    _nbdev_clean(done)
    text = nb2str(done)
    if text != path.read_text(encoding='utf-8'): replace(path, text)

def replace(path, text):
    "Write `text` beside `path` and rename, so that an interruption loses nothing"
    tmp = path.with_name(f'.{path.name}.tmp')
    tmp.write_text(text, encoding='utf-8')
    os.replace(tmp, path)

def main():
    cfg = get_config(path=root)
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('notebooks', nargs='*', type=Path)
    p.add_argument('--flag', action='append', default=[], help='run the cells with this flag too; may be repeated')
    p.add_argument('--timeout', type=int, default=900, help='seconds allowed for a cell (default 900; 0: no limit)')
    a = p.parse_args()
    os.environ['PYTHONPATH'] = os.pathsep.join(filter(None, [str(root), os.environ.get('PYTHONPATH')]))
    skip, failed = frozenset(cfg.tst_flags.split()) - frozenset(a.flag) | {'eval:false'}, 0
    for path in a.notebooks or sorted((root/'nbs').glob('*.ipynb')):
        start = time.perf_counter()
        error = run(path, skip, a.timeout or None)
        failed += bool(error)
        print(f'{path.name:24} {time.perf_counter()-start:7.1f} s' + (f'  FAILED at {error}' if error else ''), flush=True)
    return int(bool(failed))

if __name__ == '__main__': sys.exit(main())
