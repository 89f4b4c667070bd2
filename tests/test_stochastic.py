"The search by chance: the same seed gives the same walk, an interruption loses nothing, and what is called right is right."
import json
from pathlib import Path

import numpy as np
import pytest

from z80lit.asm import assemble
from z80lit.record import read_run
from z80lit.stochastic import as_slots, chain, encode, space, stochastic, unit
from z80lit.verify import Spec, SpecError, verify

runs = Path(__file__).resolve().parent.parent/'nbs'/'runs'
EASY = dict(units='AB', slots=6, steps=50_000, beta=.7)
DOUBLE = Spec('A -> A*2 + 1', clobbers='BF')

def test_same_seed_same_walk():
    one, two, other = ({k: v for k, v in chain(DOUBLE, space('AB'), 6, 50_000, seed).items() if k != 'cpu'} for seed in (3, 3, 4))
    assert one == two and one['seed'] != other['seed']

def test_found_is_proved_whatever_the_number_of_threads():
    one, two = (stochastic(DOUBLE, chains=4, jobs=jobs, **EASY) for jobs in (1, 2))
    assert one.verdict.proved and one == two and verify(one.program, DOUBLE).proved
    assert 'best found, not proved' in str(one) and 'optimal' not in str(one)

def test_goes_on_after_an_interruption(tmp_path):
    "A record that is cut off after some chains leads to the same result"
    whole = stochastic(DOUBLE, chains=4, record=tmp_path/'whole.jsonl', jobs=1, **EASY)
    lines = (tmp_path/'whole.jsonl').read_text().splitlines(keepends=True)
    (tmp_path/'cut.jsonl.part').write_text(''.join(lines[:3]))
    assert stochastic(DOUBLE, chains=4, record=tmp_path/'cut.jsonl', jobs=1, **EASY) == whole
    assert sorted(r['seed'] for r in read_run(tmp_path/'cut.jsonl').rows) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match='another search'): stochastic(DOUBLE, chains=4, record=tmp_path/'whole.jsonl', jobs=1, **EASY | dict(slots=7))

def test_slots_and_code():
    "Programs become slots and come back; jumps keep their targets"
    units = space('A BC HL', jumps=True)
    for text in 'LD BC,1234h : l1: ADD HL,BC : DJNZ l1', 'JR NC,l1 : XOR A : l1: SUB 7 : JR l2 : NEG : l2:', 'SET 3,B : LD A,200':
        assert encode(units, *as_slots(assemble(text), units, 9)) == assemble(text)

@pytest.mark.parametrize('call, why', [(lambda: stochastic('A -> A', 'AX', 4), "'X'"), (lambda: stochastic('A -> A', 'AB', 99), 'slots=99'), (lambda: stochastic('A -> A', 'AB', 4, objective='beauty'), 'beauty'),
                                       (lambda: stochastic('A -> A', 'AB', 4, start='LD HL,1'), 'not in the space'), (lambda: unit('LD (IX+n),n'), 'more than one'), (lambda: chain(Spec('A -> mem[8000h] = A'), space('AB'), 4, 10, 1), 'registers and flags')])
def test_bad_input(call, why):
    with pytest.raises(ValueError, match=why): call()

@pytest.mark.parametrize('path', sorted(runs.glob('stochastic_*.jsonl')), ids=lambda p: p.stem)
def test_recorded_programs_are_right(path):
    "Each recorded program, judged once more"
    run = read_run(path)
    spec = eval(run.header['config']['spec'], {'Spec': Spec})
    assert verify(bytes.fromhex(run.summary['verdict']['program']), spec).proved and run.summary['claim'] == 'best found, not proved'
