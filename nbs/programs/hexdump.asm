; HEXDUMP FILE
;
; Prints a file as hexadecimal numbers and as text, sixteen bytes on a line:
;
;   000000  48 65 6C 6C 6F 2C 20 77  6F 72 6C 64 21 0D 0A 1A  |Hello, world!...|
;
; A line that repeats the one before it is left out, and a star stands for
; all that were left out together. The last two lines are the address after
; the end, and how many bytes there were and their sum modulo 65,536.
;
; CP/M keeps files in records of 128 bytes, so that is what is shown.

        include "cpm.inc"

width   equ 16                  ; bytes on a line
half    equ width/2             ; where there is a wider gap

        if record % width
        db "the lines do not fill a record"     ; never assembled
        endif

; Add a constant to the 24 bits at an address.

add24   macro place, number
        local done
        ld hl,(place)
        ld de,number
        add hl,de
        ld (place),hl
        jr nc,done
        ld hl,place + 2
        inc (hl)
done:
        endm

; The 24 bits of a number.

long    macro number
        db low (number), high (number), number >> 16
        endm

        org tpa

start:  ld a,(fcb.name)
        cp ' '                  ; blanks where the name should be
        jr nz,.named
        print usage
        ret
.named: system f_open, fcb
        inc a                   ; 0FFh: there is no such file
        jr nz,.found
        print missing
        ret
.found: xor a
        ld (fcb.cr),a

.record:
        system f_read, fcb
        or a
        jr nz,finish            ; that was the last one
        ld hl,dma
        ld b,record/width
.line:  push bc
        call line
        pop bc
        djnz .line
        jr .record

; The end: the address, the number of bytes and their sum.

finish: call new_text
        call address
        call end_line
        call new_text
        call decimal
        ld hl,bytes_text
        call copy
        ld a,(sum + 1)
        call hex
        ld a,(sum)
        call hex
        ld a,'h'
        ld (ix+0),a
        inc ix
        call end_line
        ret

; Show the 16 bytes at HL, or a star, or nothing; HL goes on to the next.

line:   call add_up
        call same
        jr z,.repeated
        xor a
        ld (starred),a
        push hl
        call show
        pop hl
        jr .next
.repeated:
        ld a,(starred)
        or a
        jr nz,.next
        dec a
        ld (starred),a
        call new_text
        ld (ix+0),'*'
        inc ix
        push hl
        call end_line
        pop hl
.next:  ld de,before            ; remember this line
        ld bc,width
        ldir
        push hl
        add24 place, width
        pop hl
        ret

; Add the 16 bytes at HL to the sum. Keeps HL.

add_up: push hl
        ld de,(sum)
        ld b,width
.byte:  ld a,(hl)
        inc hl
        add a,e
        ld e,a
        jr nc,.low
        inc d
.low:   djnz .byte
        ld (sum),de
        pop hl
        ret

; Zero flag: are the 16 bytes at HL those of the line before? Keeps HL.

same:   ld a,(started)
        or a
        jr nz,.compare
        dec a                   ; there is none before the first; not zero
        ld (started),a
        ret
.compare:
        push hl
        ld de,before
        ld b,width
.byte:  ld a,(de)
        cp (hl)
        jr nz,.done
        inc hl
        inc de
        djnz .byte
.done:  pop hl
        ret

; Show the 16 bytes at HL.

show:   call new_text
        call address
        ld (ix+0),' '
        inc ix
        push hl
        ld b,width
.number:
        ld a,b
        cp width - half
        call z,blank
        call blank
        ld a,(hl)
        inc hl
        call hex
        djnz .number
        call blank
        call blank
        call bar
        pop hl
        ld b,width
.character:
        ld a,(hl)
        inc hl
        cp ' '
        jr c,.dot
        cp 7Fh
        jr c,.plain
.dot:   ld a,'.'
.plain: ld (ix+0),a
        inc ix
        djnz .character
        call bar
        jp end_line

; The text of a line is made in a buffer; IX is the place after it.

new_text:
        ld ix,buffer
        ret

blank:  ld (ix),' '
        inc ix
        ret

bar:    ld (ix),'|'
        inc ix
        ret

copy:   ld a,(hl)               ; the text at HL, up to a 0
        or a
        ret z
        ld (ix),a
        inc ix
        inc hl
        jr copy

; The place in the file, as six digits.

address:
        ld a,(place + 2)
        call hex
        ld a,(place + 1)
        call hex
        ld a,(place)

; A as two hexadecimal digits. ADD, DAA, ADC, DAA makes 0-9 and A-F of 0-15.

hex:    push af
        rept 4
        rrca
        endr
        call .digit
        pop af
.digit: and 0Fh
        add a,90h
        daa
        adc a,40h
        daa
        ld (ix),a
        inc ix
        ret

; The place in decimal, without zeros in front: for each power of ten, how
; often can it be taken away?

decimal:
        ld hl,powers
        ld c,0                  ; no digit yet
.power: ld de,difference        ; a copy of the power
        push bc
        ld bc,3
        ldir
        pop bc
        push hl
        ld b,'0' - 1
.take:  inc b
        call minus
        jr nc,.take
        call plus               ; once too often
        pop hl
        ld a,b
        cp '0'
        jr nz,.show
        ld a,c                  ; a zero: in front, or within?
        or a
        jr z,.next
.show:  ld (ix),b
        inc ix
        inc c
.next:  ld a,low powers.end     ; the table is shorter than a page
        cp l
        jr nz,.power
        ld a,(place)            ; units are left
        add a,'0'
        ld (ix),a
        inc ix
        ret

; Take the difference from the place, or add it; carry when it did not fit.

each24  macro operation
        ld hl,place
        ld de,difference
        or a
        rept 3
        ld a,(hl)
        ex de,hl
        operation a,(hl)
        ex de,hl
        ld (hl),a
        inc hl
        inc de
        endr
        ret
        endm

minus:  each24 sbc
plus:   each24 adc

; Print the text that was made, and end the line.

end_line:
        ld (ix),cr
        ld (ix+1),lf
        ld (ix+2),0
        ld hl,buffer
.next:  ld a,(hl)
        inc hl
        or a
        ret z
        put
        jr .next

; Texts and numbers.

usage:  db "HEXDUMP FILE shows a file as hexadecimal numbers.\r\n$"
missing:
        db "There is no such file.\r\n$"
bytes_text:
        db " bytes, their sum is ", 0

powers: long 1000000
        long 100000
        long 10000
        long 1000
        long 100
        long 10
.end:

place:  ds 3                    ; 24 bits: a file can have 8 MiB
sum:    ds 2
started: ds 1
starred: ds 1
before: ds width
difference: ds 3
buffer: ds 80
