; SIEVE [BOUND]
;
; Prints the prime numbers up to a bound, ten on a line, and how many there
; are. The bound is a number from 2 to 65535; without one it is 1000.
;
; This is the sieve of Eratosthenes with one byte for each odd number: the
; byte with index i stands for 2*i + 1. Striking out begins with the square
; of a prime, and the step from one odd multiple of p to the next is p
; indexes. 65535 takes 32768 bytes, which fit below the system.

        include "cpm.inc"

columns equ 10                  ; primes on a line
field   equ 6                   ; characters for each

        ifndef bound_unless_given
bound_unless_given equ 1000
        endif

        org tpa

start:  call argument           ; HL = the bound
        jr nc,.sieve
        print usage
        ret
.sieve: ld (bound),hl
        call clear
        call strike
        call list
        ret

; The bound from the command line into HL; carry when it is none.

argument:
        ld hl,tail
        ld b,(hl)
        inc hl
.blank: ld a,b                  ; pass over blanks
        or a
        jr z,.none
        ld a,(hl)
        cp ' '
        jr nz,.number
        inc hl
        dec b
        jr .blank
.none:  ld hl,bound_unless_given
        or a
        ret
.number:
        ex de,hl
        ld hl,0
.digit: ld a,(de)
        inc de
        sub '0'
        ret c
        cp 10
        ccf
        ret c
        call times10
        ret c
        add a,l
        ld l,a
        jr nc,.no_carry
        inc h
        scf
        ret z
.no_carry:
        djnz .digit
        ld a,h                  ; less than 2?
        or a
        ret nz
        ld a,l
        cp 2
        ret

; HL = 10*HL; carry when it does not fit. Keeps A, B and DE.

times10:
        push de
        ld d,h
        ld e,l
        rept 2                  ; 4 times
        add hl,hl
        jr c,.done
        endr
        add hl,de               ; 5 times
        jr c,.done
        add hl,hl
.done:  pop de
        ret

; Set the byte of each odd number up to the bound. The sieve holds
; (bound + 1)/2 of them; index 0 stands for 1, which is no prime.

clear:  ld hl,(bound)
        srl h
        rr l
        jr nc,.even
        inc hl                  ; an odd bound counts itself
.even:  ld (size),hl
        ld bc,sieve
        add hl,bc
        ld (sieve_end),hl
        ld hl,(size)
        ld b,h
        ld c,l
        ld hl,sieve
        ld (hl),0
        dec bc
        ld a,b
        or c
        ret z                   ; there is only the 1
        inc hl
        ld (hl),1
        dec bc
        ld a,b
        or c
        ret z
        ld d,h
        ld e,l
        inc de
        ldir
        ret

; Strike out the odd multiples of 3, 5, 7 ..., from the square on.

strike: ld c,3                  ; the number
.number:
        ld a,c
        call square             ; HL = its square
        ret c
        ex de,hl
        ld hl,(bound)
        or a
        sbc hl,de
        ret c                   ; above the bound, and so are the rest
        ld b,0                  ; is it a prime?
        ld hl,sieve
        ld a,c
        rra                     ; carry is clear: its index
        ld e,a
        ld d,0
        add hl,de
        ld a,(hl)
        or a
        jr z,.next
        push bc
        ld a,c
        call square
        srl h                   ; the index of the square
        rr l
        ld de,sieve
        add hl,de
        ld de,(sieve_end)
        ld b,0                  ; BC = the step
.multiple:
        or a                    ; up to the end?
        sbc hl,de
        jr nc,.struck
        add hl,de
        ld (hl),0
        add hl,bc
        jr nc,.multiple         ; beyond the memory is beyond the end
.struck:
        pop bc
.next:  inc c
        inc c
        jr nz,.number
        ret

; HL = A*A, for an odd A. Carry for 1: the numbers have gone round.

square: cp 1
        scf
        ret z
        ld e,a
        ld d,0
        ld hl,0
        rept 8, doublings
        if doublings > 0
        add hl,hl
        endif
        rla                     ; the next bit of A, the highest first
        jr nc,.skip
        add hl,de
.skip:
        endr
        or a
        ret

; Print what is left, and how much it is.

list:   ld hl,0
        ld (count),hl
        ld a,columns
        ld (room),a
        ld hl,2                 ; the one that is even
        call show
        ld de,sieve
        ld hl,1                 ; DE = a byte, HL = its number
.number:
        push hl
        ld hl,(sieve_end)
        or a
        sbc hl,de
        pop hl
        jr z,.done
        ld a,(de)
        or a
        call nz,show
        inc de
        inc hl
        inc hl
        jr .number
.done:  ld a,(room)
        cp columns
        call nz,new_line
        ld hl,(count)
        call decimal
        print primes
        ret

; Print the prime HL in its field. Keeps HL and DE.

show:   push hl
        push de
        ld de,(count)
        inc de
        ld (count),de
        call decimal
        ld hl,room
        dec (hl)
        call z,new_line
        pop de
        pop hl
        ret

new_line:
        ld a,columns
        ld (room),a
        print crlf
        ret

; Print HL as a number in a field, blanks in front.

decimal:
        ld ix,powers
        ld c,' '                ; what to print for a zero
        ld b,field - 5
.pad:   ld a,' '
        put
        djnz .pad
.power: ld e,(ix+0)
        ld d,(ix+1)
        inc ix
        inc ix
        ld a,'0' - 1
.take:  inc a
        or a
        sbc hl,de
        jr nc,.take
        add hl,de
        cp '0'
        jr nz,.digit
        bit 0,e                 ; the power 1 is the only odd one: units are always shown
        jr nz,.show
        ld a,c
        jr .show
.digit: ld c,'0'                ; zeros from now on
.show:  put
        bit 0,e
        jr z,.power
        ret

powers: dw 10000, 1000, 100, 10, 1

usage:  db "SIEVE [BOUND] prints the primes up to a bound from 2 to 65535.\r\n$"
primes: db " primes"
crlf:   db "\r\n$"

bound:  ds 2
size:   ds 2                    ; how many odd numbers there are
sieve_end: ds 2                 ; the address after the last
count:  ds 2
room:   ds 1                    ; how many go on this line

sieve:                          ; from here on
