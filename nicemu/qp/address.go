package qp

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu/memory"
)

// GID is an address of a RoCE port: an IPv6 address, or ::ffff:a.b.c.d.
type GID [16]byte

// Multicast reports whether the GID is a multicast group: an IPv6 one, or ::ffff:224.0.0.0 to
// ::ffff:239.255.255.255 (cma_iboe_set_mgid of Linux).
func (g GID) Multicast() bool { return netip.AddrFrom16(g).Unmap().IsMulticast() }

// AV is an address vector (ibv_ah_attr). Local identifiers (dlid,
// src_path_bits) mean nothing with RoCE and are left out.
type AV struct {
	DGID         GID
	FlowLabel    uint32 // 20 bits
	SGIDIndex    uint8  // in the table of the port
	HopLimit     uint8
	TrafficClass uint8
	ClassSet     bool  // a TrafficClass of 0 means 0: the device does not choose one
	SL           uint8 // priority, 0 to 7 with RoCE
	StaticRate   uint8 // ibv_rate, 0 for no limit; see StaticRate
	Global       bool  // is_global; required with RoCE (IBV_QPF_GRH_REQUIRED)
	Port         uint8 // from 1
}

// maxRate is the highest ibv_rate: IBV_RATE_1200_GBPS.
const maxRate = 24

func (a *AV) checkVector(l *Limits) error {
	if !a.Global {
		return fmt.Errorf("%w: ah_attr.is_global is 0: RoCE needs a GRH, so set it and grh.dgid", syscall.EINVAL)
	}
	if a.DGID == (GID{}) {
		return fmt.Errorf("%w: ah_attr.grh.dgid is ::, which no host has", syscall.EINVAL)
	}
	return firstError(
		checkBetween("ah_attr.port_num", int(a.Port), 1, l.Ports),
		checkBetween("ah_attr.grh.sgid_index", int(a.SGIDIndex), 0, l.GIDs-1),
		checkBetween("ah_attr.grh.flow_label", a.FlowLabel, 0, 1<<20-1),
		checkBetween("ah_attr.sl", a.SL, 0, 7),
		checkBetween("ah_attr.static_rate", a.StaticRate, 0, maxRate),
	)
}

// firstError returns the first error that is not nil.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// AH is an address handle: the destination of datagrams. Make it with NewAH.
type AH struct {
	pd *memory.PD
	av AV
}

// NewAH makes an address handle of a protection domain (ibv_create_ah(3)).
func NewAH(pd *memory.PD, av AV, l *Limits) (*AH, error) {
	if pd == nil {
		return nil, fmt.Errorf("%w: an address handle needs a protection domain", syscall.EINVAL)
	}
	if err := av.checkVector(l); err != nil {
		return nil, err
	}
	pd.AddUser()
	return &AH{pd, av}, nil
}

// AV returns the address vector.
func (h *AH) AV() AV { return h.av }

// Modify changes the address vector (Modify Address Handle, §11.2). An error
// changes nothing.
func (h *AH) Modify(av AV, l *Limits) error {
	if err := av.checkVector(l); err != nil {
		return err
	}
	h.av = av
	return nil
}

// Destroy destroys the handle.
func (h *AH) Destroy() error {
	if h.pd == nil {
		return fmt.Errorf("%w: the address handle is destroyed already", syscall.EINVAL)
	}
	h.pd.ReleaseHold()
	h.pd = nil
	return nil
}
