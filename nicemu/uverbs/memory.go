package uverbs

import (
	"fmt"
	"syscall"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/memory"
	"github.com/weftlab/weft/nicemu/qp"
)

// domain is a protection domain and the context that it was made with.
type domain struct {
	pd      *nicemu.PD
	context *opened
}

func (x *session) allocPD(q *handleMsg) answer {
	c, err := getObject[*opened](x, q.Handle, "context")
	if err != nil {
		return failedAnswer(err)
	}
	pd, err := c.AllocPD()
	if err != nil {
		return failedAnswer(err)
	}
	return x.madeAnswer(&domain{pd, c})
}

// madeAnswer returns the answer with the handle of a new object.
func (x *session) madeAnswer(o any) answer { return answer{body: handleMsg{Handle: x.addObject(o)}} }

func (x *session) deallocPD(q *handleMsg) answer {
	d, err := getObject[*domain](x, q.Handle, "protection domain")
	if err != nil {
		return failedAnswer(err)
	}
	return removeObject(x, q.Handle, d.pd.Dealloc)
}

func (x *session) makeRegistration(q *regMR) (r memory.Registration, err error) {
	r = memory.Registration{Addr: q.Addr, Length: q.Length, IOVA: q.IOVA, Backing: x.memory}
	r.Access, err = memory.AccessOf(q.Access)
	return r, err
}

// checkMapped returns an error if the process does not have the memory.
func (x *session) checkMapped(q *regMR) error {
	if q.Addr+q.Length < q.Addr {
		return fmt.Errorf("%w: %d bytes from %#x go beyond the last address", syscall.EINVAL, q.Length, q.Addr)
	}
	if q.Access&memory.OnDemand != 0 {
		return nil // it may be mapped later
	}
	if q.Length > 0 && !x.memory.hasMapped(q.Addr, q.Length) {
		return fmt.Errorf("%w: the process has no memory at %#x to %#x", syscall.EFAULT, q.Addr, q.Addr+q.Length-1)
	}
	return nil
}

func (x *session) regMR(q *regMR) answer {
	d, err := getObject[*domain](x, q.PD, "protection domain")
	if err != nil {
		return failedAnswer(err)
	}
	r, err := x.makeRegistration(q)
	if err == nil {
		err = x.checkMapped(q)
	}
	if err != nil {
		return failedAnswer(err)
	}
	m, err := d.pd.RegisterFrom(r)
	if err != nil {
		return failedAnswer(err)
	}
	return answer{body: mrAnswer{x.addObject(m), m.LKey()}}
}

func (x *session) reregMR(q *regMR) answer {
	m, err := getObject[*nicemu.MR](x, q.MR, "memory region")
	if err != nil {
		return failedAnswer(err)
	}
	changes := memory.Changes(q.Flags)
	if q.Flags>>8 != 0 {
		return failedAnswer(fmt.Errorf("%w: flags of ibv_rereg_mr are %#x", syscall.EINVAL, q.Flags))
	}
	var pd *nicemu.PD
	if changes&memory.ChangePD != 0 {
		d, err := getObject[*domain](x, q.PD, "protection domain")
		if err != nil {
			return failedAnswer(err)
		}
		pd = d.pd
	}
	if changes&memory.ChangeAccess == 0 {
		q.Access = 0
	}
	r, err := x.makeRegistration(q)
	if err == nil && changes&memory.ChangeTranslation != 0 {
		err = x.checkMapped(q)
	}
	if err == nil {
		err = m.Reregister(changes, pd, r)
	}
	if err != nil {
		return failedAnswer(err)
	}
	return answer{body: mrAnswer{q.MR, m.LKey()}}
}

func (x *session) deregMR(q *handleMsg) answer {
	m, err := getObject[*nicemu.MR](x, q.Handle, "memory region")
	if err != nil {
		return failedAnswer(err)
	}
	return removeObject(x, q.Handle, m.Deregister)
}

// locateBytes returns the position of an element's bytes in the process's memory.
func (x *session) locateBytes(q *locateMsg) answer {
	d, err := getObject[*domain](x, q.PD, "protection domain")
	if err != nil {
		return failedAnswer(err)
	}
	access := memory.LocalRead
	if q.Write != 0 {
		access = memory.LocalWrite
	}
	addr, err := d.pd.Locate(q.LKey, q.VA, q.Length, access)
	if err != nil {
		return failedAnswer(err)
	}
	return answer{body: locateAnswer{addr}}
}

func (x *session) allocMW(q *allocMW) answer {
	d, err := getObject[*domain](x, q.PD, "protection domain")
	if err != nil {
		return failedAnswer(err)
	}
	if q.Type > uint32(memory.Type2) {
		return failedAnswer(fmt.Errorf("%w: type of memory window is %d: it can be 1 or 2", syscall.EINVAL, q.Type))
	}
	w, err := d.pd.AllocMW(memory.WindowType(q.Type))
	if err != nil {
		return failedAnswer(err)
	}
	return answer{body: mrAnswer{x.addObject(w), w.RKey()}}
}

func (x *session) deallocMW(q *handleMsg) answer {
	w, err := getObject[*nicemu.MW](x, q.Handle, "memory window")
	if err != nil {
		return failedAnswer(err)
	}
	return removeObject(x, q.Handle, w.Dealloc)
}

// flowLabelBits are the bits of ibv_global_route.flow_label: kernels and NICs ignore the others,
// and UCX sets them all.
const flowLabelBits = 1<<20 - 1

func vectorOf(a *ahAttr) qp.AV {
	return qp.AV{
		DGID: a.DGID, FlowLabel: a.FlowLabel & flowLabelBits, SGIDIndex: a.SGIDIndex, HopLimit: a.HopLimit, TrafficClass: a.TrafficClass,
		SL: a.SL, StaticRate: a.StaticRate, Global: a.IsGlobal != 0, Port: a.Port,
	}
}

func attrOfVector(v *qp.AV) ahAttr {
	return ahAttr{
		DGID: v.DGID, FlowLabel: v.FlowLabel, SGIDIndex: v.SGIDIndex, HopLimit: v.HopLimit, TrafficClass: v.TrafficClass,
		SL: v.SL, StaticRate: v.StaticRate, IsGlobal: uint8(boolBit(v.Global)), Port: v.Port,
	}
}

func (x *session) createAH(q *createAH) answer {
	d, err := getObject[*domain](x, q.PD, "protection domain")
	if err != nil {
		return failedAnswer(err)
	}
	h, err := d.pd.CreateAH(vectorOf(&q.AH))
	if err != nil {
		return failedAnswer(err)
	}
	return x.madeAnswer(h)
}

func (x *session) destroyAH(q *handleMsg) answer {
	h, err := getObject[*nicemu.AH](x, q.Handle, "address handle")
	if err != nil {
		return failedAnswer(err)
	}
	return removeObject(x, q.Handle, h.Destroy)
}

func (x *session) attachMcast(q *mcastMsg) answer {
	k, err := x.findPair(q.QP)
	if err == nil && len(k.groups) >= maxGroups {
		err = fmt.Errorf("%w: a queue pair can be in at most %d multicast groups", syscall.ENOMEM, maxGroups)
	}
	if err != nil {
		return failedAnswer(err)
	}
	if err = k.qp.AttachMcast(q.GID); err == nil {
		k.groups = append(k.groups, q.GID)
	}
	return doneAnswer(err)
}

func (x *session) detachMcast(q *mcastMsg) answer {
	k, err := x.findPair(q.QP)
	if err != nil {
		return failedAnswer(err)
	}
	return doneAnswer(k.detachGroup(q.GID))
}
