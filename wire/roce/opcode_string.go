package roce

import "fmt"

var operationNames = [32]string{
	SendFirst: "SEND First", SendMiddle: "SEND Middle", SendLast: "SEND Last", SendLastImm: "SEND Last with Immediate",
	SendOnly: "SEND Only", SendOnlyImm: "SEND Only with Immediate",
	WriteFirst: "RDMA WRITE First", WriteMiddle: "RDMA WRITE Middle", WriteLast: "RDMA WRITE Last",
	WriteLastImm: "RDMA WRITE Last with Immediate", WriteOnly: "RDMA WRITE Only", WriteOnlyImm: "RDMA WRITE Only with Immediate",
	ReadRequest: "RDMA READ Request", ReadFirst: "RDMA READ response First", ReadMiddle: "RDMA READ response Middle",
	ReadLast: "RDMA READ response Last", ReadOnly: "RDMA READ response Only",
	Ack: "Acknowledge", AtomicAck: "ATOMIC Acknowledge", CompareSwap: "CmpSwap", FetchAdd: "FetchAdd",
	SendLastInv: "SEND Last with Invalidate", SendOnlyInv: "SEND Only with Invalidate",
	Nack: "Negative Acknowledge", ReadAck: "RDMA READ Acknowledge",
}

// String returns the name of the opcode in IBTA §9.2.1, such as "RC RDMA WRITE
// Only".
func (o Opcode) String() string {
	switch {
	case o == NotifyCongestion:
		return "CNP"
	case !o.IsValid():
		return fmt.Sprintf("opcode %#02x", uint8(o))
	}
	return o.Service().String() + " " + operationNames[o.Operation()]
}

// String returns the name of the service.
func (s Service) String() string {
	switch s {
	case RC:
		return "RC"
	case UC:
		return "UC"
	case UD:
		return "UD"
	case CNP:
		return "CNP"
	case XRC:
		return "XRC"
	case IRN:
		return "IRN"
	}
	return fmt.Sprintf("service %d", uint8(s))
}
