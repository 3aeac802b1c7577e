package qp

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// Groups are the multicast groups of a device (§10.5; ibv_attach_mcast(3)). Local identifiers mean
// nothing with RoCE: a group is its GID. Make it with NewGroups.
type Groups struct {
	limits *Limits
	groups map[GID][]*QP
	total  int // attachments
}

// NewGroups makes a device's groups.
func NewGroups(l *Limits) *Groups { return &Groups{limits: l, groups: map[GID][]*QP{}} }

// Attach attaches a UD queue pair to a group. Doing it again changes nothing.
func (g *Groups) Attach(q *QP, gid GID) error {
	if err := checkGroup(q, gid); err != nil {
		return err
	}
	members := g.groups[gid]
	switch {
	case slices.Contains(members, q):
		return nil
	case len(members) == 0 && len(g.groups) >= g.limits.McastGroups:
		return fmt.Errorf("%w: the device has %d multicast groups (max_mcast_grp): detach from others first", syscall.ENOMEM, len(g.groups))
	case len(members) >= g.limits.McastQPAttach:
		return fmt.Errorf("%w: %d queue pairs are attached to the group (max_mcast_qp_attach): detach others first", syscall.ENOMEM, len(members))
	case g.total >= g.limits.McastQPAttachTotal:
		return fmt.Errorf("%w: there are %d attachments to groups (max_total_mcast_qp_attach): detach others first", syscall.ENOMEM, g.total)
	}
	g.groups[gid] = append(members, q)
	g.total++
	q.groups++
	return nil
}

// Detach undoes Attach.
func (g *Groups) Detach(q *QP, gid GID) error {
	if err := checkGroup(q, gid); err != nil {
		return err
	}
	members := g.groups[gid]
	i := slices.Index(members, q)
	if i < 0 {
		return fmt.Errorf("%w: queue pair %d is not attached to this group", syscall.EINVAL, q.number)
	}
	if members = slices.Delete(members, i, i+1); len(members) == 0 {
		delete(g.groups, gid)
	} else {
		g.groups[gid] = members
	}
	g.total--
	q.groups--
	return nil
}

// Members returns the queue pairs attached to a group, in the order in which they were attached.
// The slice is valid until the next Attach or Detach.
func (g *Groups) Members(gid GID) []*QP { return g.groups[gid] }

func checkGroup(q *QP, gid GID) error {
	switch {
	case q.config.Type != UD:
		return fmt.Errorf("%w: queue pair %d is of type %v: only UD can be attached to multicast groups", syscall.EINVAL, q.number, q.config.Type)
	case !gid.Multicast():
		return fmt.Errorf("%w: %v is not a multicast group, whose GID is in ff00::/8 or ::ffff:224.0.0.0/100", syscall.EINVAL, netip.AddrFrom16(gid))
	case q.ended:
		return fmt.Errorf("%w: queue pair %d is destroyed", syscall.EINVAL, q.number)
	}
	return nil
}
