#include "textflag.h"

// func lines(p unsafe.Pointer, n uintptr)
TEXT ·lines(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ n+8(FP), CX
	ADDQ AX, CX
	ANDQ $~63, AX

next:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	CMPQ AX, CX
	JB   next
	RET

// func ranges(r *Range, n uintptr)
TEXT ·ranges(SB), NOSPLIT, $0-16
	MOVQ r+0(FP), DX
	MOVQ n+8(FP), BX

range:
	MOVQ (DX), AX
	MOVQ 8(DX), CX
	ADDQ AX, CX
	ANDQ $~63, AX

next:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	CMPQ AX, CX
	JB   next
	ADDQ $16, DX
	DECQ BX
	JNZ  range
	RET
