; ADVENTURE
;
; A small text adventure: an engine that knows rooms, things and words, and
; after it the world, which is all data. A command has one or two words, such
; as NORTH or N, TAKE LAMP, OPEN DOOR; HELP lists the verbs. The game is won
; when the crown lies on the porch.

        include "cpm.inc"

carried equ 1                   ; the place of what the player has
nowhere equ 0
longest equ 40                  ; characters of a command

; The offsets in a room: two texts and six ways out, in the order of the verbs.

room_name equ 0
room_text equ 2
room_exits equ 4
exit_east equ room_exits + 2*2
exit_up equ room_exits + 2*4

; The offsets in a thing.

thing_place equ 0               ; the room that it is in, or carried, or nowhere
thing_word equ 2
thing_name equ 4
thing_text equ 6                ; what READ says, or 0
thing_fixed equ 8               ; can it not be taken?

; A room: its label, name and text, and where the six directions lead (0: nowhere).

room    macro label, name, text, north, south, east, west, up, down
label:  dw .name, .text, north, south, east, west, up, down
.name:  db name, "\r\n$"
.text:  db text, "\r\n$"
        endm

; A thing: its label, the word for it, its name, what it says, where it is and if it stays there.

thing   macro label, word, name, text, place, fixed
label:  dw place, .word, .name, text
        db fixed
.word:  db word, 0
.name:  db name, "$"
        endm

; Words for verbs. A verb is a word and the routine that obeys it.

verb    macro word, routine
        db word, 0
        dw routine
        endm

way     macro word, letter, routine
        verb word, routine
        verb letter, routine
        endm

        org tpa

start:  print welcome
        call look
.turn:  ld a,(over)
        or a
        jr nz,.end
        print prompt
        ld de,line
        ld c,c_line
        call bdos
        print crlf
        ld hl,(turns)
        inc hl
        ld (turns),hl
        call split
        call obey
        jr .turn
.end:   print after
        ld hl,(turns)
        call decimal
        print turns_text
        ret

; Cut the line into two words, in small letters, with a 0 behind each.

split:  ld hl,line + 1
        ld b,(hl)               ; how many characters
        inc hl
        ld de,first
        call .word
        ld de,second
.word:  ld c,longest
.blank: ld a,b
        or a
        jr z,.end
        ld a,(hl)
        cp ' '
        jr nz,.letter
        inc hl
        dec b
        jr .blank
.letter:
        ld a,b
        or a
        jr z,.end
        ld a,(hl)
        inc hl
        dec b
        cp ' ' + 1
        jr c,.end
        cp 'A'
        jr c,.store
        cp 'Z' + 1
        jr nc,.store
        add a,'a' - 'A'
.store: ld (de),a
        inc de
        dec c
        jr nz,.letter
.end:   xor a
        ld (de),a
        ret

; Find the verb in the list and do what it says, with IX at the thing that
; the second word names (0 if there is none of it in sight).

obey:   ld a,(first)
        or a
        jr nz,.find
        print pardon
        ret
.find:  ld hl,verbs
.next:  ld a,(hl)
        or a
        jr z,.unknown
        ld de,first
        call equal
        ld e,(hl)               ; the routine stands behind the word
        inc hl
        ld d,(hl)
        inc hl
        jr nz,.next
        push de                 ; RET below goes there
        call find_thing
        ret
.unknown:
        print unknown
        ret

; Zero flag: is the text at DE the one at HL? HL goes to what follows its 0.

equal:  ld a,(de)
        cp (hl)
        jr nz,.different
        inc hl
        inc de
        or a
        jr nz,equal
        ret                     ; both ended
.different:
        ld a,(hl)
        inc hl
        or a
        jr nz,.different
        inc a                   ; not zero
        ret

; IX = the thing with the second word that is here or carried; zero flag if none.

find_thing:
        ld hl,things
.next:  ld a,(hl)
        inc hl
        push hl
        ld h,(hl)
        ld l,a
        or h
        jr z,.none
        push hl
        pop ix
        ld l,(ix + thing_word)
        ld h,(ix + thing_word + 1)
        ld de,second
        call equal
        pop hl
        inc hl
        jr nz,.next
        push hl
        call in_sight
        pop hl
        jr nz,.next
        or 1                    ; not zero: found
        ret
.none:  pop hl
        ld ix,0
        xor a
        ret

; Zero flag: is the thing at IX carried or in this room?

in_sight:
        call is_carried
        ret z
is_here:
        ld l,(ix + thing_place)
        ld h,(ix + thing_place + 1)
        ld de,(here)
        or a
        sbc hl,de
        ret

is_carried:
        ld a,(ix + thing_place)
        dec a
        or (ix + thing_place + 1)
        ret

; Print the name of the thing at IX, the text at DE, or one of the room's.

say_name:
        ld e,(ix + thing_name)
        ld d,(ix + thing_name + 1)
say:    ld c,c_string
        jp bdos

say_room:                       ; BC = the offset
        ld hl,(here)
        add hl,bc
        ld e,(hl)
        inc hl
        ld d,(hl)
        jr say

; Zero flag: is it dark here? Only the cellar is, without the burning lamp.

is_dark:
        ld hl,(here)
        ld de,cellar
        or a
        sbc hl,de
        ret nz
        ld a,(burning)
        or a
        ret z
        ld ix,lamp
        call in_sight
        jr z,.light
        xor a                   ; it burns elsewhere
        ret
.light: or 1
        ret

; The verbs.

look:   call is_dark
        jr nz,.light
        print darkness
        ret
.light: ld bc,room_name
        call say_room
        ld bc,room_text
        call say_room
        ld hl,things
.next:  ld e,(hl)
        inc hl
        ld d,(hl)
        inc hl
        ld a,d
        or e
        ret z
        push de
        pop ix
        push hl
        call is_here
        jr nz,.not_here
        print there_is
        call say_name
        print stop
.not_here:
        pop hl
        jr .next

; Six routines that go in a direction: the number of the exit, then the same for all.

        rept 6, direction
        ld a,direction          ; entered at go + 4*direction
        jr go_on
        endr
go      equ $ - 6*4

go_on:  add a,a
        add a,room_exits
        ld c,a                  ; C = the offset of the exit
        cp exit_up
        jr z,.safe              ; up is safe, even in the dark
        push bc
        call is_dark
        pop bc
        jr nz,.safe
        print fall
        ld a,1
        ld (over),a
        ret
.safe:  ld b,0
        ld hl,(here)
        add hl,bc
        ld e,(hl)
        inc hl
        ld d,(hl)
        ld a,d
        or e
        jr nz,.open
        print no_way
        ret
.open:  ld (here),de
        jp look

take:   call wanted
        ret z
        call is_carried
        jr nz,.not_yet
        print already
        ret
.not_yet:
        ld a,(ix + thing_fixed)
        or a
        jr z,.free
        print too_heavy
        ret
.free:  call is_dark_here
        ret z
        ld (ix + thing_place),low carried
        ld (ix + thing_place + 1),high carried
        print taken
        ret

; Print that it is too dark, if it is: zero flag. Keeps IX.

is_dark_here:
        push ix
        call is_dark
        pop ix
        ret nz
        print darkness
        xor a
        ret

drop:   call wanted
        ret z
        call is_carried
        jr z,.have
        print not_carried
        ret
.have:  ld hl,(here)
        ld (ix + thing_place),l
        ld (ix + thing_place + 1),h
        print dropped
        ld a,(crown + thing_place)      ; is the crown on the porch?
        cp low porch
        ret nz
        ld a,(crown + thing_place + 1)
        cp high porch
        ret nz
        print won
        ld a,1
        ld (over),a
        ret

; Zero flag, and a complaint, if the second word names nothing in sight.

wanted: push ix
        pop hl
        ld a,h
        or l
        ret nz
        ld a,(second)
        or a
        jr nz,.unseen
        print what
        xor a
        ret
.unseen:
        print not_here
        xor a
        ret

inventory:
        print you_have
        ld hl,things
        ld b,0
.next:  ld e,(hl)
        inc hl
        ld d,(hl)
        inc hl
        ld a,d
        or e
        jr z,.end
        push de
        pop ix
        call is_carried
        jr nz,.next
        push hl
        push bc
        print indent
        call say_name
        print crlf
        pop bc
        pop hl
        inc b
        jr .next
.end:   ld a,b
        or a
        ret nz
        print nothing
        ret

open:   call wanted
        ret z
        push ix
        pop hl
        ld de,door
        or a
        sbc hl,de
        jr z,.door
        print cannot
        ret
.door:  call is_dark_here
        ret z
        ld hl,(cellar + exit_east)
        ld a,h
        or l
        jr z,.shut
        print is_open
        ret
.shut:  ld ix,key
        call is_carried
        jr z,.turn
        print locked
        ret
.turn:  ld hl,vault
        ld (cellar + exit_east),hl
        print opened
        ret

light:  call wanted
        ret z
        push ix
        pop hl
        ld de,lamp
        or a
        sbc hl,de
        jr z,.lamp
        print cannot
        ret
.lamp:  ld a,(burning)
        or a
        jr z,.dark
        print burns
        ret
.dark:  dec a
        ld (burning),a
        print lit
        ret

read:   call wanted
        ret z
        ld e,(ix + thing_text)
        ld d,(ix + thing_text + 1)
        ld a,d
        or e
        jp nz,say
        print no_text
        ret

help:   print help_text
        ret

quit:   ld a,1
        ld (over),a
        ret

; Print HL in decimal, as short as can be: its last digit after the ones before it.

decimal:
        ld b,16                 ; HL = HL/10, A = the remainder
        xor a
.bit:   add hl,hl
        rla
        cp 10
        jr c,.less
        sub 10
        inc l
.less:  djnz .bit
        push af
        ld a,h
        or l
        call nz,decimal
        pop af
        add a,'0'
        put
        ret

; The words.

verbs:  way "north", "n", go + 4*0
        way "south", "s", go + 4*1
        way "east", "e", go + 4*2
        way "west", "w", go + 4*3
        way "up", "u", go + 4*4
        way "down", "d", go + 4*5
        way "look", "l", look
        way "take", "get", take
        verb "drop", drop
        way "inventory", "i", inventory
        way "open", "unlock", open
        verb "light", light
        verb "read", read
        verb "help", help
        way "quit", "q", quit
        db 0

; The world.

        room porch, "On the porch", <"An old house, and nobody lives in it. The door to the north stands open;\r\n", "a path leads east.">, hall, 0, garden, 0, 0, 0
        room hall, "In the hall", "Doors lead east and west, and the porch is south. Stairs go up and down.", 0, porch, kitchen, study, attic, cellar
        room kitchen, "In the kitchen", "It smells of cold smoke. The hall is west.", 0, 0, 0, hall, 0, 0
        room study, "In the study", "Empty shelves up to the ceiling. The hall is east.", 0, 0, hall, 0, 0, 0
        room garden, "In the garden", "Weeds as high as a man. The porch is west.", 0, 0, 0, porch, 0, 0
        room attic, "In the attic", "Dust, and a window that looks out on nothing. The stairs go down.", 0, 0, 0, 0, 0, hall
        room cellar, "In the cellar", "Bare rock. There is a door on the east side; the stairs go up.", 0, 0, 0, 0, hall, 0
        room vault, "In the vault", "A round room without windows. The door is west.", 0, 0, 0, cellar, 0, 0

        thing lamp, "lamp", "a lamp", 0, kitchen, 0
        thing key, "key", "a rusty key", 0, garden, 0
        thing letter, "letter", "a letter", letter_text, study, 0
        thing crown, "crown", "a golden crown", 0, vault, 0
        thing door, "door", "an iron door", 0, cellar, 1
        thing stove, "stove", "a cold stove", 0, kitchen, 1

things: dw lamp, key, letter, crown, door, stove, 0

letter_text:
        db "It says: what you seek is behind iron. Bring it out to the porch.\r\n$"

; What the game says.

welcome: db "ADVENTURE. HELP lists what you can do.\r\n\n$"
prompt: db "\r\n> $"
crlf:   db "\r\n$"
stop:   db " is here.\r\n$"
there_is: db "There: $"
indent: db "  $"
nothing: db "  nothing\r\n$"
pardon: db "Well?\r\n$"
unknown: db "I do not know that word.\r\n$"
no_way: db "There is no way.\r\n$"
darkness: db "It is too dark to see anything. Stairs go up.\r\n$"
fall:   db "You fall over something in the dark, and that is the end.\r\n$"
already: db "You have it.\r\n$"
too_heavy: db "It does not move.\r\n$"
taken:  db "Taken.\r\n$"
dropped: db "Dropped.\r\n$"
not_carried: db "You do not have it.\r\n$"
not_here: db "I see nothing like that.\r\n$"
what:   db "What?\r\n$"
you_have: db "You have:\r\n$"
cannot: db "That is not possible.\r\n$"
is_open: db "It is open.\r\n$"
locked: db "It is locked, and you have no key.\r\n$"
opened: db "The key turns. The door opens.\r\n$"
lit:    db "The lamp burns.\r\n$"
burns:  db "It burns already.\r\n$"
no_text: db "There is nothing to read on it.\r\n$"
won:    db "The sun shines on the crown. You have won!\r\n$"
after:  db "That took $"
turns_text: db " turns.\r\n$"
help_text:
        db "NORTH SOUTH EAST WEST UP DOWN (or N S E W U D), LOOK, TAKE, DROP,\r\n"
        db "INVENTORY, OPEN, LIGHT, READ, HELP, QUIT.\r\n$"

; What changes.

here:   dw porch
turns:  dw 0
burning: db 0
over:   db 0
line:   db longest              ; the buffer for function 10: its room, then what was typed
        ds 1 + longest
first:  ds longest + 1
second: ds longest + 1
