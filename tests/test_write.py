"Programs to order: the model in the package, what it refuses, what a broken checkpoint says, and the command."
import json, os, subprocess, sys

import pytest

torch = pytest.importorskip('torch')
from typer.testing import CliRunner
from z80lit import pairs, sft
from z80lit.asm import assemble
from z80lit.cli import app
from z80lit.pairs import Outside, WEIGHTS, about_pairs, build_pairs, load_pairs, save_pairs
from z80lit.verify import Spec, SpecError, verify

shell = lambda *words: CliRunner().invoke(app, ['write', *words])

@pytest.fixture(autouse=True)
def one_thread(): torch.set_num_threads(1)

def test_checkpoint_is_small_and_says_what_it_is():
    about = about_pairs(WEIGHTS)
    assert WEIGHTS.stat().st_size <= 4_000_000 and {'config', 'reader', 'seed', 'questions', 'data'} <= about.keys()

def test_times_eight():
    "The issue's example: a listing, its T-states, its verdict"
    done = sft.write('A -> A*8 & 0xFF')
    assert done.proved and done.tstates[0] == done.tstates[1] > 0
    assert verify(done.program, Spec('A -> A*8 & 0xFF', clobbers='*')).proved
    assert str(done.listing).strip() and 'proved for all 256 inputs' in str(done)

@pytest.mark.parametrize('line', ['A -> mem[8000h] = A | 11h', 'A -> A & 3Fh', 'B -> mem[8000h] = 1 if B == 0 else 0', 'BC, DE -> HL = BC + DE', 'A, D, L -> A = (A + D)*2 - L',
                                  'A, B in 5, HL in 8000h -> mem[8000h] = A, mem[8001h] = A, mem[8002h] = A, mem[8003h] = A, mem[8004h] = A'])
def test_writes_what_it_was_taught(line):
    done = sft.write(line)
    assert done.proved, done

def test_says_so_when_nothing_is_proved():
    done = sft.write('A -> A*A', draws=3)
    assert not done.proved and done.verdict.refuted and done.verdict.inputs and 'No program was proved' in str(done) and 'counterexample' in str(done)

@pytest.mark.parametrize('line, why', [('A -> CF = A > 3', 'CF as output'), ('A, CF -> A + CF', 'CF is an input'), ('IX -> HL = IX', 'IX is an input'), ('A in 0..9 -> A*2', 'part of its range'),
                                       ('HL in 4000h..5000h, mem[HL] -> A = mem[HL]', 'HL in part of its range'), ('A -> mem[9000h] = A', 'as output'), ('A, B if A > B -> A - B', 'precondition'), ('B, C -> A = B + C', 'no lesson had just these inputs')])
def test_refuses_what_it_was_not_taught(line, why):
    with pytest.raises(Outside, match=why): sft.write(line)

def test_proofs_by_formula_have_tstates():
    done = sft.write('HL, DE -> HL - DE')
    assert done.proved and done.verdict.method == 'smt' and done.tstates[:2] == (19, 19)

def test_refuses_nonsense():
    for line in ('A', 'A -> B*2', ''):
        with pytest.raises(SpecError): sft.write(line)

@pytest.mark.parametrize('arguments, why', [((5,), '5 is no specification'), ((None,), 'None is no spec'), (('A -> A', '*', -1), 'draws = -1'), (('A -> A', '*', 'x'), "draws = 'x'"), (('A -> A', '*', 1, -1), 'seed = -1')])
def test_arguments_that_make_no_sense(arguments, why):
    with pytest.raises(ValueError, match=why): sft.write(*arguments)

def test_clobbers_are_kept():
    "A multiplication by ten needs a second register: it may not be lost if the line says so"
    done = sft.write('A -> A*2', clobbers='F')
    assert done.proved and done.program == assemble('ADD A,A')

@pytest.mark.parametrize('spoil, why', [(lambda b: b[:999], 'broken or no safetensors'), (lambda b: b.replace(b'z80lit.pairs/1', b'z80lit.other/1'), 'no checkpoint of a model that reads pairs'),
                                        (lambda b: b.replace(b'vocab\\": 260', b'vocab\\": 300'), 'a vocabulary of 260 tokens, the configuration says 300'), (lambda b: b'', 'broken or no safetensors')])
def test_broken_checkpoints(tmp_path, monkeypatch, spoil, why):
    path = tmp_path/'pairs.safetensors'
    path.write_bytes(spoil(WEIGHTS.read_bytes()))
    with pytest.raises(ValueError, match=why): load_pairs(path)
    monkeypatch.setattr(pairs, 'WEIGHTS', path)
    pairs.trained.cache_clear()
    r = shell('A -> A*8')
    pairs.trained.cache_clear()
    assert r.exit_code == 2 and why in r.output and 'Traceback' not in r.output

def test_command():
    r = shell('A -> A*8 & 0xFF')
    assert r.exit_code == 0 and 'ADD A,A' in r.output and 'proved' in r.output
    r = shell('--json', 'A -> A*8 & 0xFF')
    said = json.loads(r.output)
    assert r.exit_code == 0 and said['proved'] and said['tstates']['min'] > 0 and said['program']
    assert shell('A -> A*A', '--draws', '2').exit_code == 1
    for line in ('IX -> HL = IX', 'A -> ', 'A -> B'):
        r = shell(line)
        assert r.exit_code == 2 and r.output.startswith('z80lit: ') and len(r.output.splitlines()) == 1

def test_without_torch(tmp_path):
    "The extra is named when it is missing"
    for name in ('torch', 'safetensors'):
        (tmp_path/name).mkdir()
        (tmp_path/name/f'{name}.py').write_text(f"raise ModuleNotFoundError(\"No module named '{name}'\", name='{name}')")
        r = subprocess.run([sys.executable, '-c', 'from z80lit.cli import main; main()', 'write', 'A -> A*8'],
                           env=os.environ | {'PYTHONPATH': str(tmp_path/name)}, capture_output=True, text=True)
        assert r.returncode == 2 and f'{name} is missing' in r.stderr and 'z80lit[learn]' in r.stderr, r.stderr
