"The instruction table against recorded facts, and the disassembler."
import json, re, subprocess, sys
from itertools import accumulate, combinations, product
from pathlib import Path

import numpy as np
import pytest

from z80lit.isa import disassemble, encode, table

PREFIXES = ['', 'CB', 'ED', 'DD', 'FD', 'DDCB', 'FDCB']
ENTRIES = [op for prefix in PREFIXES for op in table(prefix) if op.mnemonic != 'prefix']
CANONICAL = [op for op in ENTRIES if op.canonical]

def entry(stem):
    "The table's entry for a file stem such as 'dd cb __ 06'"
    *prefix, opcode = stem.upper().replace('__', '').split()
    return table(''.join(prefix))[int(opcode, 16)]

# The table

def test_tstates_of_all_stems(data_dir):
    "Every T-state count that 1,604,000 recorded cases show"
    stems = json.loads((data_dir/'tstates.json').read_text())
    assert len(stems) == 1604
    assert {s: {entry(s).t, entry(s).t_taken} for s in stems} == {s: set(t) for s, t in stems.items()}

def test_mcycles_of_all_stems(data_dir):
    "The accesses on the recorded bus begin M-cycles of the table, and only idle M-cycles have none"
    with np.load(data_dir/'sst_z80_dev50.npz') as z: stems, fileno = str(z['files']).split('\n'), z['fileno']
    with np.load(data_dir/'sst_z80_dev50_trace.npz') as z: ends, pins = np.cumsum(z['t'].astype(int)), z['pins']
    for k, end in enumerate(ends):
        op, trace = entry(stems[fileno[k]]), pins[ends[k-1] if k else 0:end]
        mcycles = op.mcycles_taken if len(trace) == op.t_taken else op.mcycles
        begins = [0, *accumulate(map(int, mcycles))][:-1]
        seen = [t - (2 if trace[t] >= 3 else 1) for t in np.flatnonzero(trace)]  # ports answer a T-state later than memory
        assert set(seen) <= set(begins), (op, seen)
        idle = [int(m) for m, b in zip(mcycles, begins) if b not in seen]
        assert idle in ([], [4], [5], [4, 3], [5, 5]), (op, seen)

def test_encodings_are_complete():
    "Each entry's bytes are its prefix, its opcode and placeholders, and no two canonical entries share a text"
    assert len({op.text for op in CANONICAL}) == len(CANONICAL)
    for op in ENTRIES:
        fixed = bytes(part for part in op.encoding if isinstance(part, int))
        assert fixed == bytes.fromhex(op.prefix) + bytes([op.opcode])
        assert op.size == len(encode(op)) and len(op.kinds) == len(op.operands)

def test_ignored_prefix():
    for prefix, op in product(('DD', 'FD'), table()):
        if op.mnemonic == 'prefix': continue
        indexed = table(prefix)[op.opcode]
        assert indexed.ignored_prefix == (indexed.text == op.text)
        if indexed.ignored_prefix: assert (indexed.size, indexed.t, indexed.t_taken) == (op.size + 1, op.t + 4, op.t_taken + 4)

def test_table_is_a_copy():
    table().clear()
    assert len(table()) == 256
    with pytest.raises(ValueError, match="'dd'"): table('dd')

# The maps in the chapter

def maps():
    "The pictures in the chapter: of each its cell's source and its SVG"
    cells = json.loads((Path(__file__).resolve().parent.parent/'nbs'/'00_isa.ipynb').read_text())['cells']
    return [(''.join(c['source']), ''.join(o['data']['image/svg+xml'])) for c in cells for o in c.get('outputs', []) if 'image/svg+xml' in o.get('data', {})]

@pytest.mark.parametrize('number, prefix', list(enumerate(['', 'CB', 'ED', 'DD', 'FD', 'DDCB', 'FDCB'])))
def test_opcode_map(number, prefix):
    "One for each page, with every entry's text and T-states in its square; small, labelled and described"
    source, svg = maps()[number]
    assert f"opcode_map('{prefix}')" in source and re.search('fig-alt: "A?.{40,}"', source) and '| label: fig-' in source and len(svg) <= 60 * 1024
    squares = {(x, y): re.findall('>([^<]+)<', whole) for whole, x, y in re.findall(r'(<text x="(\d+)" y="(\d+)">.*?</text>)', svg)}
    for op in table(prefix):
        words = [op.mnemonic, ','.join(op.operands)] if len(op.text) > 11 else [op.text]
        at = str(56 + 60*(op.opcode & 15)), str(34 + 36*(op.opcode >> 4) + 21 - 5*len(words))
        assert squares[at] == [*words, f'{op.t}/{op.t_taken}' if op.t != op.t_taken else str(op.t)]

SEEN_BY = {'everybody': np.eye(3),   # linear RGB as seen with each kind of colour blindness (Machado, Oliveira, Fernandes 2009)
           'protanopes': np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
           'deuteranopes': np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
           'tritanopes': np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]])}

def linear(colour):
    v = np.array([int(colour[i:i + 2], 16) for i in (1, 3, 5)])/255
    return np.where(v <= 0.04045, v/12.92, ((v + 0.055)/1.055)**2.4)

def lab(rgb):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ rgb.clip(0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787*xyz + 16/116)
    return np.array([116*y - 16, 500*(x - y), 200*(y - z)])

@pytest.mark.parametrize('eyes', SEEN_BY)
def test_colours_stay_apart(eyes):
    "Black writing has contrast on all of them, and no two groups look alike; white and the two greys differ by their place and writing"
    colours = {c for _, svg in maps() for c in re.findall('<path fill="(#.{6})"', svg)}
    assert len(colours) == 10 and min((linear(c) @ [0.2126, 0.7152, 0.0722] + 0.05)/0.05 for c in colours) > 7
    seen = {c: lab(SEEN_BY[eyes] @ linear(c)) for c in colours}
    assert min(np.linalg.norm(seen[a] - seen[b]) for a, b in combinations(colours - {'#ffffff', '#f6f6f6'}, 2)) > 10

# The disassembler

def test_relative_jumps_wrap():
    code = bytes([0x18, 0x80, 0x10, 0x7F])
    listing = disassemble(code)
    assert [str(i) for i in listing] == ['JR 0FF82h', 'DJNZ 0083h']

def test_disassemble_takes_arrays():
    code = [0x3E, 0x08, 0x76]
    for given in (bytes(code), bytearray(code), memoryview(bytes(code)), code, tuple(code), np.array(code, np.uint8), np.array(code, np.int64)):
        assert [str(i) for i in disassemble(given)] == ['LD A,08h', 'HALT']
    assert disassemble(b'') == [] and repr(disassemble(b'')) == ''
    assert disassemble(np.array(code, np.uint8), np.uint16(0x8000))[1].address == 0x8002

def test_addresses_wrap():
    assert [i.address for i in disassemble(b'\0\0\0', 0xFFFE)] == [0xFFFE, 0xFFFF, 0]

@pytest.mark.parametrize('code, text, t', [
    ('dd', 'DB 0DDh', 0), ('dd dd', 'DB 0DDh', 4), ('dd ed 44', 'DB 0DDh', 4), ('ed', 'DB 0EDh', 0), ('21 00', 'DB 21h,00h', 0),
    ('dd cb 01', 'DB 0DDh,0CBh,01h', 0), ('ed 00', 'DB 0EDh,00h', 8), ('ed dd', 'DB 0EDh,0DDh', 8), ('cb 37', 'SLL A', 8)])
def test_oddities(code, text, t):
    first = disassemble(bytes.fromhex(code))[0]
    assert (first.text, first.t) == (text, t)

def test_needs_only_the_standard_library():
    out = subprocess.run([sys.executable, '-c', 'import sys, z80lit.isa; print({"numpy", "numba", "torch", "matplotlib"} & sys.modules.keys())'], capture_output=True, text=True)
    assert out.stdout.strip() == 'set()', out
