"The package as a user gets it: built from a copy of the tree, installed where no checkout is, without torch; its annotations; and what `make` installs."
import configparser, os, re, shlex, shutil, subprocess, sys, tarfile, zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

root = Path(__file__).resolve().parent.parent
settings = configparser.ConfigParser(delimiters=['='])
settings.read(root/'settings.ini', encoding='utf-8')
settings = settings['DEFAULT']
outside = {k: v for k, v in os.environ.items() if k not in {'PYTHONPATH', 'VIRTUAL_ENV', 'PYTHONHOME'}}

def run(*command, cwd, status=0, **more):
    "What a command prints; it must end with `status`"
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=outside, capture_output=True, text=True, **more)
    assert done.returncode == status, f'{command}\n{done.stdout}\n{done.stderr}'
    return done.stdout + done.stderr

@pytest.fixture(scope='module')
def built(tmp_path_factory):
    "A folder with the sdist, and the wheel that was built from the sdist"
    tree, out = tmp_path_factory.mktemp('tree')/'z80lit', tmp_path_factory.mktemp('dist')
    shutil.copytree(root, tree, ignore=lambda folder, names: {n for n in names if n in {'.git', '.venv', '_docs', '_proc', 'build', 'dist', '.hypothesis', '.pytest_cache', '.mypy_cache', '_shots', '__pycache__'} or n.endswith('.egg-info')})
    run(sys.executable, '-m', 'build', '--outdir', out, cwd=tree)
    return out

@pytest.fixture(scope='module')
def installed(built, tmp_path_factory):
    "A fresh environment with the wheel and what it asks for, and nothing else"
    venv = tmp_path_factory.mktemp('user')/'venv'
    run(sys.executable, '-m', 'venv', venv, cwd=built)
    run(venv/'bin'/'pip', 'install', '--quiet', '--disable-pip-version-check', next(built.glob('*.whl')), cwd=built)
    return venv

def test_what_is_inside(built):
    "The wheel holds every module, the weights, the rules and the mark that it is typed; the sdist what building needs; neither holds tests or notebooks"
    wheel = set(zipfile.ZipFile(next(built.glob('*.whl'))).namelist())
    for path in (root/'z80lit').rglob('*'):
        if path.suffix in {'.py', '.safetensors', '.rules', '.typed'}: assert path.relative_to(root).as_posix() in wheel
    assert {Path(n).parts[0].split('-')[0] for n in wheel} == {'z80lit'}
    names = {n.split('/', 1)[1] for n in tarfile.open(next(built.glob('*.tar.gz'))).getnames() if '/' in n}
    assert {'settings.ini', 'setup.py', 'LICENSE', 'README.md', 'z80lit/emulator.py'} <= names
    assert not any(n.endswith('.ipynb') or n.startswith('tests') for n in wheel | names)

def test_command_line_without_torch(installed, tmp_path):
    "Assembling, running and searching need no torch; writing says in one line what is missing"
    z80lit = installed/'bin'/'z80lit'
    assert not list(installed.glob('lib/*/site-packages/torch'))
    assert 'z80lit' in run(z80lit, 'info', cwd=tmp_path)
    assert run(z80lit, 'asm', '-c', 'LD A,5 : HALT', cwd=tmp_path)
    assert '05' in run(z80lit, 'run', '-c', 'LD A,5 : LD (8000h),A : HALT', cwd=tmp_path)
    run(installed/'bin'/'python', '-c', 'import z80lit.verify, z80lit.search, z80lit.peephole, z80lit.bench', cwd=tmp_path)
    said = run(z80lit, 'write', 'A -> A*8', cwd=tmp_path, status=2)
    assert 'z80lit[learn]' in said and 'Traceback' not in said

def test_the_shipped_model_writes(installed, tmp_path):
    "With torch from the environment of the tests: the installed package, not the checkout, writes and proves a program"
    packages, = installed.glob('lib/*/site-packages')
    code = f"import sys; sys.path.insert(0, {str(packages)!r}); import z80lit; print(z80lit.__file__); from z80lit import sft; done = sft.write('A -> A*8 & 0xFF'); print(done); assert done.proved"
    said = run(sys.executable, '-c', code, cwd=tmp_path)
    assert str(packages) in said

# Annotations

def test_annotations():
    "A type checker has nothing to say of the package; what it leaves out, mypy.ini says"
    assert 'Success' in run(sys.executable, '-m', 'mypy', cwd=root)

USE = """
from z80lit.asm import assemble
from z80lit.emulator import Z80, Stop
from z80lit.isa import disassemble
from z80lit.peephole import optimise
from z80lit.search import search
from z80lit.tasks import benchmark
from z80lit.verify import Spec, task_spec, verify

code: bytes = assemble('LD A,5 : HALT')
stop: Stop = Z80(a=1).load(code).run(budget=100)
sizes: list[int] = [i.size for i in disassemble(code)]
proved: bool = verify(code, Spec('A -> A = 5')).proved
spec: Spec = task_spec(benchmark()[0])
short: bytes = optimise(code, live_out='A').code
found: bool = search('A -> A + 1', objective='bytes', max_bytes=2).optimal
"""
MISUSE = ["assemble(5)", "Z80().load(code).run(budget='all')", "verify(code, Spec('A -> A')).right", "text: str = optimise(code).code", "search('A -> A', max_bytes='2')"]

def test_annotations_reach_the_user(installed, tmp_path):
    "A script with the installed package passes the checker, and what is wrong in one is found, line by line"
    (tmp_path/'right.py').write_text(USE)
    (tmp_path/'wrong.py').write_text(USE + '\n'.join(MISUSE))
    check = [sys.executable, '-m', 'mypy', '--config-file=', '--cache-dir', tmp_path/'cache', '--python-executable', installed/'bin'/'python']
    said = run(*check, 'right.py', 'wrong.py', cwd=tmp_path, status=1)
    first = len(USE.splitlines()) + 1
    assert re.findall(r'^(\w+)\.py:(\d+): error', said, re.M) == [('wrong', str(first + k)) for k in range(len(MISUSE))], said

# What `make` installs

def needs(): return [Requirement(n) for key, value in settings.items() if key.endswith('requirements') for n in shlex.split(value)]

def test_constraints():
    "One version of PyPI's for everything that settings.ini asks for, within its bounds"
    pinned = dict(line.split('==') for line in (root/'constraints.txt').read_text().splitlines() if line[0] != '#')
    assert all(re.fullmatch(r'[\d.]+(post\d+)?', v) for v in pinned.values())
    for need in needs(): assert need.specifier.contains(pinned[canonicalize_name(need.name)]), need

@pytest.mark.skipif(not os.environ.get('CI'), reason='of the environment that make installs')
def test_constraints_are_what_is_tested():
    pinned = dict(line.split('==') for line in (root/'constraints.txt').read_text().splitlines() if line[0] != '#')
    for need in needs(): assert version(need.name).split('+')[0] == pinned[canonicalize_name(need.name)], need

PIP = """#!/bin/sh
echo "$@" >> pip.log
case "$*" in *--index-url*) exit $NO_INDEX;; esac
"""

@pytest.mark.parametrize('system, nvidia, asked, cpu, status', [('Linux', False, '', True, 0), ('Linux', False, '', True, 1), ('Linux', True, '', False, 0), ('Darwin', False, '', False, 0), ('Linux', False, 'default', False, 0), ('Linux', True, 'cpu', True, 0)])
def test_which_torch(tmp_path, system, nvidia, asked, cpu, status):
    "On a Linux without an NVIDIA card torch comes from the index of builds for processors, when that can be reached, unless the user says otherwise; either way the rest is installed"
    for name in 'Makefile', 'settings.ini', 'setup.py', 'constraints.txt': shutil.copy(root/name, tmp_path)
    programs = {'bin/uname': f'#!/bin/sh\necho {system}\n', '.venv/bin/python': PIP} | ({'bin/nvidia-smi': '#!/bin/sh\n'} if nvidia else {})
    for name, text in programs.items():
        (tmp_path/name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path/name).write_text(text)
        (tmp_path/name).chmod(0o755)
    env = outside | {'PATH': f"{tmp_path/'bin'}:{outside['PATH']}", 'NO_INDEX': str(status)}
    said = subprocess.run(['make', 'PYTHON=python3', '.venv/.learn', *([f'TORCH={asked}'] if asked else [])], cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout
    calls = [line for line in (tmp_path/'pip.log').read_text().splitlines() if ' install ' in line]
    assert len(calls) == 1 + cpu and calls[-1].endswith('--editable .[learn]') and all('--constraint constraints.txt' in c for c in calls)
    assert ('whl/cpu torch>=' in calls[0]) == cpu == ('TORCH=default' in said) and ('within reach' in said) == (cpu and status == 1)
