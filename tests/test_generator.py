"""The generator on every parameter setting, on hostile machines, exhaustively where that is possible, and against another emulator."""
import itertools, random
from dataclasses import replace

import numpy as np
import pytest
from z80_python import CPUState
from z80_python.cpu import Z80CPU

from z80lit.emulator import Stop, registers, run_batch
from z80lit.generator import STYLES, generate
from z80lit.asm import assemble
from z80lit.isa import disassemble
from z80lit.tasks import ARTICLE, KINDS, benchmark, expected_array, fresh_tasks, machine_inputs, make, other_inputs, right, run_tasks, training_tasks

ONE_INPUT = {'dead-load', 'zero-test', 'block-copy'}            # the article's program is right for its given input only

def settings_of(kind, limit=1500):
    rng = random.Random(1)
    every = [dict(zip(kind.spaces, v)) for v in itertools.product(*kind.spaces.values())]
    for params in every[::-(-len(every)//limit)]: yield make(kind, params, *(kind.given or kind.inputs)(rng, **params))

@pytest.mark.parametrize('style', STYLES)
@pytest.mark.parametrize('kind', KINDS, ids=lambda k: k.name)
def test_every_setting(kind, style):
    tasks = list(settings_of(kind))
    programs = [generate(t, style) for t in tasks]
    batch = run_tasks(tasks, programs)
    assert right(tasks, batch).all() and not batch.stray.any()
    if style == 'all':
        asked = [q for t in tasks for q in other_inputs(t, 16, seed=2)]
        assert right(asked, run_tasks(asked, [p for p in programs for _ in range(16)])).all()

def test_article_figures():
    tasks = benchmark()
    programs = [generate(t) for t in tasks]
    for i, (p, t) in enumerate(zip(programs, run_tasks(tasks, programs).tstates), 1): assert ARTICLE.get(i, (6, 24))[:2] == (len(p), t)

def hostile(tasks, rng):
    "The tasks' inputs with junk in everything that is no input: flags, index and shadow registers, SP, I, R, the general registers, and the output cells"
    states, patches = machine_inputs(tasks)
    n = len(tasks)
    junk = registers(n, **{r: rng.integers(0, 65536, n) for r in ('af', 'bc', 'de', 'hl', 'ix', 'iy', 'sp', 'af_', 'bc_', 'de_', 'hl_')},
                     i=rng.integers(0, 256, n), r=rng.integers(0, 256, n))
    for r in 'abcdehl':
        named = np.array([any(r in name for name in t.registers) for t in tasks])
        junk[r] = np.where(named, states[r], junk[r])
    addresses, values = patches or (np.empty((n, 0), int), np.empty((n, 0), np.uint8))
    cells = np.array([t.output_address for t in tasks])[:, None] + np.arange(40)
    cells[cells >= np.array([t.output_address + len(t.expected) for t in tasks])[:, None]] = -1
    want = np.pad(expected_array(tasks), ((0, 0), (0, 40)))[:, :40]
    return junk, (np.hstack([cells, addresses]), np.hstack([~want, values]))     # every output bit starts out wrong; inputs come last

@pytest.mark.parametrize('fill', [0x00, 0x76, 0xC7, 0xFF])
def test_hostile_machines(fill):
    rng = np.random.default_rng(fill)
    tasks = [bare for t in benchmark() + training_tasks()[16:] + fresh_tasks(400, seed=9) for q in other_inputs(t, 8)
             for bare in [with_only(q, t.registers)]]
    states, patches = hostile(tasks, rng)
    where = np.array([t.output_address for t in tasks]), np.array([len(t.expected) for t in tasks])
    batch = run_batch([generate(t, 'all') for t in tasks], init=states, patches=patches, outputs=where, fill=fill)
    assert right(tasks, batch).all() and not batch.stray.any()

def with_only(asked, names):
    "The task with none but its named registers, so that the rest is junk of our choosing"
    return replace(asked, registers={r: asked.registers[r] for r in names})

def test_hostile_machines_find_the_article_programs_out():
    rng, caught = np.random.default_rng(5), set()
    for t in benchmark():
        asked = [with_only(q, t.registers) for q in other_inputs(t, 32)]
        states, patches = hostile(asked, rng)
        batch = run_batch([generate(t)]*32, init=states, patches=patches, outputs=(t.output_address, len(t.expected)))
        if not right(asked, batch).all(): caught.add(t.name)
    assert caught == ONE_INPUT

@pytest.mark.parametrize('task', [t for t in training_tasks() if len(t.registers) <= 2 and not t.memory and t.name != 'add16'][:60], ids=lambda t: t.text)
def test_all_inputs_of_one_and_two_operand_tasks(task):
    names = list(task.registers)
    values = np.arange(256**len(names))
    states = registers(2*len(values), f=np.repeat([0x00, 0xFF], len(values)))
    for k, name in enumerate(names): states[name] = np.tile(values >> 8*k & 255, 2)
    batch = run_batch([generate(task, 'all')], init=states[None], outputs=(task.output_address, 1))
    want = np.array([task.semantics({name: v >> 8*k & 255 for k, name in enumerate(names)}, {})[0] for v in values.tolist()], np.uint8)
    assert (batch.stop == Stop.HALTED).all() and (batch.outputs[0, :, 0] == np.tile(want, 2)).all()

def test_styles_differ_only_where_they_say():
    differ = {t.name for t in training_tasks() + fresh_tasks(2000) if generate(t, 'given') != generate(t, 'all')}
    assert differ == ONE_INPUT | {'swap', 'copy'}

@pytest.mark.parametrize('style', STYLES)
def test_programs_are_proper_instructions(style):
    for t in training_tasks() + fresh_tasks(1000):
        code = generate(t, style)
        text = [i.text for i in disassemble(code)]
        assert not any(line.startswith('DB') for line in text) and assemble('\n'.join(text)) == code
        assert 'HALT' in text and len(code) <= 33

def test_a_whole_swap():
    for t in [t for t in training_tasks() if t.name == 'swap']:
        r, (a, v) = t.params['r'], t.registers.values()
        states, _ = machine_inputs([t])
        after = run_batch([generate(t, 'all')], init=states, final=True).registers[0]
        assert (after['a'], after[r]) == (v, a)

def run_elsewhere(task, code):
    "(answer, T-states) by the pure-Python emulator z80-python"
    memory = bytearray(65536)
    for a, chunk in task.memory.items(): memory[a:a + len(chunk)] = chunk
    memory[:len(code)] = code
    states, _ = machine_inputs([task])
    cpu = Z80CPU(memory.__getitem__, memory.__setitem__)
    cpu.restore_state(CPUState(sp=0xFFF0, **{r: int(states[r][0]) for r in 'abcdehl'}))
    t = 0
    while not cpu.capture_state().halted and t < 10_000: t += cpu.step()
    return bytes(memory[task.output_address:task.output_address + len(task.expected)]), t

@pytest.mark.parametrize('style', STYLES)
def test_another_emulator_agrees(style):
    for t in training_tasks() + fresh_tasks(100, seed=3):
        code = generate(t, style)
        assert run_elsewhere(t, code) == (t.expected, run_tasks([t], [code]).tstates[0])

def test_unknown_style_and_kind():
    with pytest.raises(ValueError, match="no style 'fast'"): generate(benchmark()[0], 'fast')
    with pytest.raises(ValueError, match="kind 'new'"): generate(replace(benchmark()[0], name='new'))
