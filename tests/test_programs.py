"Three whole programs, assembled from their files and run to their end under CP/M; what they print is held against Python."
import random, sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from z80lit.asm import assemble, assemble_source
from z80lit.cpm import run_com

folder = Path(__file__).resolve().parent.parent/'nbs'/'programs'
PROGRAMS = 'hexdump', 'sieve', 'adventure'

@cache
def program(name, **defines): return assemble_source(folder/f'{name}.asm', defines=defines)

def run(name, *args, end='end', **options):
    "What the program prints, without carriage returns"
    result = run_com(program(name).code, args, **options)
    assert result.stop == end, result
    return result.output.replace('\r', '')

@pytest.mark.parametrize('name', PROGRAMS)
def test_assembly_of_a_program(name):
    "At least 200 lines; the listing shows every line of both files and every byte; the symbol table defines the same names again"
    text, a = (folder/f'{name}.asm').read_text(), program(name)
    assert len(text.splitlines()) >= 200 and a.origin == 0x100
    for file, depth in ((folder/f'{name}.asm', 0), (folder/'cpm.inc', 1)):
        text, shown = file.read_text().split('\n'), [line for line in a.lines if line.file == file.as_posix()]
        assert {line.line for line in shown} == set(range(1, len(text) + 1))
        unexpanded = shown[:len(text)] if depth else [line for line in shown if line.depth == 0]
        assert all(line.text == text[line.line - 1] for line in unexpanded)
    assert b''.join(line.code for line in a.lines) == a.code and a.listing.count('\n') == len(a.lines)
    assert [line.address for line in a.lines if line.code] == [a.origin + sum(len(x.code) for x in a.lines[:i]) for i, line in enumerate(a.lines) if line.code]
    again = assemble_source(a.symbol_table)
    assert again.code == b'' and again.symbols == {name: value for name, value in a.symbols.items() if '#' not in name}

# HEXDUMP

def dump(data):
    "What HEXDUMP prints for a file with these bytes"
    data += b'\x1a'*(-len(data) % 128)
    out, before, starred = [], None, False
    for at in range(0, len(data), 16):
        row = data[at:at + 16]
        if row == before:
            if not starred: out.append('*')
            starred = True
            continue
        before, starred = row, False
        half = [' '.join(f'{b:02X}' for b in row[i:i + 8]) for i in (0, 8)]
        out.append(f"{at:06X}  {half[0]}  {half[1]}  |{''.join(chr(b) if 32 <= b < 127 else '.' for b in row)}|")
    return '\n'.join([*out, f'{len(data):06X}', f'{len(data)} bytes, their sum is {sum(data) & 0xFFFF:04X}h', ''])

@pytest.mark.parametrize('data', [b'', b'Hello, world!\r\n', bytes(range(256))*2, bytes(5000), b'x'*127, b'$'*128, random.Random(1).randbytes(3000),
                                  bytes(70_000) + b'end', random.Random(2).randbytes(200)*20], ids=lambda d: f'{len(d)} bytes')
def test_hexdump(tmp_path, data):
    (tmp_path/'A.BIN').write_bytes(data)
    assert run('hexdump', 'a.bin', folder=tmp_path) == dump(data)

@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([b'\0'*16, b'\xff'*16, bytes(range(16)), b'0123456789abcde~']), max_size=40))
def test_hexdump_of_lines(tmp_path_factory, lines):
    place = tmp_path_factory.mktemp('disk')
    (place/'L').write_bytes(b''.join(lines))
    assert run('hexdump', 'l', folder=place) == dump(b''.join(lines))

def test_hexdump_without_a_file(tmp_path):
    assert 'HEXDUMP FILE' in run('hexdump') and run('hexdump', 'none', folder=tmp_path) == 'There is no such file.\n'

# SIEVE

def sieve(bound):
    "What SIEVE prints for this bound"
    is_prime = bytearray([0, 0]) + b'\1'*(bound - 1)
    for p in range(2, int(bound**0.5) + 1):
        if is_prime[p]: is_prime[p*p::p] = bytes(len(is_prime[p*p::p]))
    found = [f'{p:6}' for p in range(bound + 1) if is_prime[p]]
    return '\n'.join([*(''.join(found[i:i + 10]) for i in range(0, len(found), 10)), f'{len(found):6} primes', ''])

@pytest.mark.parametrize('bound', [*range(2, 33), 120, 121, 122, 255, 256, 257, 1000, 65024, 65025, 65535])
def test_sieve(bound): assert run('sieve', str(bound)) == sieve(bound)

@settings(max_examples=10, deadline=None)
@given(st.integers(2, 65535))
def test_sieve_any_bound(bound): assert run('sieve', str(bound)) == sieve(bound)

def test_sieve_unless_told():
    assert run('sieve') == sieve(1000)
    assert run_com(program('sieve', bound_unless_given=50).code).output.replace('\r', '') == sieve(50)

@pytest.mark.parametrize('bound', ['0', '1', 'x', '-5', '12x', '65536', '99999', '655350', '100000000'])
def test_sieve_of_nonsense(bound): assert run('sieve', bound).startswith('SIEVE [BOUND]')

# ADVENTURE

WORDS = {letter: word for word in ('north', 'south', 'east', 'west', 'up', 'down', 'look', 'inventory', 'quit') for letter in word[0]} | {'get': 'take', 'unlock': 'open'}
WAYS = 'north south east west up down'.split()

class World:
    "The rules of the adventure, with the texts that the program has"
    def __init__(self):
        a = program('adventure')
        self.a, self.out = a, []
        self.text = lambda at: a.code[at - a.origin:].split(b'$', 1)[0].decode().replace('\r', '')
        word = lambda at: int.from_bytes(a.code[at - a.origin:][:2], 'little')
        at = {value: name for name, value in a.symbols.items()}
        self.exits = {r: {w: at[to] for k, w in enumerate(WAYS) if (to := word(a.symbols[r] + 4 + 2*k))}
                      for r in 'porch hall kitchen study garden attic cellar vault'.split()}
        self.things = {t: at[word(a.symbols[t])] for t in 'lamp key letter crown door stove'.split()}
        self.at, self.burning, self.over, self.turns = 'porch', False, False, 0
        self.pointed = lambda name, k: self.text(word(a.symbols[name] + k))
        self.say('welcome')
        self.look()

    def say(self, name): self.out.append(self.text(self.a.symbols[name]))
    def seen(self, thing): return self.things.get(thing) in (self.at, 'carried')
    def dark(self): return self.at == 'cellar' and not (self.burning and self.seen('lamp'))
    def too_dark(self):
        if self.dark(): self.say('darkness')
        return self.dark()

    def look(self, _=None):
        if self.too_dark(): return
        self.out += [self.pointed(self.at, 0), self.pointed(self.at, 2)]
        self.out += [f'There: {self.pointed(t, 4)} is here.\n' for t, place in self.things.items() if place == self.at]

    def go(self, way):
        if way != 'up' and self.dark():
            self.say('fall')
            self.over = True
            return
        if way not in self.exits[self.at]: return self.say('no_way')
        self.at = self.exits[self.at][way]
        self.look()

    def take(self, thing):
        if self.things[thing] == 'carried': self.say('already')
        elif thing in ('door', 'stove'): self.say('too_heavy')
        elif not self.too_dark():
            self.things[thing] = 'carried'
            self.say('taken')

    def drop(self, thing):
        if self.things[thing] != 'carried': return self.say('not_carried')
        self.things[thing] = self.at
        self.say('dropped')
        if self.things['crown'] == 'porch':
            self.say('won')
            self.over = True

    def open(self, thing):
        if thing != 'door': return self.say('cannot')
        if self.too_dark(): return
        if 'east' in self.exits['cellar']: self.say('is_open')
        elif self.things['key'] != 'carried': self.say('locked')
        else:
            self.exits['cellar']['east'] = 'vault'
            self.say('opened')

    def light(self, thing):
        self.say('cannot' if thing != 'lamp' else 'burns' if self.burning else 'lit')
        self.burning |= thing == 'lamp'

    def read(self, thing): self.say('letter_text' if thing == 'letter' else 'no_text')
    def help(self, _): self.say('help_text')
    def quit(self, _): self.over = True
    def inventory(self, _):
        have = [f'  {self.pointed(t, 4)}\n' for t, place in self.things.items() if place == 'carried']
        self.out += ['You have:\n', *(have or ['  nothing\n'])]

    def obey(self, line):
        "One turn, with the echo of what was typed"
        self.turns += 1
        self.out.append(f'\n> {line}\n')
        verb, thing = (*line.lower().split(), '', '')[:2]
        verb = WORDS.get(verb, verb)
        if not verb: self.say('pardon')
        elif verb in WAYS: self.go(verb)
        elif verb not in 'look take drop inventory open light read help quit'.split(): self.say('unknown')
        elif verb in ('take', 'drop', 'open', 'light', 'read') and not self.seen(thing): self.say('not_here' if thing else 'what')
        else: getattr(self, verb)(thing)

    def play(self, lines):
        for line in lines:
            self.obey(line)
            if self.over: return ''.join([*self.out, f'That took {self.turns} turns.\n'])

WIN = 'n;e;take lamp;light lamp;w;s;e;GET Key;w;n;w;take letter;read letter;e;d;unlock door;e;take crown;i;w;u;s;drop crown'.split(';')

def test_adventure_is_won():
    told = run('adventure', stdin='\n'.join(WIN) + '\n')
    assert told == World().play(WIN)
    assert told.startswith('ADVENTURE. HELP lists what you can do.\n\nOn the porch\nAn old house, and nobody lives in it.')
    assert told.endswith('> drop crown\nDropped.\nThe sun shines on the crown. You have won!\nThat took 23 turns.\n')

def test_adventure_with_random_players():
    "Games of those who wander about, who nearly know the way, who run into the dark"
    rng, endings = random.Random(0), []
    lines = [*WAYS, *'nsewud', *(f'{v} {t}' for v in ('take', 'drop', 'open', 'light', 'read', 'get') for t in ('lamp', 'key', 'letter', 'crown', 'door', 'stove', '', 'moon')),
             *'look l i help xyzzy north-east'.split(), '', '   ', '  TAKE   LAMP  now', 'I', 'NORTH']
    for k in range(120):
        game = [[], [w for w in WIN if k % 2 or rng.random() < 0.9], ['n', 'd', 'e']][k % 3]
        for _ in range(rng.randrange(8 if game else 60)): game.insert(rng.randrange(len(game) + 1), rng.choice(lines))
        game.append(rng.choice(['q', 'quit', 'QUIT now']))
        told = run('adventure', stdin='\n'.join(game) + '\n')
        assert told == World().play(game), game
        endings.append('won' if 'You have won' in told else 'fell' if 'that is the end' in told else 'quit')
    assert {e: endings.count(e) > 5 for e in ('won', 'fell', 'quit')} == dict(won=True, fell=True, quit=True)

def test_adventure_ends_with_its_input(): assert 'On the porch' in run('adventure', stdin='look\n', end='input')
