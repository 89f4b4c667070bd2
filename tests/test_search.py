"The search: lanes against the emulator, rules against no rules, certificates, interruptions, clusters."
import json, signal, subprocess, sys, time, tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numba import njit

import z80lit.search as zs
from conftest import missing
from z80lit.emulator import REG8, registers, run_batch
from z80lit.search import OPTIMAL, NOTHING, UNDECIDED, SearchError, check_certificate, read_certificate, search
from z80lit.tasks import benchmark, run_tasks, right, suffix
from z80lit.verify import Spec

TEN = dict(spec=Spec('A -> A*10 & 0xFF', clobbers='BF'), objective=('bytes', 'tstates'), registers='AB', constants=[])

@njit
def perform_all(desk, form, d, s, k, x0, x1):
    "The form on the states in rows 0.., which are replaced for each block of 64"
    m = desk[0]
    zs.act(m, form, 0, 16, d, s, k)
    zs.act_unflagged(m, form, 0, 32, d, s, k)

def lanes(form, n, states):
    "What the lanes leave of these 64 states: with flags, without"
    desk = np.zeros(1, zs.Desk)
    w = desk['w'][0]
    w[:16], w[zs.CONST:], desk['fmask'] = 0, np.arange(256)[:, None], 0xFF
    w[:12] = np.stack([states[r] for r in REG8])
    w[16:28] = w[32:44] = w[:12]
    w[zs.TEMP], w[zs.TEMP + 1] = n >> 8, n & 255
    s = {zs.NONE: form.s, zs.BYTE: zs.CONST + n, zs.WORD: zs.TEMP}[form.imm]
    perform_all(desk, zs.FORM_NUMBER[form.name], form.d, s, form.k, 0, 1)
    return w[16:28].copy(), w[32:44].copy()

def agrees(form, n, states):
    "Do the lanes leave what the emulator leaves? (Y and X of SCF and CCF depend on Q, which lanes do not have)"
    after = run_batch([form.bytes(n) + b'\x76'], init=states[None], final=True).registers[0]
    want, mask = np.stack([after[r] for r in REG8]), np.full((12, 1), 255)
    if form.name in ('SCF', 'CCF'): mask[6] = 0xD7
    flagged, plain = lanes(form, n, states)
    assert ((flagged ^ want) & mask == 0).all(), form.text
    mask[6] = 0
    assert ((plain ^ want) & mask == 0).all(), form.text

def test_every_instruction_in_the_lanes_is_the_emulators():
    rng = np.random.default_rng(0)
    for form in zs.all_forms():
        for n in (0x1234 & 256**form.imm - 1, 0xFF) if form.imm else (0,): agrees(form, n, registers(64, **{r: rng.integers(0, 256, 64) for r in REG8}))

def test_arithmetic_in_the_lanes_is_exact_for_all_operands():
    "ADD to CP on all pairs of bytes and both carries; DAA on all A and flags; rotations and counting on all bytes"
    forms = {f.text: f for f in zs.all_forms()}
    for text in ['ADD A,B', 'ADC A,B', 'SUB B', 'SBC A,B', 'AND B', 'XOR B', 'OR B', 'CP B']:
        for x in range(0, 1 << 17, 64):
            v = np.arange(x, x + 64)
            a, b, f = v & 255, v >> 8 & 255, v >> 16
            flagged, _ = lanes(forms[text], 0, states := registers(64, a=a, b=b, f=f))
            if x % 8192 == 0: agrees(forms[text], 0, states)
            t = {'ADD A,B': a + b, 'ADC A,B': a + b + f, 'SUB B': a - b, 'SBC A,B': a - b - f, 'AND B': a & b, 'XOR B': a ^ b, 'OR B': a | b, 'CP B': a}[text]
            assert (flagged[7] == t & 255).all()
    for text in ['DAA', 'NEG', 'CPL', 'RLCA', 'RRCA', 'RLA', 'RRA', 'INC A', 'DEC A', 'RLC A', 'RRC A', 'RL A', 'RR A', 'SLA A', 'SRA A', 'SLL A', 'SRL A']:
        for x in range(0, 1 << 16, 64 if text == 'DAA' else 1024): agrees(forms[text], 0, registers(64, a=np.arange(x, x + 64) & 255, f=np.arange(x, x + 64) >> 8))

@pytest.mark.slow
def test_arithmetic_in_the_lanes_sets_the_emulators_flags_for_all_operands():
    forms = {f.text: f for f in zs.all_forms()}
    for text in ['ADD A,B', 'ADC A,B', 'SUB B', 'SBC A,B', 'AND B', 'XOR B', 'OR B', 'CP B']:
        for x in range(0, 1 << 17, 64): agrees(forms[text], 0, registers(64, a=np.arange(x, x + 64) & 255, b=np.arange(x, x + 64) >> 8 & 255, f=np.arange(x, x + 64) >> 16))

def test_ten_times_a():
    r = search(**TEN)
    assert r.certificate.status == OPTIMAL and r.certificate.value == [5, 20] and all(v.proved for v in r.verdicts)
    assert check_certificate(r.certificate.to_json()) == {}
    assert search(**TEN | dict(max_bytes=4)).certificate.status == NOTHING

def test_public_answers():
    "Small ones; the rest is recorded in nbs/runs/search_answers.jsonl"
    for name in 'hex digit', 'sign of A', 'A == 0':
        line, free, how = zs.ANSWERS[name]
        c = search(Spec(line, clobbers=free), ('bytes', 'tstates'), **how).certificate
        assert (c.status, c.value) == (OPTIMAL, {'hex digit': [5, 18], 'sign of A': [5, 20], 'A == 0': [4, 15]}[name])
    recorded = {c['name']: c['certificate'] for c in map(json.loads, (Path(__file__).parents[1]/'nbs/runs/search_answers.jsonl').read_text().splitlines()[1:-1])}
    assert {n: c['value'] for n, c in recorded.items()} == {'A*10': [5, 20], 'hex digit': [5, 18], 'sign of A': [5, 20], 'A == 0': [4, 15], 'HL = A signed': [4, 16], 'HL = -HL': [6, 24]}

SMALL = 'LD ADD ADC SUB SBC XOR INC CPL RRA SCF'.split()

@pytest.mark.parametrize('line', ['A -> A*3 & 0xFF', 'A, B -> A + B*2', 'A -> A >> 1', 'A -> 255*(A > 127)', 'A -> A, ZF = A == 0', 'A -> CF = A > 127'])
def test_no_rule_and_no_limit_of_memory_changes_the_cost(line):
    spec = Spec(line, clobbers='BDF')
    how = dict(registers='ABD', constants=[], instructions=SMALL, max_bytes=4)
    want = search(spec, ('bytes', 'tstates'), rules=(), **how).certificate
    for rules in ('dedup',), ('order',), ('dead', 'order'), ('dedup', 'symmetry'), tuple(zs.RULES):
        c = search(spec, ('bytes', 'tstates'), rules=rules, **how).certificate
        assert (c.status, c.value) == (want.status, want.value), rules
    c = search(spec, ('bytes', 'tstates'), max_memory=4000, **how).certificate
    assert (c.status, c.value) == (want.status, want.value)

def test_objectives():
    front = search(**TEN | dict(objective='pareto', max_bytes=6)).certificate
    assert front.value == [[5, 20]] and front.status == OPTIMAL and len(front.programs) > 1
    assert search(**TEN | dict(objective='tstates')).certificate.value == 20
    assert search(**TEN | dict(objective=('bytes', 'tstates'), budget_s=0)).certificate.status == UNDECIDED

def test_immediates_are_solved():
    for k in range(0, 256, 51):
        for line in f'A -> A + {k}', f'A -> A ^ {k}', f'A -> A & {k or 1}', f'A -> A | {k}', f'A -> {k}':
            if line.endswith(' 0') or line.endswith('& 255'): continue
            assert search(Spec(line, clobbers='F'), registers='A', constants='solve').certificate.value in (1, 2)

def test_bodies_are_counted_as_the_benchmark_counts_them():
    "The prefix-sharing runner against plain runs: every body of two bytes, a sample of three, all tasks"
    rng = np.random.default_rng(0)
    for task in benchmark():
        every = zs.strings(zs.BYTES, 2)
        plain = lambda b: right([task]*len(b), run_tasks([task]*len(b), np.hstack([b, np.tile(np.frombuffer(suffix(task), np.uint8), (len(b), 1))]), np.full(len(b), b.shape[1] + 4), budget=400))
        assert {b.tobytes() for b in zs.density(task, 2)[0]} == {b.tobytes() for b in every[plain(every)]}
        heads = rng.integers(0, 256, (24, 2), dtype=np.uint8)
        some = np.hstack([np.repeat(heads, 256, 0), np.tile(zs.BYTES[1], (24, 1))])
        found = zs.right_bodies(*zs.given_plan(task, 3), 0, heads, zs.BYTES[1], True)[0]
        assert sorted(b.tobytes() for b in found) == sorted(b.tobytes() for b in some[plain(some)])

def test_tasks():
    for n, value in (6, [1, 4]), (11, [1, 4]), (13, [2, 7]), (16, [2, 15]):
        r = search(benchmark()[n - 1], ('bytes', 'tstates'), instructions='bytes', max_bytes=2)
        assert (r.certificate.value, r.certificate.status) == (value, OPTIMAL) or n == 16 and r.certificate.value == value
        assert check_certificate(r.certificate) == {}

KILLED = '''
import z80lit.search as zs
from z80lit.search import search
from z80lit.verify import Spec
zs.Saved.every, zs.SHARD = 0., 1 << {size}
print(search({question}, jobs=1, checkpoint={path!r}).certificate.to_json())
'''
QUESTIONS = {   # what is asked, the size of a shard, bytes of a checkpoint that has got somewhere
    'registers': ("Spec('A -> (A>0) - 2*(A>127)', clobbers='BF'), ('bytes', 'tstates'), registers='AB', constants=[1, 127]", 14, 100_000),
    'branches': ("Spec('A, B -> min(A, B)', clobbers='F'), 'tstates', registers='AB', constants=[], branches=True, instructions='CP JR LD SUB ADD'.split(), max_bytes=5", 10, 0),
    'memory': ("Spec('HL in 9000h..9FFFh, A -> mem[HL+0] = A, mem[HL+1] = A', clobbers='*'), 'tstates', registers='AHL', constants=[], memory=True, instructions='LD INC DEC'.split(), max_bytes=3", 9, 0),
    'bytes': ("benchmark()[7], ('bytes', 'tstates'), instructions='bytes', max_bytes=2", 9, 0)}

@pytest.mark.parametrize('name', QUESTIONS)
def test_killed_and_gone_on(tmp_path, monkeypatch, name):
    "A child is killed while it searches; a second one goes on and comes to the same certificate as a search in one go"
    question, size, enough = QUESTIONS[name]
    monkeypatch.setattr(zs, 'SHARD', 1 << size)         # the order of the states, and with it the count of candidates, depends on the size of a shard
    path = tmp_path/'search.npz'
    code = KILLED.format(path=str(path), question=question, size=size).replace('import Spec', 'import Spec\nfrom z80lit.tasks import benchmark')
    p = subprocess.Popen([sys.executable, '-c', code], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while p.poll() is None and not (path.exists() and path.stat().st_size > enough): time.sleep(0.002)
    p.send_signal(signal.SIGKILL)
    p.wait()
    assert path.exists(), 'too fast to be killed'
    with pytest.raises(SearchError, match='another search'): search('A -> A*5', checkpoint=path)
    done = json.loads(str(np.load(path)['meta']))
    assert done.get('place', [1, 0, 0]) != [0, 0, 0] and path.exists()
    again = read_certificate(subprocess.run([sys.executable, '-c', code], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout)
    whole = eval(f'search({question}, jobs=1)').certificate
    assert {k: getattr(again, k) for k in zs.SAME} == {k: getattr(whole, k) for k in zs.SAME} and not path.exists()

def test_memory_is_bounded(monkeypatch):
    "What is allocated stays near what is allowed, and the answer is the same"
    monkeypatch.setattr(zs, 'SHARD', 1 << 14)
    question = Spec('A -> (A>0) - 2*(A>127)', clobbers='BF'), ('bytes', 'tstates')
    want, peaks = search(*question, registers='AB', constants=[], jobs=1).certificate, []
    for limit in 1 << 20, 1 << 28:
        tracemalloc.start()
        c = search(*question, registers='AB', constants=[], jobs=1, max_memory=limit).certificate
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (c.status, c.value) == (want.status, want.value)
    assert peaks[0] < 8 << 20 < peaks[1]
    with pytest.raises(SearchError, match='max_memory'): search('A -> A*2', instructions='bytes', max_bytes=4, max_memory=1 << 20)

def test_nothing_to_do():
    "The empty program is a program"
    for line, how in ('A -> A', {}), ('HL -> HL', dict(objective='tstates')), ('A -> A', dict(objective='pareto', max_bytes=1)), ('A, B -> A', dict(instructions='bytes', max_bytes=1)), ('A in 0..9 -> A & 15', dict(max_bytes=0)):
        r = search(line, **how)
        assert r.program == b'' and r.optimal and r.verdicts[0].proved and check_certificate(r.certificate) == {}
    assert search('A -> A + 1', max_bytes=0).certificate.status == NOTHING

def test_full_states_give_what_hashes_give():
    c = search(**TEN, exact=True).certificate
    assert c.value == [5, 20] and c.comparison.startswith('exact') and 'symmetry' not in c.rules
    assert c.states == search(**TEN).certificate.states

def test_products_are_the_cheapest():
    "The search for all factors at once against a search for each"
    best, e, _ = zs.family(zs.BYTEWISE, 4, 2, jobs=1)
    stored = zs.family(zs.BYTEWISE, 4, 4, jobs=1)[0]
    assert {k: t for k, (t, _) in best.items()} == {k: t for k, (t, _) in stored.items()}
    for k in 2, 3, 5, 9, 128, 255, 11:
        c = search(Spec(f'A -> A*{k} & 0xFF', clobbers='BF'), ('bytes', 'tstates'), registers='AB', constants=[], instructions=zs.BYTEWISE, max_bytes=4).certificate
        assert (best[k][0] if k in best else None) == (c.value and c.value[1]), k

def test_broken_files(tmp_path):
    bad = tmp_path/'bad.npz'
    bad.write_bytes(b'PK no archive')
    with pytest.raises(SearchError, match='no checkpoint'): search('A -> A*5', checkpoint=bad)
    for text in '', '[]', '{}', '{"status": 1}':
        with pytest.raises(SearchError, match='no certificate'): check_certificate(text)

def test_one_job_or_many():
    one, two = (search(**TEN, jobs=n).certificate for n in (1, 2))
    assert {k: getattr(one, k) for k in zs.SAME} == {k: getattr(two, k) for k in zs.SAME}

def test_dask_cluster(monkeypatch):
    "A local cluster of two workers gives the same certificate"
    try: from dask import distributed
    except ImportError: missing('no dask.distributed: no search on a cluster')
    import joblib
    monkeypatch.setattr(zs, 'SHARD', 1 << 15)
    here = search(**TEN, jobs=2).certificate
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, distributed.Client(cluster):
        with joblib.parallel_config(backend='dask'): there = search(**TEN, jobs=2).certificate
    assert {k: getattr(here, k) for k in zs.SAME} == {k: getattr(there, k) for k in zs.SAME}
