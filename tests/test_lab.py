"The lab in a plain IPython and without one: the magic, what is shown, the profile, and the machine that goes back."
import json, os, random, re, runpy, subprocess, sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from z80lit.asm import assemble, assemble_source
from z80lit.bus import trace
from z80lit.emulator import Stop, Z80
from z80lit.isa import disassemble, table
from z80lit.lab import Code, Listing, Look, Mark, Panel, Sheet, Stepper, look, number, plot_trace, profile, run_cell, stepper

root = Path(__file__).resolve().parent.parent

@pytest.fixture(scope='module')
def shell():
    "An IPython without a front end, with the magic loaded"
    shell = InteractiveShell.instance()
    shell.run_line_magic('load_ext', 'z80lit')
    yield shell
    InteractiveShell.clear_instance()

def run(shell, text):
    "Run a cell: (succeeded, what it printed on both streams)"
    with capture_output() as said: result = shell.run_cell(text)
    return result.success, said.stdout + said.stderr

# The magic

def test_magic_leaves_the_machine(shell):
    ok, said = run(shell, '%%z80 a=3 b=4 mem@0x9000=01,02,03 hl=0x9000 budget=10000 -o cpu\nadd a,b\nadd a,(hl)\nld (8000h),a\n')
    assert ok and 'Returned after 24 T-states and 3 instructions.' in said
    assert (shell.user_ns['cpu'].a, shell.user_ns['cpu'].memory[0x8000]) == (8, 8)
    assert re.search(r'^8000 +08\*', said, re.M) and re.search(r'^0002 +32 00 80 +ld \(8000h\),a +13 +24$', said, re.M)

@pytest.mark.parametrize('text', ['0x90', '90h', '$90', '#90', '144', '10010000b', '0b10010000', '%10010000'])
def test_magic_takes_every_spelling(shell, text):
    "Also $90, in whose place IPython would put a variable 90 if it was let"
    assert run(shell, f'%%z80 a={text} -o cpu\nnop')[0] and shell.user_ns['cpu'].a == number(text) == 0x90

def test_magic_traces(shell):
    "A row an instruction, and the same outcome as without"
    plain, traced = (run(shell, f'%%z80 b=3 {how}\nloop: inc a\ndjnz loop\nret')[1] for how in ('', 'trace'))
    assert '0001  DJNZ 0000h          13  BC=0200' in traced and '7 steps' in traced and '7 steps' not in plain
    assert plain.split('PC')[1] == traced.split('PC')[1]

def test_magic_points_into_the_cell(shell):
    ok, said = run(shell, '%%z80 a=1\nnop\n  ld q,1\n')
    assert not ok and 'line 3, column 6' in said and said.rstrip().splitlines()[-1] == '       ^'
    ok, said = run(shell, '%%z80 a=1  b=999\nnop')
    assert not ok and 'line 1, column 14: b = 999 is out of range 0..0FFh' in said

def test_magic_that_fails_leaves_the_variable_alone(shell):
    run(shell, '%%z80 a=7 -o kept\nnop')
    before = shell.user_ns['kept']
    for text in ('%%z80 a=8 -o kept\nld q,1', '%%z80 a=999 -o kept\nnop', '%%z80 -o kept'): assert not run(shell, text)[0]
    assert shell.user_ns['kept'] is before and before.a == 7

def test_magic_explains_itself(shell):
    for text in ('%z80?', '%%z80?'): assert 'mem@ADDRESS=BYTE,BYTE' in run(shell, text)[1]
    assert '%%z80 belongs on the first line' in run(shell, '%z80')[1]

def test_magic_includes_a_file_beside_the_notebook(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path/'lib.asm').write_text('twice: add a,a\n ret\n')
    assert run(shell, '%%z80 a=5 -o cpu\n call twice\n ret\n include "lib.asm"')[0] and shell.user_ns['cpu'].a == 10
    ok, said = run(shell, '%%z80\n include "../lib.asm"')
    assert not ok and 'line 2' in said

def test_ways_to_end():
    for cell, stop, end in [('halt', Stop.HALTED, 'Halted'), ('ret', Stop.BREAKPOINT, 'Returned'), ('nop', Stop.BREAKPOINT, 'Returned'), ('here: jr here', Stop.BUDGET, 'budget of 10,000')]:
        for traced in '', ' trace':
            r = run_cell('budget=10000' + traced, cell)
            assert r.stop == stop and end in repr(r)

def test_memory_that_was_written_is_shown_even_if_it_is_the_same():
    text = repr(run_cell('hl=9000h mem@9000h=5', 'ld (hl),5\ninc hl\nld (hl),6'))
    assert re.search(r'^9000  05 +06\*', text, re.M)

def test_a_routine_may_set_its_own_stack():
    r = run_cell('sp=9000h budget=1000', 'ret')
    assert r.stop == Stop.BUDGET and r.before.registers['sp'] == 0x9000 and not r.before.memory[0x8FF0:0x9000].any()

# What is shown

def cells_of(line):
    "The cells of a row of a Markdown table, by the rule that a bar in backticks is none"
    return re.sub(r'`[^`]*`', 'code', line).strip('|').split('|')

def test_markdown_tables_are_tables():
    "Whatever the source holds, each row has as many cells as the head"
    source = "ld a,'|'  ; a `tick` | and a bar\n db '``', '|', 1|2\n nop ; *bold* <b> [x](y) &amp; \\\n"
    for shown in Listing(assemble_source(source)), run_cell('trace hl=8000h', source + 'ld (hl),124\ninc hl\nld (hl),96'), stepper(source), look(Z80()):
        for block in shown._repr_markdown_().split('\n\n'):
            rows = [cells_of(line) for line in block.splitlines() if line.startswith('|')]
            assert len({len(r) for r in rows}) <= 1, block
            assert '<b>' not in re.sub(r'`[^`]*`', '', block)

def test_plain_text_fits_a_terminal():
    wide = run_cell('trace', 'ld hl,1234h\nld (8000h),hl\nhalt')
    assert max(map(len, repr(wide).splitlines())) <= 80

def test_marks_do_not_move_columns():
    a, b = (repr(Sheet(['x', 'y'], [['a', kind('07')], ['b', Mark('10')]], right=['y'])).splitlines() for kind in (str, Mark))
    assert [line.replace('*', '').rstrip() for line in a] == [line.replace('*', '').rstrip() for line in b]

def test_look_compares_with_the_last_look():
    cpu = Z80().load(assemble('ld a,5 : ld (9000h),a : inc a : halt'))
    assert not look(cpu).was and 'was' not in repr(look(cpu))
    cpu.step(); cpu.step(); cpu.step()
    seen = look(cpu)
    assert (seen.was['af'], seen.registers['af'] >> 8, seen.passed) == (0, 6, (24, 3)) and list(np.flatnonzero(seen.changed)) == [0x9000]
    assert not look(cpu).changed.any()

def test_displays_are_the_same_in_every_process():
    code = ("from z80lit.lab import *; from z80lit.emulator import Z80; from z80lit.asm import assemble; r = run_cell('b=9 trace', 'x: push bc\\ndjnz x\\nhalt'); s = stepper('x: push bc\\ndjnz x', b=4); s.go(5)\n"
            "for x in r, s, look(r.cpu), profile(Z80(b=7).load(assemble('x: inc a : djnz x : halt'))): print(x, x._repr_markdown_())")
    said = {subprocess.run([sys.executable, '-c', code], env=os.environ | {'PYTHONHASHSEED': seed}, capture_output=True, check=True, cwd=root).stdout for seed in ('1', '2')}
    assert len(said) == 1 and len(said.pop()) > 3000

def test_listing_adds_up_what_a_run_takes():
    "The running total of a straight line is the clock at its end"
    rng = random.Random(1)
    safe = [op for prefix in ('', 'CB', 'ED', 'DD', 'DDCB') for op in table(prefix) if op.canonical and op.t == op.t_taken and
            op.mnemonic not in 'JP JR CALL RET RETI RETN RST HALT PUSH POP EX LD INC DEC LDI LDD INI IND OUTI OUTD RLD RRD prefix'.split() and 'SP' not in op.text]
    for _ in range(50):
        code = b''.join(bytes(p if isinstance(p, int) else 0x40 for p in op.encoding) for op in rng.choices(safe, k=20) if 'nn' not in op.encoding)
        source = '\n'.join(i.text for i in disassemble(code))
        program, r = Listing(assemble_source(source)), run_cell('ix=9000h iy=9000h hl=9000h', source)
        assert program.t == r.after.tstates and r.stop == Stop.BREAKPOINT
        assert repr(r.listing).splitlines()[-1].split()[-1] == str(program.t)

def test_profile_accounts_for_everything():
    "Random bytes: the same clock, count and memory as a plain run, and the same sums as a trace"
    rng = np.random.default_rng(5)
    for _ in range(25):
        code, start = rng.integers(0, 256, 40, np.uint8), dict(hl=0x9000, ix=0x9000, b=int(rng.integers(256)))
        cpus = [Z80(**start).load(code) for _ in range(3)]
        spots, steps = profile(cpus[0], 2000), trace(cpus[1], 2000)
        cpus[2].run(2000)
        assert len({(c.tstates, c.instructions, c.memory.tobytes()) for c in cpus}) == 1
        assert spots.t == cpus[2].tstates and sum(s.times for s in spots) == len(steps)
        sums = {}
        for s in steps: sums[s.address] = sums.get(s.address, 0) + s.t
        assert {s.address: s.t for s in spots} == sums
        assert repr(spots) and spots._repr_markdown_()

def test_profile_of_nothing_and_of_interrupts():
    assert repr(profile(Z80(), 0)).endswith('0 T-states')
    cpu = Z80(im=1, iff1=1, pc=0x100).load(assemble('ei : ret'), 0x38).load(assemble('x: inc a : jp nz,x : halt', 0x100), 0x100)
    cpu.interrupt()
    spots = profile(cpu)
    assert (spots[0].address, spots[0].text, spots[0].t) == (None, 'interrupt', 13) and spots.t == cpu.tstates

def test_plot_has_a_lane_for_each_register(monkeypatch):
    plt = pytest.importorskip('matplotlib.pyplot')
    plt.switch_backend('agg')
    plot_trace(trace(Z80(b=3, hl=0x9000).load(assemble('x: ld (hl),b : inc hl : djnz x : halt'))))
    assert [a.get_ylabel() for a in plt.gcf().axes] == ['BC', 'HL'] and 'DJNZ 0000h' in [t.get_text() for t in plt.gcf().axes[0].child_axes[0].get_xticklabels()]
    plot_trace(trace(Z80().load(assemble('nop : halt'))), ['r', 'pc'])
    assert [a.get_ylabel() for a in plt.gcf().axes] == ['R', 'PC']
    plt.close('all')

# Forward and back

def everything(cpu): return cpu.machines.tobytes() + cpu.before.tobytes()

@pytest.mark.parametrize('pins', [{}, dict(int_line=1, iff1=1, im=0), dict(int_line=1, iff1=1, im=1), dict(nmi=1, im=2, i=0x40, iff1=1)], ids=['none', 'im0', 'im1', 'nmi'])
def test_back_is_back_to_the_last_bit(pins):
    "Random bytes, walked to and fro: at each step the whole record is what it was on the first way there"
    rng = np.random.default_rng(7)
    for _ in range(15):
        code = rng.integers(0, 256, 64, np.uint8)
        s = Stepper(Z80(hl=0x20, ix=0x30, de=0x9000, **pins).load(code))
        seen = [everything(s.cpu)]
        while s.at < 60 and s.step(): seen.append(everything(s.cpu))
        for at in rng.integers(0, len(seen), 25):
            assert s.go(int(at)) == at and everything(s.cpu) == seen[at] and len(s.steps) == at
        assert s.go(0) == 0 and not s.back() and everything(s.cpu) == seen[0]

def test_back_survives_a_full_log():
    "More writes than the log of writes holds, and ports too"
    s = Stepper(Z80(b=200, hl=0x9000).load(assemble('x: push bc : ld (hl),b : out (c),b : inc hl : djnz x : jr x')))
    first = everything(s.cpu)
    assert s.run_to(0xFFFF, budget=100_000) == Stop.BUDGET and s.cpu.state['nlog'] > 4096
    s.go(0)
    assert everything(s.cpu) == first

def test_what_one_changes_by_hand_between_two_steps_stays_or_goes_with_its_step():
    s = stepper('inc a\ninc a\ninc a')
    s.step()
    s.cpu.b = 9
    s.step()
    s.back()
    assert (s.cpu.a, s.cpu.b) == (1, 9)

def test_run_to_ends():
    s = stepper('ld b,3\nx: nop\ndjnz x\nret')
    assert s.run_to(2) == Stop.BREAKPOINT and s.at == 1
    assert s.run_to(2) == Stop.BREAKPOINT and (s.at, s.cpu.b) == (3, 2)
    assert s.run_to(0x1234) == Stop.HALTED and s.ended and s.cpu.pc == s.program.end and not s.step()
    assert 'ended' in repr(s) and s.back() and not s.ended

def test_stepper_without_a_listing_shows_what_lies_there():
    s = Stepper(Z80(pc=0xFFFE).load(assemble('ld a,(1234h)'), 0x8000).load([0x3E, 7], 0xFFFE).load([0xC3, 0, 0x80]))
    assert re.search(r'^→  FFFE +3E 07 +LD A,07h', repr(s), re.M)
    s.go(2)
    assert re.search(r'^→  8000 +3A 34 12 +LD A,\(1234h\)', repr(s), re.M)

def test_stepper_goes_a_long_way():
    "A hundred thousand T-states forward and all the way back"
    s = stepper('ld hl,9000h\nx: inc (hl)\ninc l\njr x')
    s.run_to(0xFFFF, 100_000)
    assert s.at > 8000 and s.go(0) == 0 and s.cpu.memory[0x9000] == 0

# Widgets

def test_panel_drives_the_stepper():
    pytest.importorskip('ipywidgets')
    p = Panel(stepper('ld b,2\nx: inc a\ndjnz x\nhalt'))
    for click, at in [(p.step, 1), (p.step, 2), (p.back, 1), (p.back, 0), (p.back, 0), (p.step, 1)]:
        click.click()
        assert p.stepper.at == p.play.value == at
    assert '<b>0200</b>' in p.state.value and p.lines.options[1][0].startswith('→')
    p.lines.index = 3
    p.to.click()
    assert (p.stepper.at, p.stepper.cpu.a, p.lines.index) == (5, 2, 3)
    p.play.playing = True
    p.play.value = 99
    assert (p.stepper.at, p.play.value, p.play.playing) == (6, 6, False)
    p.play.value = 0
    assert p.stepper.at == 0

def test_panel_has_other_forms_than_the_widget():
    "And no HTML among them"
    pytest.importorskip('ipywidgets')
    s = stepper('nop')
    bundle = Panel(s)._repr_mimebundle_()
    assert bundle.keys() == {'text/plain', 'text/markdown', 'application/vnd.jupyter.widget-view+json'}
    assert (bundle['text/plain'], bundle['text/markdown']) == (repr(s), s._repr_markdown_())

@pytest.mark.parametrize('module, call', [('ipywidgets', lambda: Panel(stepper('nop'))), ('matplotlib.pyplot', lambda: plot_trace(trace(Z80().load([0x76]))))])
def test_what_is_missing_is_named(monkeypatch, module, call):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=r"is missing; it comes with the extra lab: pip install 'z80lit\[lab\]'"): call()

def test_saved_notebooks_hold_no_widget(tmp_path):
    "Executed as the book's notebooks are, twice: text and Markdown stay, the widget and its state do not, and the second run changes nothing"
    pytest.importorskip('ipywidgets')
    path = tmp_path/'a.ipynb'
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("from z80lit.lab import Panel, stepper\nPanel(stepper('inc a'))", id='a')]), path)
    saved = []
    for _ in range(2):
        assert runpy.run_path(str(root/'.ci'/'run_nbs.py'))['run'](path, frozenset(), 120) is None
        saved.append(path.read_text(encoding='utf-8'))
    assert saved[0] == saved[1] and 'widget' not in saved[0] and 'text/markdown' in saved[0]

def test_emulator_chapter_shows_the_stepper_as_text():
    cells = json.loads((root/'nbs'/'01_emulator.ipynb').read_text(encoding='utf-8'))['cells']
    cell, = [c for c in cells if c['cell_type'] == 'code' and 'Panel(' in ''.join(c['source'])]
    assert [sorted(o['data']) for o in cell['outputs']] == [['text/markdown', 'text/plain']] and 'Step 2, 11 T-states' in ''.join(cell['outputs'][0]['data']['text/plain'])
