"Random programs on this core and on two independent emulators (tests/fuzz.py): every difference has a known cause."
from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings, strategies as st

from fuzz import CAUSES, FAVOURITES, KNOBS, PAGES, RUN, Case, Rig, decode, show
from z80lit.asm import assemble
from z80lit.record import read_run

PROGRAM, STATE = st.binary(max_size=64), st.binary(min_size=KNOBS, max_size=KNOBS)
QUICK = dict(database=None, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate, Phase.shrink])


@pytest.fixture(scope='module')
def rig(): return Rig()


def test_random_programs(rig):
    "20,000 programs, every opcode of every page among them; hypothesis shrinks a failure to the smallest program and prints it"
    used = Counter()

    @settings(max_examples=20_000, **QUICK)
    @given(PROGRAM, STATE)
    def agree(program, state):
        case = decode(program, state)
        used.update((code[:1] + code[1:2]*(code[0] in b'\xcb\xed\xdd\xfd') + code[3:]*(code[1:2] == b'\xcb' and len(code) == 4)) for code in case.lines)
        rig.compare(case)

    agree()
    spelled = {p + bytes([op]) for p in set(PAGES) for op in range(256)} - {b'\xdd\xcb', b'\xfd\xcb'}
    assert spelled <= set(used), f'never drawn: {sorted(c.hex(" ") for c in spelled - set(used))}'


def case(text, events=0, when=0, budget=40, **state):
    "A case written by hand: IM 1 and interrupts enabled unless `state` says otherwise"
    names = 'af bc de hl ix iy sp wz af_ bc_ de_ hl_ pc i r im iff1 iff2 after_ei q'.split()
    return Case([assemble(text)], dict.fromkeys(names, 0) | dict(sp=0x9000, pc=0x8000, im=1, iff1=1, iff2=1) | state, 0, events, 0xDF, when, budget)


# One small case for each known difference, and how often it shows there
@pytest.mark.parametrize('who, cause, times, program', [
    ('oracle', 'EI after EI', 2, case('EI : EI : EI : NOP', events=1, iff1=0, iff2=0)),
    ('oracle', 'INT after LD A,I', 1, case('LD A,I : NOP', events=1, when=1, budget=20)),
    ('oracle', 'NMI with IFF1 and IFF2 unlike', 1, case('NOP', events=2, when=1, budget=12, iff1=0)),
    ('oracle', 'NMI after EI', 1, case('EI', events=2, when=1, budget=12)),
    ('second', 'INT after LD A,I', 1, case('LD A,I : NOP', events=1, when=1, budget=20)),
    ('second', 'Q', 1, case('NOP : SCF', af=0x0028, budget=8)),
    ('second', 'repeating LD, CP', 1, case('LDIR', bc=2, hl=0x4000, de=0x5000, pc=0xA800, budget=21)),
    ('second', 'repeating IN, OUT', 1, case('OTIR', bc=0x0300, hl=0x4000, budget=21)),
    ('second', 'WZ of INI, IND', 1, case('INI', bc=0x0300, hl=0x4000, budget=16)),
    ('second', 'IM 0', 1, case('NOP', events=1, when=1, budget=5, im=0)),
], ids=lambda v: v if isinstance(v, str) else '')
def test_known_differences(rig, who, cause, times, program):
    rig.causes.clear()
    rig.compare(program)
    assert {name: n for (machine, name), n in rig.causes.items() if machine == who} == {cause: times}


def test_every_cause_has_a_case():
    shown = {args[:2] for mark in test_known_differences.pytestmark for args in mark.args[1]}
    assert shown == {(who, name) for who, causes in CAUSES.items() for name in causes}


def test_a_fault_is_found_and_shrunk():
    "An oracle whose ports deliver something else: the smallest program that shows it is one input instruction"
    rig = Rig()
    rig.others['oracle'].cpu.read_port = lambda port: 0x55

    def fails(bytes_):
        case = decode(*bytes_)
        if case.image: return False                 # random bytes around the program would do as well
        try: rig.compare(case)
        except AssertionError as e: return 'oracle' in str(e)

    smallest = decode(*find(st.tuples(PROGRAM, STATE), fails, settings=settings(max_examples=2000, **QUICK)))
    assert len(smallest.lines) == 1 and ' IN' in show(smallest), show(smallest)


def test_recorded_run():
    "The million programs of nbs/runs/fuzz.jsonl: all compared, every kind of difference known"
    summary = read_run(RUN).summary
    assert summary['cases'] == 1_000_000 and summary['unexplained'] == 0
    assert summary['differences'].keys() <= {f'{who}: {name}' for who, causes in CAUSES.items() for name in causes}
