"The package as a user gets it: built from a copy of the tree, installed where no checkout is, without torch."
import os, re, shutil, subprocess, sys, tarfile, zipfile
from pathlib import Path

import pytest

root = Path(__file__).resolve().parent.parent
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
    shutil.copytree(root, tree, ignore=lambda folder, names: {n for n in names if n in {'.git', '.venv', '_docs', '_proc', 'build', 'dist', '.hypothesis', '.pytest_cache', '__pycache__'} or n.endswith('.egg-info')})
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
