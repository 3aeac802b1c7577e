package uverbs

import (
	"fmt"
	"math"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/sim/units"
)

// requests maps operations to their handlers.
var requests map[op]request

func init() {
	requests = map[op]request{
		opHello:          requestFor((*session).handleHello),
		opDevices:        requestFor((*session).listDevices),
		opOpen:           makingRequest(fixedCost[handleMsg](withPipe), (*session).openDevice),
		opClose:          requestFor((*session).closeContext),
		opQueryPort:      requestFor((*session).queryPort),
		opQueryGID:       requestFor((*session).queryGID),
		opAllocPD:        makingRequest(fixedCost[handleMsg](simple), (*session).allocPD),
		opDeallocPD:      requestFor((*session).deallocPD),
		opRegMR:          makingRequest(fixedCost[regMR](simple), (*session).regMR),
		opReregMR:        requestFor((*session).reregMR),
		opDeregMR:        requestFor((*session).deregMR),
		opAllocMW:        makingRequest(fixedCost[allocMW](simple), (*session).allocMW),
		opDeallocMW:      requestFor((*session).deallocMW),
		opCreateChannel:  makingRequest(fixedCost[handleMsg](withPipe), (*session).createChannel),
		opDestroyChannel: requestFor((*session).destroyChannel),
		opCreateCQ:       makingRequest(fixedCost[createCQ](withRing), (*session).createCQ),
		opResizeCQ:       requestFor((*session).resizeCQ),
		opModifyCQ:       requestFor((*session).modifyCQ),
		opDestroyCQ:      requestFor((*session).destroyCQ),
		opCreateSRQ:      makingRequest(costOfSRQ, (*session).createSRQ),
		opModifySRQ:      requestFor((*session).modifySRQ),
		opQuerySRQ:       requestFor((*session).querySRQ),
		opDestroySRQ:     requestFor((*session).destroySRQ),
		opCreateQP:       makingRequest(costOfQP, (*session).createQP),
		opModifyQP:       requestFor((*session).modifyQP),
		opQueryQP:        requestFor((*session).queryQP),
		opDestroyQP:      requestFor((*session).destroyQP),
		opCreateAH:       makingRequest(fixedCost[createAH](simple), (*session).createAH),
		opDestroyAH:      requestFor((*session).destroyAH),
		opAttachMcast:    requestFor((*session).attachMcast),
		opDetachMcast:    requestFor((*session).detachMcast),
		opQueryClock:     requestFor((*session).queryClock),
		opNotifyCQ:       requestFor((*session).notifyCQ),
		opLocate:         requestFor((*session).locateBytes),
		opSetRateLimit:   requestFor((*session).setRateLimit),
		opOpenXRCD:       makingRequest(fixedCost[openXRCDMsg](withFile), (*session).openXRCD),
		opCloseXRCD:      requestFor((*session).closeXRCD),
		opOpenQP:         makingRequest(fixedCost[openQPMsg](ofTarget), (*session).openQP),

		opCMCreateChannel:  makingRequest(fixedCost[none](withPipe), (*session).cmCreateChannel),
		opCMDestroyChannel: requestFor((*session).cmDestroyChannel),
		opCMCreateID:       makingRequest(fixedCost[cmCreateID](simple), (*session).cmCreateID),
		opCMDestroyID:      requestFor((*session).cmDestroyID),
		opCMMigrate:        requestFor((*session).cmMigrate),
		opCMBind:           requestFor((*session).cmBind),
		opCMResolveAddr:    requestFor((*session).cmResolveAddr),
		opCMResolveRoute:   requestFor((*session).cmResolveRoute),
		opCMListen:         requestFor((*session).cmListen),
		opCMConnect:        requestFor((*session).cmConnect),
		opCMAccept:         requestFor((*session).cmAccept),
		opCMReject:         requestFor((*session).cmReject),
		opCMEstablish:      requestFor((*session).cmEstablish),
		opCMDisconnect:     requestFor((*session).cmDisconnect),
		opCMNotify:         requestFor((*session).cmNotify),
		opCMGetEvent:       requestFor((*session).cmGetEvent),
		opCMQPAttr:         requestFor((*session).cmQPAttr),
		opCMSetOption:      requestFor((*session).cmSetOption),
		opCMJoin:           requestFor((*session).cmJoin),
		opCMLeave:          requestFor((*session).cmLeave),
	}
}

// opened is a device that the process has opened.
type opened struct {
	*nicemu.Device
	*pipe // of asynchronous events
}

// pipe is the write end of a pipe whose read end the process has. Each end has separate flags, so
// that the process cannot make writes block.
type pipe struct{ fd int } // -1 once released: its number may then be another file's

// newPipe makes a pipe; read is for the process.
func newPipe() (p *pipe, read int, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, -1, fmt.Errorf("pipe: %w", err)
	}
	// The process decides whether its reads block.
	if err := unix.SetNonblock(fds[0], false); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, -1, err
	}
	return &pipe{fds[1]}, fds[0], nil
}

// putRecord writes a record; false if the pipe is full, or the process has closed its end.
func (p *pipe) putRecord(b []byte) bool {
	n, err := unix.Write(p.fd, b)
	return err == nil && n == len(b)
}

func (p *pipe) releasePipe() {
	unix.Close(p.fd)
	p.fd = -1
}

func toText16(s string) (b [16]byte) {
	copy(b[:15], s)
	return b
}

// deviceName returns the device's name: roce0, roce1 and so on, in the order of the host's interfaces.
func deviceName(number int) string { return fmt.Sprintf("roce%d", number) }

func (x *session) listDevices(*none) answer {
	a := devicesAnswer{Count: uint32(len(x.server.devices))}
	for i, d := range x.server.devices {
		a.Devices[i] = deviceMsg{toText16(deviceName(i)), toText16(d.Netdev), d.GUID()}
	}
	return answer{body: a}
}

func (x *session) openDevice(q *handleMsg) answer {
	if int(q.Handle) >= len(x.server.devices) {
		return failedAnswer(fmt.Errorf("%w: there is no device %d", syscall.ENODEV, q.Handle))
	}
	p, read, err := newPipe()
	if err != nil {
		return failedAnswer(err)
	}
	c := &opened{Device: x.server.devices[q.Handle].Device, pipe: p}
	x.server.contexts[c] = true
	l, limits := x.limitsOfOne(c), rateLimits(c.Device)
	return answer{fds: []int{read}, body: deviceAnswer{
		Handle: x.addObject(c), MaxInline: uint32(l.Inline), GUID: c.GUID(), MaxMRSize: l.MRSize,
		MaxMR: uint32(l.MR), MaxMW: uint32(l.MW), MaxPD: uint32(l.PD), MaxCQ: uint32(l.CQ), MaxCQE: uint32(l.CQE),
		MaxQP: uint32(l.QP), MaxQPWR: uint32(l.QPWR), MaxSGE: uint32(l.SGE),
		MaxQPRdAtom: uint32(l.QPRdAtom), MaxQPInitRdAtom: uint32(l.QPInitRdAtom), Atomics: boolBit(!l.NoAtomics),
		MaxSRQ: uint32(l.SRQ), MaxSRQWR: uint32(l.SRQWR), MaxSRQSGE: uint32(l.SRQSGE),
		MaxAH: uint32(l.AH), MaxMcastGrp: uint32(l.McastGroups), MaxMcastQPAttach: uint32(l.McastQPAttach),
		MaxTotalMcastQPAttach: uint32(l.McastQPAttachTotal),
		MaxPKeys:              uint32(l.PKeys), Ports: uint32(l.Ports), GIDs: uint32(l.GIDs), AckDelay: ackDelay,
		RateLimitMin: limits.min, RateLimitMax: limits.max, RateLimitTypes: limits.types, XRC: boolBit(c.SupportsXRC()),
	}}
}

// limitsOfOne returns the limits of a device, but no more objects than one program can have: a NIC has
// room for those of many. The lab has maxObjects for each, and a share of what its machine has.
func (x *session) limitsOfOne(c *opened) qp.Limits {
	l := c.Limits()
	for _, n := range []*int{&l.MR, &l.MW, &l.PD, &l.AH} {
		*n = min(*n, maxObjects)
	}
	most := x.server.budget.queuesOfOne()
	for _, n := range []*int{&l.QP, &l.CQ, &l.SRQ} {
		*n = min(*n, most)
	}
	return l
}

// ackDelay is the code of the longest time that the NIC takes to acknowledge, which rdma_cm sends
// to peers (cm.DefaultConfig).
const ackDelay = 15

func boolBit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

func (x *session) closeContext(q *handleMsg) answer {
	c, err := getObject[*opened](x, q.Handle, "context")
	if err != nil {
		return failedAnswer(err)
	}
	delete(x.server.contexts, c)
	c.releasePipe() // objects of the context continue without its asynchronous events
	x.dropHandle(q.Handle)
	return answer{}
}

func (x *session) queryPort(q *handleMsg) answer {
	c, err := getObject[*opened](x, q.Handle, "context")
	if err != nil {
		return failedAnswer(err)
	}
	n, _ := c.Counters()
	return answer{body: portAnswer{
		Rate: uint64(c.Line()), ActiveMTU: uint32(c.Limits().ActiveMTU), GIDs: uint32(len(c.Device.GIDs())),
		QKeyViolations: uint32(n.QKeyViolations), PKeyViolations: uint32(n.PKeyViolations), Active: boolBit(c.QueryPort().Active),
	}}
}

func (x *session) queryClock(q *handleMsg) answer {
	c, err := getObject[*opened](x, q.Handle, "context")
	if err != nil {
		return failedAnswer(err)
	}
	return answer{body: clockAnswer{clockNow(c.Device)}}
}

// limits are the rate limits that a device takes, as in ibv_packet_pacing_caps.
type limits struct{ min, max, types uint32 }

// rateLimits returns them. For a NIC that takes any, the maximum is the rate of its port. A layer
// limits RC and UC queue pairs by itself.
func rateLimits(d *nicemu.Device) limits {
	r := d.Settings().RateLimiter
	l := limits{min: uint32(max(1, toKbps(r.Min+units.Kbps-1))), max: math.MaxUint32, types: 1<<qp.UD | 1<<qp.RC | 1<<qp.UC}
	switch {
	case d.Layer() != nil:
		l.types = 1 << qp.UD
	case d.SupportsXRC():
		l.types |= 1 << qp.XRCSend
	}
	maxRate := r.Max
	if maxRate == 0 {
		maxRate = d.Line()
	}
	if maxRate > 0 {
		l.max = uint32(min(toKbps(maxRate), math.MaxUint32))
	}
	return l
}

// toKbps returns a rate in kb/s, rounded down.
func toKbps(r units.Rate) int64 { return int64(r / units.Kbps) }

// clockNow returns the emulated time in nanoseconds, as in completions.
func clockNow(d *nicemu.Device) uint64 { return uint64(d.Now() / units.Nanosecond) }

func (x *session) queryGID(q *queryGID) answer {
	c, err := getObject[*opened](x, q.Context, "context")
	if err != nil {
		return failedAnswer(err)
	}
	var a gidAnswer
	if g, err := c.QueryGID(int(q.Index)); err == nil {
		a.GID = g
	}
	return answer{body: a}
}
