"Questions of pairs: what the emulator answers, what is held out, what a broken checkpoint does, and that a pass can be taken up again."
import numpy as np
import pytest

torch = pytest.importorskip('torch')
from z80lit.model import Config
from z80lit.pairs import (BYTES, CATEGORY, LARGE, LONGEST, MIX, NAMES, NARROW, PER_LESSON, Outside, Pass, Question, WIDER, build_pairs, code, draw, execute, fingerprints, form, held_out, inputs,
                          lesson, load_pairs, one_pass, pose, question, reader, right_on, row, save_pairs, spec_context, table)
from z80lit.tasks import KINDS, benchmark, fresh_tasks
from z80lit.verify import Spec, task_spec, verify

TINY = Config(d=32, layers=1, heads=2, ff=32, positions=64)

@pytest.fixture(autouse=True)
def one_thread(): torch.set_num_threads(1)

@pytest.mark.parametrize('family', [f for f in NARROW if f not in LARGE] + ['less', 'equal', 'sub16'])
def test_every_question_of_a_family_is_right_everywhere(family):
    "The teacher's program, on chosen and random inputs, does not depend on junk"
    rows = table(family)
    assert right_on(rows, rows['program'], rows['length'], n=32, seed=3).all()

def test_large_families_are_right_and_canonical():
    "What is taught is proved against its own meaning, and equal functions have equal programs"
    rng = np.random.default_rng(4)
    for family in LARGE:
        rows = draw(rng, 3000, {family: 1})
        assert right_on(rows, rows['program'], rows['length']).all() and (rows['length'] < LONGEST).all()
    rows = draw(rng, 4000, {'unary': 1})
    rows = rows[rows['free'][:, 0] == 1]
    values = np.zeros((len(rows), 256, 7), np.uint8)
    values[..., 0] = np.arange(256)
    tables = execute(rows, values, np.zeros((len(rows), 256, BYTES), np.uint8))[0][..., 0]
    assert len(np.unique(tables, axis=0)) == len({code(q) for q in rows})

@pytest.mark.parametrize('line, program', [('A -> mem[8000h] = A*10', ('times', 'a', 10)), ('L -> mem[8000h] = L*255', ('times', 'l', 255)), ('BC, HL -> mem[8000h] = BC - HL, mem[8001h] = BC - HL >> 8', ('difference', 'bc', 'hl'))])
def test_wide_teachers_are_proved(line, program):
    from z80lit import pairs
    name, *arguments = program
    ending = pairs.STORE_HL if name == 'difference' else pairs.STORE
    v = verify(getattr(pairs, name)(*arguments) + ending, Spec(line, clobbers='*', ends='halt'), **({'method': 'smt'} if name == 'difference' else {}))
    assert v.proved, v

def test_a_task_and_its_line_are_the_same_question():
    for t in fresh_tasks(64, seed=11):
        assert (spec_context(task_spec(t), seed=7) == pose(np.random.default_rng(7), np.array([question(t)], Question))).all(), t.text

def test_split():
    "Nothing held out is ever taught; the benchmark's large kinds are held out; contexts of lessons and of another seed hardly meet"
    taught = np.concatenate([lesson(3, i, 4096)[0] for i in range(4)])
    assert not held_out(taught).any()
    functions = lambda rows: {q['program'].tobytes() + q['fixed'].tobytes() for q in rows}
    bench = np.array([question(t) for t in benchmark()], Question)
    assert not functions(bench[held_out(bench)]) & functions(taught) and held_out(bench).sum() == 8
    assert {NAMES[f] for f in taught['family']} == set(MIX)
    mine, other = (fingerprints(lesson(s, 0, 4096)[1].contexts.numpy().astype(np.uint8)) for s in (3, 4))
    assert np.isin(mine, other).mean() < 0.01

def test_fingerprints_tell_apart():
    a = np.random.default_rng(0).integers(0, 256, (50_000, 130), dtype=np.uint8)
    b = a.copy(); b[:, 17] ^= 1
    assert len(np.unique(np.concatenate([fingerprints(a), fingerprints(b)]))) == 100_000

def test_pass_can_be_taken_up(tmp_path):
    "Broken off and gone on with, the weights are the same to the last bit; another run's state is refused"
    knobs, lessons = Pass(questions=3*PER_LESSON*8, batch=8), lambda i: lesson(0, i, PER_LESSON*8)
    whole, rows = build_pairs(TINY), None
    rows = one_pass(whole, lessons, knobs)
    class Cut(Exception): pass
    def cut(model, row):
        if row['step'] == 2*PER_LESSON: raise Cut
        return {}
    with pytest.raises(Cut): one_pass(build_pairs(TINY), lessons, knobs, checkpoint=tmp_path/'state', watch=cut)
    resumed = build_pairs(TINY, seed=5)
    again = one_pass(resumed, lessons, knobs, checkpoint=tmp_path/'state')
    assert [r['loss'] for r in again] == [r['loss'] for r in rows]
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters()))
    with pytest.raises(ValueError, match='state of another run'): one_pass(build_pairs(TINY), lessons, knobs._replace(lr=1.), checkpoint=tmp_path/'state')

@pytest.mark.parametrize('k, read, derived', [(1, 'bits', False), (4, 'bytes', False), (8, 'bits', True)])
def test_readers(k, read, derived, tmp_path):
    model = build_pairs(TINY, encoder=reader(k, read, derived))
    rows = table('double')
    contexts = pose(np.random.default_rng(0), rows, k)
    with pytest.raises(ValueError, match=f'the form and {k} pairs'): model.context.check(contexts[:, 1:])
    save_pairs(model, tmp_path/'m.safetensors', half=False)
    again, x = load_pairs(tmp_path/'m.safetensors'), torch.as_tensor(contexts, dtype=torch.int64)
    tokens = torch.full((len(x), 1), 256)
    assert torch.equal(model(x, tokens), again(x, tokens)) and again.context.k == k

def test_no_kind_was_forgotten():
    assert {*CATEGORY.values()} == {k.category for k in KINDS} and {*MIX} == {*NAMES} == {*CATEGORY, *WIDER}

def test_order_of_memory_matters():
    "A specification whose bytes do not lie in a row from HL on is outside, not silently something else"
    for line in ('HL in 9000h..0EFFFh, mem[HL+1], mem[HL] -> A = mem[HL] - mem[HL+1]', 'HL in 9000h..0EFFFh, mem[HL], mem[HL+2] -> A = mem[HL]', 'DE in 9000h..0EFFFh, mem[DE] -> A = mem[DE]',
                 'HL in 9000h..0EFFFh, mem[HL] -> mem[HL] = 0', 'A -> A, B = A', 'A -> out[1] = A', 'A -> mem[8001h] = A'):
        with pytest.raises(Outside): form(Spec(line))
