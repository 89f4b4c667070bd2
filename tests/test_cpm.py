"The CP/M console: each call of the BDOS made by a program on the emulator, the folder that nothing leaves, and what Ctrl-C and a kill leave behind."
import io, json, os, signal, subprocess, sys, time
from itertools import islice
from random import Random

import pytest

from z80lit import cpm
from z80lit.asm import assemble
from z80lit.cpm import CALLS, Disk, Keys, System, file_block, run_com, served
from z80lit.emulator import Z80

FCB, DMA = 0x3000, 0x4000

class Program:
    "A program that calls the BDOS over and over; we set the registers before each call and look at what came of it"
    def __init__(self, **options):
        self.s = System(assemble('again: CALL 5 : JR again', origin=0x100), **options)
        self.calls = served(self.s)
        self.s.dma = DMA

    def __call__(self, number, de=FCB):
        self.s.cpu.c, self.s.cpu.de = number, de
        assert next(self.calls) == number
        assert (self.s.cpu.l, self.s.cpu.h) == (self.s.cpu.a, self.s.cpu.b)
        return self.s.cpu.a

    def refused(self, number, de=FCB):
        "The message with which the program is ended"
        self.s.cpu.c, self.s.cpu.de = number, de
        assert list(self.calls) == [] and self.s.end[0] == 'refused'
        return self.s.end[1]

    def name(self, name, at=FCB): self.s.poke(at, file_block(name) + bytes(20))
    def renaming(self, old, new): self.s.poke(FCB, file_block(old) + file_block(new) + bytes(4))
    def block(self, k, n=1): return int.from_bytes(self.s.peek(FCB + k, n), 'little')
    def set(self, k, *values): self.s.poke(FCB + k, values)
    def record(self, data): self.s.poke(DMA, data.ljust(128, b'\0'))
    def transferred(self): return self.s.peek(DMA, 128)
    def printed(self): return self.s.out.getvalue()

@pytest.fixture
def disk(tmp_path):
    "A folder with a text of 300 bytes and an empty file"
    (tmp_path/'song.txt').write_bytes(b'la '*100)
    (tmp_path/'EMPTY.DAT').write_bytes(b'')
    return tmp_path

def files(folder): return {p.name: p.read_bytes() for p in folder.iterdir()}


# The program and its surroundings

def test_page_zero():
    "Jumps at 0000h and 0005h, free memory up to the BDOS, a stack from which RET ends the program"
    s = System(b'', ['one.txt', 'b:two.dat', 'three'])
    assert s.peek(0, 3) == b'\xc3\x03\xff' and s.peek(5, 3) == b'\xc3\x06\xfe'
    assert s.peek(0x80, 26) == b'\x18 ONE.TXT B:TWO.DAT THREE\0'
    assert s.peek(0x5C, 12) == b'\0ONE     TXT' and s.peek(0x6C, 12) == b'\2TWO     DAT'
    assert s.peek(s.cpu.sp, 2) == b'\0\0' and s.cpu.sp < 0xFE00 and s.cpu.pc == 0x100

@pytest.mark.parametrize('word, block', [('', b'\0           '), ('a', b'\0A          '), ('name.typ', b'\0NAME    TYP'), ('c:x.y', b'\3X       Y  '), ('*.*', b'\0???????????'), ('ab*.c?m', b'\0AB??????C?M'),
                                         ('muchtoolong.text', b'\0MUCHTOOLTEX'), ('b:', b'\2           '), ('/etc/passwd', b'\0/ETC/PASSWD'), ('..', b'\0..         '), ('a.b.c', b'\0A.B.C      ')])
def test_file_blocks(word, block): assert file_block(word)[:12] == block

def test_equals_sign_separates_names():
    s = System(b'', ['new.txt=old.txt'])
    assert s.peek(0x5C, 12) == b'\0NEW     TXT' and s.peek(0x6C, 12) == b'\0OLD     TXT'

@pytest.mark.parametrize('options, words', [(dict(code=bytes(0xFD01)), '64,769 bytes do not fit'), (dict(code=b'', args=['x'*127]), '128 characters'), (dict(code=b'', args=['a\nb']), "no character '\\n'"),
                                            (dict(code=b'', args=['é']), 'no character'), (dict(code=b'', folder='nowhere'), 'nowhere: no such folder')], ids=str)
def test_what_does_not_fit(options, words):
    with pytest.raises(ValueError) as e: run_com(**options)
    assert words in str(e.value)

@pytest.mark.parametrize('source', ['RET', 'JP 0', 'RST 0', 'LD C,0 : CALL 5', 'LD C,0 : JP 5', 'LD HL,(1) : JP (HL)', 'LD SP,9000h : JP 0'])
def test_ways_to_end(source): assert run_com(assemble(source, origin=0x100))[:3] == ('end', '', '')

def test_largest_program(): assert run_com(b'\xc9' + bytes(cpm.ROOM - 1)).stop == 'end'

def test_stops(): 
    assert run_com(assemble('JR $'), limit=1000)[:2] == ('limit', 'stopped after 1,008 T-states, at 0100h')
    assert run_com(assemble('NOP : HALT'))[:2] == ('halt', 'the program halts at 0101h')
    assert run_com(b'\xc9', limit=0).stop == 'limit'

def test_a_call_costs_the_doors():
    "CALL 17, JP 10, HALT 4, RET 10; then RET 10, JP 10, HALT 4"
    assert run_com(assemble('LD C,12 : CALL 5 : RET')).tstates == 7 + 41 + 24

@pytest.mark.parametrize('number', [3, 4, 5, 7, 8, 27, 28, 29, 30, 31, 32, 37, 38, 39, 41, 100, 255])
def test_other_calls_give_zero(number): assert Program()(number) == 0 and number not in CALLS

def test_version_and_drives():
    p = Program()
    assert p(12) == 0x22 and p(24) == 1 and p(25) == 0 and p(14, 0) == 0 and p(13) == 0
    assert 'drive B: there is only A' in p.refused(14, 1)

def test_bios_console():
    "Status, input without echo, output, and an entry that does nothing"
    code = assemble('''LD HL,(1) : LD DE,9 : ADD HL,DE : LD (send+1),HL : LD DE,0FFFDh : ADD HL,DE : LD (get+1),HL : ADD HL,DE : LD (status+1),HL
        status: CALL 0 : INC A : JR NZ,bad
        get: CALL 0 : INC A : LD C,A
        send: CALL 0 : RET
        bad: HALT''', origin=0x100)
    assert run_com(code, stdin='a')[:3] == ('end', '', 'b')


# The console

def test_key_and_echo():
    p = Program(stdin='a\t\n\x02')
    assert [p(1) for _ in range(4)] == [97, 9, 13, 2] and p.printed() == b'a       \r'
    assert p(1) == 0x1A
    p.s.cpu.c = 1
    assert list(p.calls) == [] and p.s.end[0] == 'input'

def test_print_expands_tabs():
    p = Program()
    for c in b'ab\tc\r\td\x08\t': p(2, c)
    assert p.printed() == b'ab      c\r        d\x08        '

def test_direct_console():
    p = Program(stdin='x')
    assert p(6, 0xFE) == 0xFF and p(6, 0xFF) == ord('x') and p(6, 0xFF) == 0 and p(6, 0xFE) == 0
    assert p(6, 9) == 0 and p.printed() == b'\t'

def test_text_ends_at_a_dollar_and_wraps():
    p = Program()
    p.s.poke(0xFFFE, b'abc$')
    p(9, 0xFFFE)
    assert p.printed() == b'abc'

def test_status():
    p = Program(stdin='k')
    assert p(11) == 0xFF and p(1) == ord('k') and p(11) == 0

@pytest.mark.parametrize('typed, line, shown', [
    ('abc\n', b'abc', b'abc\r'), ('abc\r\nd', b'abc', b'abc\r'), ('\n', b'', b'\r'), ('abc', b'abc', b'abc\r'), ('abx\x7fc\n', b'abc', b'abx\x08 \x08c\r'), ('\x08a\n', b'a', b'a\r'),
    ('ab\x15c\n', b'c', b'ab\x08 \x08\x08 \x08c\r'), ('ab\x18\n', b'', b'ab\x08 \x08\x08 \x08\r'), ('ab\x12c\n', b'abc', b'ab\r\nabc\r'), ('ab\x05c\n', b'abc', b'ab\r\nc\r'),
    ('a\x03\n', b'a\x03', b'a^C\r'), ('0123456789', b'01234567', b'01234567\r')], ids=repr)
def test_line(typed, line, shown):
    p = Program(stdin=typed)
    p.s.poke(DMA, [8, 99])
    p(10, DMA)
    assert p.s.peek(DMA, 2 + len(line)) == bytes([8, len(line)]) + line and p.printed() == shown

def test_two_lines_from_one_pipe():
    p = Program(stdin=io.BytesIO(b'one\r\ntwo\r\n'))
    for line in b'one', b'two':
        p.s.poke(DMA, [8])
        p(10, DMA)
        assert p.s.peek(DMA + 1, 4) == b'\3' + line

def test_control_c_on_an_empty_line_ends():
    p = Program(stdin='\x03')
    p.s.cpu.c, p.s.cpu.de = 10, DMA
    p.s.poke(DMA, [8])
    assert list(p.calls) == [0] and p.s.end[0] == 'end'

def test_keys_from_a_pipe():
    "Whether a key is there, and a Return that is split between two reads"
    r, w = os.pipe()
    with open(r, 'rb', buffering=0) as stream:
        keys = Keys(stream)
        assert not keys.ready()
        os.write(w, b'a\r')
        assert keys.ready() and [keys.next(), keys.next()] == [97, 13] and not keys.ready()
        os.write(w, b'\nb')
        assert keys.next() == 98
        os.close(w)
        assert not keys.ready() and keys.next() is None

def test_output_is_streamed():
    "Each call's text is there when the call has been served"
    class Seen(io.BytesIO):
        flushed = b''
        def flush(self): self.flushed = self.getvalue()
    out = Seen()
    p = Program(stdout=out)
    p(2, 65)
    assert out.flushed == b'A'
    p(2, 66)
    assert out.flushed == b'AB'


# Files

def test_open_and_read_to_the_end(disk):
    p = Program(folder=disk)
    p.name('SONG.TXT')
    assert p(15) == 0 and p.block(15) == 3
    got = []
    while p(20) == 0: got.append(p.transferred())
    assert b''.join(got) == b'la '*100 + b'\x1a'*84 and p.block(32) == 3 and p(16) == 0
    assert files(disk) == {'song.txt': b'la '*100, 'EMPTY.DAT': b''}

@pytest.mark.parametrize('name, a', [('EMPTY.DAT', 0), ('NONE.TXT', 0xFF), ('SONG', 0xFF), ('S?NG.*', 0), ('X?.*', 0xFF), ('', 0xFF)])
def test_open(disk, name, a):
    p = Program(folder=disk)
    p.name(name)
    assert p(15) == a
    if '?' in name and not a: assert p.s.peek(FCB + 1, 11) == b'SONG    TXT'

def test_open_of_a_later_extent(tmp_path):
    (tmp_path/'BIG').write_bytes(bytes(200*128))
    p = Program(folder=tmp_path)
    for extent, a, records in (0, 0, 128), (1, 0, 72), (2, 0xFF, None):
        p.name('BIG')
        p.set(12, extent)
        assert p(15) == a and (a or p.block(15) == records)

def test_empty_file_reads_nothing(disk):
    p = Program(folder=disk)
    p.name('EMPTY.DAT')
    assert p(15) == 0 and p(20) == 1 and p(33) == 1

def test_make_write_close(disk):
    p = Program(folder=disk)
    p.name('NEW.TXT')
    assert p(22) == 0
    for k in range(130):
        p.record(b'%d' % k)
        assert p(21) == 0
    assert (p.block(12), p.block(32), p.block(15)) == (1, 2, 2) and 'NEW.TXT' not in files(disk)
    assert p(16) == 0
    data = files(disk)['NEW.TXT']
    assert len(data) == 130*128 and all(data[128*k:].startswith(b'%d\0' % k) for k in range(130))

@pytest.mark.parametrize('name, a', [('SONG.TXT', 0xFF), ('N?W', 0xFF), ('', 0xFF), ('NEW', 0)])
def test_make(disk, name, a):
    p = Program(folder=disk)
    p.name(name)
    assert p(22) == a and p(16) == (0 if name in ('SONG.TXT', 'NEW') or '?' in name and a == 0 else 0xFF)
    assert files(disk)['song.txt'] == b'la '*100 and ('NEW' in files(disk)) == (name == 'NEW')

def test_overwriting_keeps_the_rest_and_the_rights(disk):
    (disk/'song.txt').chmod(0o640)
    p = Program(folder=disk)
    p.name('SONG.TXT')
    p(15)
    p.set(32, 1)
    p.record(b'X'*128)
    assert p(21) == 0 and p(16) == 0
    assert files(disk)['song.txt'] == (b'la '*100)[:128] + b'X'*128 + (b'la '*100)[256:] + b'\x1a'*84
    assert (disk/'song.txt').stat().st_mode & 0o777 == 0o640

def test_write_without_make(disk):
    p = Program(folder=disk)
    p.name('NEW.TXT')
    assert p(21) == 0xFF and p(20) == 1 and p(16) == 0xFF

def test_end_stores_what_is_open(tmp_path):
    "But only the program's own end does"
    source = 'LD DE,5Ch : LD C,22 : CALL 5 : LD DE,5Ch : LD C,21 : CALL 5 : '
    for end, kept in ('JP 0', True), ('HALT', False), ('JR $', False), ('LD A,9 : LD (5Ch),A : LD C,15 : LD DE,5Ch : CALL 5', False):
        run_com(assemble(source + end, origin=0x100), ['X.DAT'], tmp_path, limit=10_000)
        assert list(files(tmp_path)) == ['X.DAT']*kept
        for p in tmp_path.iterdir(): p.unlink()

def test_random(disk):
    p = Program(folder=disk)
    p.name('NEW.DAT')
    p(22)
    p.set(33, 0x05, 0x01, 0)                        # record 261
    p.record(b'far')
    assert p(34) == 0 and (p.block(12), p.block(32)) == (2, 5)
    assert p(21) == 0 and p(33) == 0                # the sequential write falls on the same record
    assert p.transferred().startswith(b'far')
    for r, a in (0, 0), (260, 0), (262, 1), (383, 1), (384, 4), (1000, 4), (65535, 4), (65536, 6):
        p.set(33, r & 255, r >> 8 & 255, r >> 16)
        assert p(33) == a, r
    p.set(33, 0, 0, 1)
    assert p(34) == 6 and p(40) == 6
    p.set(33, 6, 1, 0)
    p.record(b'far')
    assert p(40) == 0 and p(16) == 0
    assert files(disk)['NEW.DAT'] == bytes(261*128) + b'far'.ljust(128, b'\0')*2

def test_random_then_sequential(disk):
    p = Program(folder=disk)
    p.name('SONG.TXT')
    p(15)
    p.set(33, 1, 0, 0)
    assert p(33) == 0 and p.block(32) == 1
    first = p.transferred()
    assert p(20) == 0 and p.transferred() == first and p.block(32) == 2

def test_size_and_place(disk):
    p = Program(folder=disk)
    p.name('SONG.TXT')
    assert p(35) == 0 and p.block(33, 3) == 3
    p.set(12, 3)
    p.set(32, 7)
    p(36)
    assert p.block(33, 3) == 3*128 + 7
    p.name('NONE')
    assert p(35) == 0xFF

def test_last_record(tmp_path):
    "The largest file has 65,536 records, of which the sequential calls know, too"
    p = Program(folder=tmp_path)
    p.name('HUGE')
    p(22)
    p.set(33, 0xFF, 0xFF, 0)
    assert p(34) == 0 and (p.block(14), p.block(12), p.block(32)) == (15, 31, 127)
    assert p(21) == 0 and p(21) == 2 and p(20) == 1
    assert p(35) == 0 and p.block(33, 3) == 65536

def test_file_that_is_too_large(tmp_path):
    with open(tmp_path/'BIG.DAT', 'wb') as f: f.truncate(8*1024*1024 + 1)
    p = Program(folder=tmp_path)
    p.name('BIG.DAT')
    assert p(35) == 0 and p.block(33, 3) == 65536
    assert 'BIG.DAT: more than the 8 MiB' in p.refused(20)

def found(p, number=17):
    "Names, extents and sizes of all entries that a search gives"
    out = []
    while (a := p(number)) != 0xFF:
        e = p.transferred()[32*a:32*a + 32]
        out.append((e[1:9].decode().strip(), e[9:12].decode().strip(), e[12], e[15]))
        number = 18
    return out

def test_search(disk):
    (disk/'big.dat').write_bytes(bytes(300*128))
    (disk/'sub.dir').mkdir()
    (disk/'.hidden').write_text('')
    (disk/'no blank.x').write_text('')
    p = Program(folder=disk)
    for pattern, extent, names in [('*.*', 0, ['BIG', 'EMPTY', 'SONG']), ('*.DAT', 0, ['BIG', 'EMPTY']), ('S*.*', 0, ['SONG']), ('SONG.TXT', 0, ['SONG']), ('*.X', 0, []), ('BIG.DAT', 63, ['BIG']*3), ('*.*', 1, ['BIG'])]:
        p.name(pattern)
        p.set(12, extent)
        assert [f[0] for f in found(p)] == names, pattern
    p.name('BIG.DAT')
    p.set(12, 63)
    assert found(p) == [('BIG', 'DAT', 0, 128), ('BIG', 'DAT', 1, 128), ('BIG', 'DAT', 2, 44)]
    p.name('NOTHING')
    p.set(0, 63)
    assert [f[0] for f in found(p)] == ['BIG']*3 + ['EMPTY', 'SONG'] and p(18) == 0xFF

def test_search_sees_what_is_being_written(disk):
    p = Program(folder=disk)
    p.name('NEW.TXT')
    p(22)
    p(21)
    assert found(p) == [('NEW', 'TXT', 0, 1)]

def test_transfer_address(disk):
    p = Program(folder=disk)
    p.name('SONG.TXT')
    p(26, 0xFF80)
    assert p(20) == 0 and p.s.peek(0xFF80, 128) == (b'la '*100)[:128]
    p(13)
    assert p.s.dma == 0x80

def test_delete(disk):
    for n in 'abc': (disk/f'{n}.tmp').write_text(n)
    p = Program(folder=disk)
    p.name('*.TMP')
    assert p(19) == 0 and p(19) == 0xFF and set(files(disk)) == {'song.txt', 'EMPTY.DAT'}
    p.name('NEW')
    p(22)
    assert p(19) == 0 and p(16) == 0xFF and p(15) == 0xFF

def test_wildcard_delete_stays_in_the_folder(disk):
    outside = disk/'deep'
    outside.mkdir()
    (outside/'KEEP.TXT').write_text('keep')
    (disk/'LINK.TXT').symlink_to(outside/'KEEP.TXT')
    p = Program(folder=disk)
    p.name('*.*')
    assert p(19) == 0
    assert (outside/'KEEP.TXT').read_text() == 'keep' and (disk/'LINK.TXT').is_symlink() and {p.name for p in disk.iterdir()} == {'deep', 'LINK.TXT'}

def test_rename(disk):
    p = Program(folder=disk)
    for old, new, a in [('SONG.TXT', 'TUNE.TXT', 0), ('SONG.TXT', 'X.TXT', 0xFF), ('TUNE.TXT', 'EMPTY.DAT', 0xFF), ('TUNE.TXT', '*.BAK', 0xFF), ('T*.TXT', 'A.B', 0xFF), ('TUNE.TXT', '', 0xFF)]:
        p.renaming(old, new)
        assert p(23) == a, (old, new)
    assert files(disk) == {'TUNE.TXT': b'la '*100, 'EMPTY.DAT': b''}

def test_rename_of_what_is_being_written(disk):
    p = Program(folder=disk)
    p.name('A.$$$')
    p(22)
    p.record(b'new')
    p(21)
    p.renaming('A.$$$', 'B.TXT')
    assert p(23) == 0
    p.name('B.TXT')
    assert p(16) == 0 and files(disk)['B.TXT'].startswith(b'new') and len(files(disk)) == 3


# Nothing outside

BAD_NAMES = [b'\0../X       ', b'\0/ETC    HOS', b'\0A\\B        ', b'\0..         ', b'\0A       /.. ', b'\0A B        ', b'\0\0\0\0\0\0\0\0\0\0\0\0', b'\0NUL\x01    TXT', b'\2SONG    TXT', b'\x10SONG    TXT', b'\xffSONG    TXT', b'\0*       TXT', b'\0SONG    T:T']

@pytest.mark.parametrize('number', [15, 16, 17, 19, 20, 21, 22, 23, 33, 34, 35, 40])
@pytest.mark.parametrize('raw', BAD_NAMES, ids=repr)
def test_bad_names_are_refused(disk, raw, number):
    before = files(disk)
    p = Program(folder=disk)
    p.s.poke(FCB, raw + bytes(24))
    message = p.refused(number)
    assert message.startswith(f'call {number} at 0100h: ') and ('there is only A' in message or 'is not the name of a file in the folder' in message)
    assert files(disk) == before

@pytest.mark.parametrize('raw', [b'\0../Y       ', b'\0/           '], ids=repr)
def test_bad_new_names_are_refused(disk, raw):
    p = Program(folder=disk)
    p.renaming('SONG.TXT', 'X')
    p.s.poke(FCB + 16, raw)
    assert 'is not the name of a file' in p.refused(23) and 'song.txt' in files(disk)

@pytest.mark.parametrize('folder', [True, False])
@pytest.mark.parametrize('number, a', [(15, 0xFF), (16, 0xFF), (17, 0xFF), (19, 0xFF), (20, 1), (21, 0xFF), (22, 0xFF), (23, 0xFF), (33, 1), (34, 0xFF), (35, 0xFF), (40, 0xFF)])
def test_a_blank_name_is_no_file(disk, number, a, folder):
    "Nor can a file be renamed to it"
    before, p = files(disk), Program(folder=disk if folder else None)
    p.s.poke(FCB, (b'\0' + b' '*11 + bytes(4))*2 + bytes(4))
    assert p(number) == a
    p.renaming('SONG.TXT', '')
    assert p(23) == 0xFF and files(disk) == before

@pytest.mark.parametrize('kind', ['link', 'dangling', 'folder', 'fifo', 'link to a folder'])
@pytest.mark.parametrize('number', [15, 16, 19, 20, 21, 22, 33, 34, 35])
def test_only_plain_files(tmp_path, kind, number):
    "Neither read nor written nor listed, wherever it leads"
    inside, secret = tmp_path/'disk', tmp_path/'secret.txt'
    inside.mkdir()
    secret.write_text('secret')
    at = inside/'way.txt'
    {'link': lambda: at.symlink_to(secret), 'dangling': lambda: at.symlink_to(tmp_path/'new.txt'), 'folder': at.mkdir, 'fifo': lambda: os.mkfifo(at), 'link to a folder': lambda: at.symlink_to(tmp_path)}[kind]()
    p = Program(folder=inside)
    p.name('*.*')
    assert found(p) == []
    p.name('WAY.TXT')
    assert 'way.txt: a link, a folder or a device' in p.refused(number)
    assert secret.read_text() == 'secret' and {q.name for q in tmp_path.iterdir()} == {'disk', 'secret.txt'} and [q.name for q in inside.iterdir()] == ['way.txt']

def test_rename_onto_a_link(disk):
    (disk/'way.txt').symlink_to(disk/'nowhere')
    p = Program(folder=disk)
    p.renaming('SONG.TXT', 'WAY.TXT')
    assert 'a link' in p.refused(23) and 'song.txt' in files_but(disk, 'way.txt')

def files_but(folder, *names): return {p.name for p in folder.iterdir()} - set(names)

def test_link_put_there_after_the_look(disk, monkeypatch):
    "The host is told not to follow a link, should one appear between the check and the opening"
    secret = disk/'secret long name'
    secret.write_text('secret')
    path = disk/'song.txt'
    path.unlink()
    path.symlink_to(secret)
    monkeypatch.setattr(cpm, '_plain_file', lambda path: True)
    p = Program(folder=disk)
    p.name('SONG.TXT')
    assert 'song.txt' in p.refused(20)

@pytest.mark.parametrize('number, a', [(15, None), (22, None), (35, None), (17, 0xFF), (20, 1), (21, 0xFF)])
def test_no_folder(number, a):
    p = Program()
    p.name('A.TXT')
    if a is None: assert 'A.TXT: the program was given no folder' in p.refused(number)
    else: assert p(number) == a

@pytest.mark.parametrize('number', [19, 21, 22])
def test_names_in_either_case_are_one(tmp_path, number):
    (tmp_path/'Read.Me').write_bytes(b'x'*128)
    p = Program(folder=tmp_path)
    p.name('READ.ME')
    assert p(15) == 0
    a = p(number)
    p(16)
    assert a == (0xFF if number == 22 else 0) and list(files(tmp_path)) == ['Read.Me']*(number != 19)

def test_of_two_cases_the_capitals(tmp_path):
    (tmp_path/'a.txt').write_text('small')
    (tmp_path/'A.TXT').write_text('capital')
    if len(files(tmp_path)) == 2: assert Disk(tmp_path).data('A.TXT').startswith(b'capital') and Disk(tmp_path).names() == ['A.TXT']


# Protected files, full disks, interruptions

@pytest.mark.parametrize('number', [19, 21, 23, 34])
def test_protected_files(disk, monkeypatch, number):
    monkeypatch.setattr(os, 'access', lambda path, mode: not (mode == os.W_OK and path.name == 'song.txt'))   # root may write anything
    p = Program(folder=disk)
    p.renaming('SONG.TXT', 'X.TXT')
    assert 'song.txt: protected against writing' in p.refused(number) and files(disk)['song.txt'] == b'la '*100

@pytest.mark.parametrize('end', [False, True], ids=['close', 'end'])
def test_full_disk(disk, monkeypatch, end):
    "The old file stays, nothing else does, and the program hears of it"
    real = cpm.Path.write_bytes
    def full(path, data):
        real(path, data[:100])
        raise OSError(28, 'No space left on device')
    monkeypatch.setattr(cpm.Path, 'write_bytes', full)
    p = Program(folder=disk)
    p.name('SONG.TXT')
    p(15)
    p(21)
    assert 'SONG.TXT: No space left on device' in p.refused(0 if end else 16)
    assert files(disk) == {'song.txt': b'la '*100, 'EMPTY.DAT': b''}

WRITER = '''
loop:   LD DE,5Ch : LD C,19 : CALL 5
        LD HL,counter : INC (HL) : LD A,(HL)
        LD HL,80h : LD B,128
fill:   LD (HL),A : INC HL : DJNZ fill
        XOR A : LD (7Ch),A : LD (68h),A
        LD DE,5Ch : LD C,22 : CALL 5
        LD A,(times) : LD B,A
write:  PUSH BC : LD DE,5Ch : LD C,21 : CALL 5 : POP BC : DJNZ write
        LD DE,5Ch : LD C,16 : CALL 5
        LD DE,dot : LD C,9 : CALL 5
        JR loop
dot:    DB 'written', 10, '$'
times:  DB 40
counter: DB 0'''

def child(folder, source, *args, **options):
    "The command in a process of its own, on a program that is written for it"
    (folder/'prog.com').write_bytes(assemble(source, origin=0x100))
    (folder/'disk').mkdir()
    code = 'from z80lit.cli import main; main()'
    return subprocess.Popen([sys.executable, '-c', code, 'run', '--folder', str(folder/'disk'), str(folder/'prog.com'), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

def whole(folder):
    "Is the file in the folder one of the versions that the program closed?"
    for p in (folder/'disk').iterdir():
        if p.name[0] == '.': continue
        data = p.read_bytes()
        if len(data) != 40*128 or len(set(data)) != 1: return False
    return True

def interrupted(process):
    "Ctrl-C: the message comes within a second (that Python then takes its time to leave is not ours), and the usual status"
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    message = process.stderr.readline()
    waited = time.monotonic() - start
    _, rest = process.communicate(timeout=60)
    return waited < 1 and b'stopped by Ctrl-C' in message and rest == b'' and process.returncode == 130

def test_control_c(tmp_path):
    "A file that is being written is whole"
    process = child(tmp_path, WRITER, 'out.dat')
    for _ in range(20): assert process.stdout.readline() == b'written\n'
    assert interrupted(process)
    assert whole(tmp_path) and [p.name for p in (tmp_path/'disk').iterdir()] in (['OUT.DAT'], [])

@pytest.mark.parametrize('source', ['LD C,9 : LD DE,text : CALL 5 : JR $\ntext: DB "ready", 10, "$"', 'LD C,9 : LD DE,text : CALL 5 : LD C,1 : CALL 5 : JP 0\ntext: DB "ready", 10, "$"'], ids=['computes', 'waits for a key'])
def test_control_c_at_any_time(tmp_path, source):
    process = child(tmp_path, source)
    assert process.stdout.readline() == b'ready\n'
    assert interrupted(process)

def test_kill(tmp_path):
    "What a kill leaves under the file's name was closed by the program"
    process = child(tmp_path, WRITER, 'out.dat')
    for _ in range(10): process.stdout.readline()
    process.kill()
    process.communicate()
    assert whole(tmp_path)


# Programs of others

def test_first_groups_of_zexdoc(data_dir):
    "Under the console: what it prints, and the clock at each call, but for what our doors cost"
    points = json.loads((data_dir/'zex_checkpoints.json').read_text())['zexdoc']
    s = System((data_dir/'zexdoc.com').read_bytes())
    got = [(f, s.cpu.tstates - 14 - 3*k, s.cpu.instructions - 2 - k) for k, f in enumerate(islice(served(s), 9))]
    assert got == [tuple(p) for p in points[:9]]
    lines = s.out.getvalue().decode().splitlines()
    assert lines[0] == 'Z80doc instruction exerciser' and [l.split()[-1] for l in lines[1:] if l] == ['OK']*4

def test_prelim(data_dir): assert run_com((data_dir/'prelim.com').read_bytes())[:3] == ('end', '', 'Preliminary tests complete')

def test_speed_is_the_cores(data_dir):
    "The console's own work is a few per cent of a run that computes"
    code = assemble('LD B,0 : outer: LD HL,0 : inner: DEC HL : LD A,H : OR L : JR NZ,inner : PUSH BC : LD E,42 : LD C,2 : CALL 5 : POP BC : DJNZ outer : RET', origin=0x100)
    start = time.process_time()
    r = run_com(code)
    spent = time.process_time() - start
    start = time.process_time()
    Z80(pc=0x100, sp=0xF000).load(code, 0x100).load([0xC9], 5).load([0x76], 0).run(10**9)
    assert r.output == '*'*256 and spent < 1.5*(time.process_time() - start) + 0.1

@pytest.mark.parametrize('seed', range(20))
def test_wild_programs(disk, seed):
    "Random calls with random blocks: each is served or ends the program, and nothing outside the folder changes"
    random, inside = Random(seed), disk/'inside'
    inside.mkdir()
    (inside/'A.TXT').write_bytes(b'a'*1000)
    (inside/'LINK').symlink_to(disk/'song.txt')
    outside = {p: p.read_bytes() for p in disk.iterdir() if p.is_file()}
    letters = b'ABLINKT.?*/\\ x\0\x80'
    for _ in range(30):
        p = Program(folder=inside, stdin='some text\n'*3)
        for _ in range(60):
            if random.random() < 0.5: raw = bytes([random.choice(b'\0\0\0\1\2?')]) + bytes(random.choice(letters) for _ in range(11))
            else: raw = file_block(random.choice(['a.txt', 'b.txt', 'new', '*.*', 'link', 'c.?x?']))[:12]
            p.s.poke(FCB, raw + bytes(random.choice([0, 0, 0, 1, 31, 128, 255]) for _ in range(24)))
            p.s.cpu.c, p.s.cpu.de = random.choice([1, 2, 6, 9, 10, 11, *range(12, 41), 0, 255]), random.choice([FCB, FCB, FCB, FCB + 16, random.randrange(0x2000, 0xF000)])
            if next(p.calls, 0) == 0: break
    assert {q: q.read_bytes() for q in disk.iterdir() if q.is_file()} == outside
    assert all(cpm.NAME.fullmatch(q.name) for q in inside.iterdir()) and (inside/'LINK').is_symlink()
