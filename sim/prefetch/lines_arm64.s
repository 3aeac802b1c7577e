#include "textflag.h"

// func lines(p unsafe.Pointer, n uintptr)
TEXT ·lines(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD n+8(FP), R1
	ADD  R0, R1
	AND  $~63, R0

next:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	CMP  R1, R0
	BLO  next
	RET

// func ranges(r *Range, n uintptr)
TEXT ·ranges(SB), NOSPLIT, $0-16
	MOVD r+0(FP), R2
	MOVD n+8(FP), R3

range:
	MOVD 0(R2), R0
	MOVD 8(R2), R1
	ADD  R0, R1
	AND  $~63, R0

next:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	CMP  R1, R0
	BLO  next
	ADD  $16, R2
	SUB  $1, R3
	CBNZ R3, range
	RET
