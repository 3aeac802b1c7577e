package memory

import (
	"fmt"
	"strings"
	"syscall"
)

// Access is a set of access rights, granted or requested. The values are those of ibv_access_flags.
// Reading locally is always allowed.
type Access uint8

// The rights, and the kind of addressing.
const (
	LocalWrite   Access = 1 << 0
	RemoteWrite  Access = 1 << 1
	RemoteRead   Access = 1 << 2
	RemoteAtomic Access = 1 << 3
	MWBind       Access = 1 << 4 // windows may be bound to the region
	ZeroBased    Access = 1 << 5 // addresses count from the start of the region or window

	LocalRead Access = 0 // always granted

	remote = RemoteWrite | RemoteRead | RemoteAtomic
)

// Flags of ibv_access_flags that are not part of Access.
const (
	known = 1<<6 - 1

	// OnDemand is for memory that may come, go and move after its registration. All memory may do
	// so here; OnDemand only means that none need be there at first.
	OnDemand uint32 = 1 << 6
	hugeTLB  uint32 = 1 << 7
	optional uint32 = 0x3ff << 20 // IBV_ACCESS_OPTIONAL_RANGE

	// Hints are flags that do not change the access rights of a region.
	Hints = OnDemand | hugeTLB | optional
)

var accessNames = [...]string{
	"LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC", "MW_BIND", "ZERO_BASED", "ON_DEMAND", "HUGETLB",
}

// String returns the names in ibv_access_flags.
func (a Access) String() string {
	if a == 0 {
		return "0"
	}
	var names []string
	for i, n := range accessNames {
		if a>>i&1 != 0 {
			names = append(names, "IBV_ACCESS_"+n)
		}
	}
	return strings.Join(names, "|")
}

// AccessOf converts a program's ibv_access_flags into an Access, without Hints.
func AccessOf(flags uint32) (Access, error) {
	flags &^= Hints
	if flags&^known != 0 {
		return 0, fmt.Errorf("%w: access flags %#x are not implemented: use %#x at most", syscall.EOPNOTSUPP, flags&^known, known)
	}
	a := Access(flags)
	return a, a.checkRights()
}

// checkRights checks a region's rights against ibv_reg_mr(3) (§11.2.8).
func (a Access) checkRights() error {
	switch {
	case a&^known != 0:
		return fmt.Errorf("%w: unknown access right %v: leave it out", syscall.EOPNOTSUPP, a&^known)
	case a&(RemoteWrite|RemoteAtomic) != 0 && a&LocalWrite == 0:
		return fmt.Errorf("%w: access %v needs IBV_ACCESS_LOCAL_WRITE too", syscall.EINVAL, a)
	}
	return nil
}
