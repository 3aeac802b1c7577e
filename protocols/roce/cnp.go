package roce

// CNPReservedLen is how many reserved bytes follow the BTH of a CNP.
const CNPReservedLen = 16

// CNPReserved stands for the reserved bytes of a CNP (IBTA A17.9.3): they are
// sent as 0 and not looked at.
type CNPReserved struct{}

// Decode gives ErrShort when b does not hold the bytes.
func (*CNPReserved) Decode(b []byte) error {
	if len(b) < CNPReservedLen {
		return ErrShort
	}
	return nil
}

// Put writes the bytes.
func (*CNPReserved) Put(b []byte) { clear(b[:CNPReservedLen]) }

func (*CNPReserved) extension() Extension { return ExtCNP }

// Notification is the BTH of the CNP that asks a queue pair to slow down: qp is
// the number that the queue pair has at the sender of the marked packets, to
// whom the CNP goes. Its PSN is 0.
func Notification(qp uint32) BTH {
	return BTH{Opcode: NotifyCongestion, PKey: DefaultPKey, BECN: true, DestQP: qp}
}
