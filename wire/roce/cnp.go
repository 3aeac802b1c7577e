package roce

// CNPReservedLen is the number of reserved bytes after the BTH of a CNP.
const CNPReservedLen = 16

// CNPReserved stands for the reserved bytes of a CNP (IBTA A17.9.3): they are sent
// as 0 and ignored on receipt.
type CNPReserved struct{}

// Decode returns ErrShort if b is shorter than CNPReservedLen.
func (*CNPReserved) Decode(b []byte) error {
	if len(b) < CNPReservedLen {
		return ErrShort
	}
	return nil
}

// EncodeTo writes the bytes.
func (*CNPReserved) EncodeTo(b []byte) { clear(b[:CNPReservedLen]) }

func (*CNPReserved) extensionBit() Extension { return ExtCNP }

// CNPHeader returns the BTH of the CNP that asks a queue pair to slow down. qp
// is the number of the queue pair at the sender of the marked packets, which gets
// the CNP. The PSN is 0.
func CNPHeader(qp uint32) BTH {
	return BTH{Opcode: NotifyCongestion, PKey: DefaultPKey, BECN: true, DestQP: qp}
}
