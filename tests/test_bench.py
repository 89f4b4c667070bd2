"""`z80lit bench emulator` in small: that it measures what it says, checks its competitors, and keeps a whole record."""
import json

import numpy as np
import pytest

from z80lit import bench
from z80lit.bench import MARKS, bench_emulator, bench_many, bench_one, check_marks, mixed_work, random_bodies, rows_of, run_z80lit, show_rows, speeds, three_instructions, zexdoc_work
from z80lit.record import read_run
from z80lit.emulator import Z80

COUNTS = {n: 30 for n in bench.SIZES}


def test_mixed_loop_ends_where_it_says():
    work = mixed_work(2)
    cpu = Z80(pc=work.start).load(work.memory)
    cpu.run(10**9)
    assert cpu.halted and (cpu.tstates, cpu.pc - 1) == (work.tstates, work.end) and work.memory[work.end] == 0x76
    seconds, memory = run_z80lit(work)
    assert seconds > 0 and memory == cpu.memory.tobytes()
    assert mixed_work(3).tstates > 1.4*work.tstates

def test_competitors_do_the_same_work():
    "skoolkit, which is never required, takes part where it is installed"
    runs, work = [bench.run_pypi_z80] + [bench.run_skoolkit]*bench.installed('skoolkit'), mixed_work(1)
    for seconds, memory in (run(work) for run in runs): assert seconds > 0 and memory == run_z80lit(work)[1]

def test_zexdoc_is_the_same_for_both(data_dir):
    "Also where it is cut off in the middle"
    work = zexdoc_work(data_dir/'zexdoc.com', 5_000_000)
    assert bench.run_pypi_z80(work)[1] == run_z80lit(work)[1] != work.memory

def test_wrong_competitor_is_found():
    with pytest.raises(RuntimeError, match='cheat leaves another memory than z80lit after loop'):
        speeds('loop', mixed_work(1), 1, {'z80lit': run_z80lit, 'cheat': lambda work: (1e-9, work.memory)})

def test_work_for_many_machines():
    a = three_instructions(1000)
    assert a.shape == (1000, 6) and len(set(a[:, 1].tolist())) > 200 and (np.delete(a, 1, axis=1) == [0x3E, 0x32, 0, 0x80, 0x76]).all()
    b = random_bodies(1000)
    assert b.shape == (1000, 12) and bytes(b[0, 8:]) == b'\x32\x00\x80\x76' and len(np.unique(b[:, :8], axis=0)) == 1000

def test_rows_and_marks():
    rows = rows_of('zexdoc', 'MT/s', {'z80lit': [2000, 3000, 100], 'z80': [500, 500, 500]}) + rows_of('import', 's CPU', {'z80lit': [0.5]})
    assert [r['median'] for r in rows] == [2000, 500, 0.5]
    assert [(m.workload, v, ok) for m, v, ok in check_marks(rows)] == [('zexdoc', 4.0, True), ('import', 0.5, False)]
    assert '4.0x' in show_rows(rows).splitlines()[1]
    assert {m.workload for m in MARKS} == {'zexdoc', 'mixed loop', 'three instructions', 'random bodies', '16 inputs a program', 'cold, with compilation', 'warm start to first result', 'import'}

def test_command(data_dir, tmp_path, capsys, monkeypatch):
    "Everything but the compilation, in small, with its record"
    monkeypatch.setattr(bench, 'bench_one', lambda zexdoc, rounds: bench_one(zexdoc, rounds, passes=1, tstates=1_000_000))
    monkeypatch.setattr(bench, 'bench_many', lambda rounds: bench_many(rounds, COUNTS))
    monkeypatch.setattr(bench, 'bench_start', lambda rounds: rows_of('import', 's CPU', bench.interleaved(rounds, {'z80lit': lambda: bench.import_time('z80lit')}, 'import')))
    assert bench_emulator(data_dir/'zexdoc.com', rounds=2, record=tmp_path/'run.jsonl') == 0
    out = capsys.readouterr().out
    assert 'zexdoc: z80lit / z80' in out and 'import: z80lit' in out
    header, rows, summary = read_run(tmp_path/'run.jsonl')
    assert header['config']['rounds'] == 2 and header['seed'] == 0 and set(header['machine']) - {'threads'} == {'cpu', 'cores', 'system'}   # threads: where torch was imported before
    assert all(len(r['values']) == 2 and r['median'] > 0 for r in rows)
    assert {r['who'] for r in rows if r['workload'] == 'three instructions'} == set(bench.WAYS)
    assert [m['workload'] for m in summary['marks']][0] == 'zexdoc' and json.dumps(summary)

def test_without_competitors(capsys, monkeypatch):
    monkeypatch.setattr(bench, 'installed', lambda package: print(f'{package} is not installed: left out'))
    assert {r['who'] for r in bench_one(None, 1, passes=1)} == {'z80lit'}
    assert {r['who'] for r in bench_many(1, COUNTS)} == {'run_batch', 'Z80 in a loop'}
    out = capsys.readouterr().out
    assert 'no zexdoc.com given: left out' in out and 'skoolkit is not installed: left out' in out

def test_start_in_a_new_process(tmp_path):
    "With the cache of this session's Python; what a compilation costs is measured by the command itself"
    wall, cpu = bench.child_times('sum(range(2_000_000))', tmp_path)
    assert 0 < cpu < 20 and wall > 0
    assert 0 < bench.import_time('z80lit') < 0.3

@pytest.mark.slow
def test_cold_start():
    rows = {(r['workload'], r['who']): r['median'] for r in bench.bench_start(1)}
    assert 1 < rows['cold, with compilation', 'Z80, first run'] < 60 and rows['warm start to first result', 'CPU'] < 3

def test_bad_arguments(tmp_path, capsys):
    assert bench_emulator(tmp_path/'zexdoc.com') == 2 and 'no such file' in capsys.readouterr().err
    assert bench_emulator(rounds=0) == 2 and 'at least 1' in capsys.readouterr().err
