package qp

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu/memory"
)

// Limits are the limits of a device, as reported by ibv_query_device(3) and ibv_query_port(3).
type Limits struct {
	MRSize uint64 // max_mr_size, bytes
	MR     int    // max_mr
	MW     int    // max_mw
	PD     int    // max_pd

	CQ  int // max_cq
	CQE int // max_cqe, entries of a queue

	QP           int // max_qp
	QPWR         int // max_qp_wr, work requests of a queue
	SGE          int // max_sge, elements of a list
	Inline       int // bytes; not an attribute of the device
	QPRdAtom     int // max_qp_rd_atom: READs and atomics that a peer may have outstanding, 0 to 255
	QPInitRdAtom int // max_qp_init_rd_atom: those that a queue pair may have outstanding, 0 to 255
	NoAtomics    bool

	SRQ       int  // max_srq
	SRQWR     int  // max_srq_wr, work requests of a queue
	SRQSGE    int  // max_srq_sge, elements of a list
	SRQResize bool // IBV_DEVICE_SRQ_RESIZE

	AH                 int // max_ah
	McastGroups        int // max_mcast_grp
	McastQPAttach      int // max_mcast_qp_attach, queue pairs of a group
	McastQPAttachTotal int // max_total_mcast_qp_attach

	Ports     int // phys_port_cnt, 1 to 255
	PKeys     int // pkey_tbl_len of a port, 1 to 65536
	GIDs      int // gid_tbl_len of a port, 1 to 256
	ActiveMTU MTU // active_mtu of the ports: the largest that the Ethernet MTU has room for
}

// ConnectX5 returns the limits of a ConnectX-5 in Ethernet mode, from published outputs of
// ibv_devinfo -v. MRSize to QPInitRdAtom, except MW and Inline, are from a ConnectX-5 with firmware
// 16 (open-mpi/ompi#6137). MW, the limits of shared receive queues, address handles and multicast
// groups, PKeys and GIDs are from ConnectX-6 Lx, a sister with the same driver (openucx/ucx#10317).
// Two are ours: ActiveMTU is that of an Ethernet MTU of 1500 bytes, and Inline is well within the 1
// KiB of a send WQE.
func ConnectX5() Limits {
	return Limits{
		MRSize: 1<<64 - 1, MR: 1 << 24, MW: 1 << 24, PD: 1 << 24,
		CQ: 1 << 24, CQE: 1<<22 - 1,
		QP: 1 << 18, QPWR: 1 << 15, SGE: 30, Inline: 512, QPRdAtom: 16, QPInitRdAtom: 16,
		SRQ: 1 << 23, SRQWR: 1<<15 - 1, SRQSGE: 31,
		AH: 1<<31 - 1, McastGroups: 1 << 21, McastQPAttach: 240, McastQPAttachTotal: 503316480,
		Ports: 1, PKeys: 1, GIDs: 255, ActiveMTU: MTU1024,
	}
}

// Check returns an error if a limit is invalid.
func (l *Limits) Check() error {
	for _, c := range []struct {
		name           string
		value, lo, top int
	}{
		{"max_mr", l.MR, 1, 1 << 24}, {"max_mw", l.MW, 0, 1 << 24}, {"max_pd", l.PD, 1, 1<<31 - 1},
		{"max_cq", l.CQ, 1, 1<<31 - 1}, {"max_cqe", l.CQE, 1, 1<<31 - 1},
		{"max_qp", l.QP, 1, MaxNumber - MinNumber + 1}, {"max_qp_wr", l.QPWR, 1, 1<<31 - 1}, {"max_sge", l.SGE, 1, 255},
		{"max_inline_data", l.Inline, 0, 1 << 16}, {"max_qp_rd_atom", l.QPRdAtom, 0, 255},
		{"max_qp_init_rd_atom", l.QPInitRdAtom, 0, 255},
		{"max_srq", l.SRQ, 0, 1<<31 - 1}, {"max_srq_wr", l.SRQWR, 1, 1<<31 - 1}, {"max_srq_sge", l.SRQSGE, 1, 255},
		{"max_ah", l.AH, 0, 1<<31 - 1}, {"max_mcast_grp", l.McastGroups, 0, 1<<31 - 1},
		{"max_mcast_qp_attach", l.McastQPAttach, 0, 1<<31 - 1},
		{"max_total_mcast_qp_attach", l.McastQPAttachTotal, 0, 1<<31 - 1},
		{"phys_port_cnt", l.Ports, 1, 255}, {"pkey_tbl_len", l.PKeys, 1, 1 << 16}, {"gid_tbl_len", l.GIDs, 1, 256},
		{"active_mtu", int(l.ActiveMTU), int(MTU256), int(MTU4096)},
	} {
		if err := checkBetween(c.name, c.value, c.lo, c.top); err != nil {
			return err
		}
	}
	if l.MRSize == 0 {
		return fmt.Errorf("%w: max_mr_size is 0: it can be 1 byte or more", syscall.EINVAL)
	}
	return nil
}

// Memory returns the limits for a memory.Table.
func (l *Limits) Memory() memory.Limits {
	return memory.Limits{MR: l.MR, MW: l.MW, PD: l.PD, MRSize: l.MRSize}
}

// Resource is a kind of object that its owner counts.
type Resource uint8

// The resources.
const (
	QueuePairs Resource = iota
	CompletionQueues
	SharedReceiveQueues
	AddressHandles
)

// CheckRoom returns ENOMEM if there may not be one more of a resource of which inUse are in use.
func (l *Limits) CheckRoom(r Resource, inUse int) error {
	limit := [...]int{l.QP, l.CQ, l.SRQ, l.AH}[r]
	if inUse < limit {
		return nil
	}
	name := [...]string{"queue pairs (max_qp)", "completion queues (max_cq)", "shared receive queues (max_srq)", "address handles (max_ah)"}[r]
	return fmt.Errorf("%w: the device has at most %d %s: destroy some first", syscall.ENOMEM, limit, name)
}

// checkBetween checks that a value is in a range.
func checkBetween[T ~int | ~uint8 | ~uint16 | ~uint32](name string, v, lo, top T) error {
	if v < lo || v > top {
		return fmt.Errorf("%w: %s is %d: it can be %d to %d", syscall.EINVAL, name, v, lo, top)
	}
	return nil
}
