package resolve

import (
	"fmt"
	"math"
	"strings"
	"syscall"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/cc"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire/roce"
	"github.com/weftlab/weft/wire/telemetry"
)

// nics resolves the NICs of hosts.
type nics struct {
	controls
	kind *labfile.NICForm // what hosts have that do not say
}

// Defaults for NIC settings that the file leaves out.
const (
	defaultAskEvery = 64
	defaultTimeout  = 12 // code of 16.777216 ms
	defaultRNRTimer = 12 // code of 640 us: MIN_RNR_TIMER of perftest
)

// overRoCE is the greatest overhead of a packet with payload below the link's MTU: a
// WRITE with immediate data over IPv6.
var overRoCE = overIPv6 + units.Bytes(roce.RC.WithOperation(roce.WriteOnlyImm).HeaderLen()) + roce.ICRCLen

// resolveNICs sets the NICs of hosts.
func (v *nics) resolveNICs() {
	kind := v.kind
	for i := range v.plan.Nodes {
		n, own := &v.plan.Nodes[i], v.nodeFileOf(i).NIC
		if n.Kind != plan.Host || n.VM != nil {
			continue
		}
		f := own.MergeOver(v.Reader, kind)
		if f == nil {
			continue
		}
		if n.Ports[0].Link < 0 {
			if own != nil {
				v.ReportFault(own, "join it to a switch under links", "the NIC of %s has no link", n.Name)
			}
			continue
		}
		place := v.FirstSet(own, kind)
		n.NIC = &nicemu.Settings{
			AskEvery: defaultAskEvery, Timeout: defaultTimeout, RetryCount: labfile.MaxRetries, RNRRetry: labfile.MaxRetries, MinRNR: defaultRNRTimer,
		}
		setFrom((*labfile.DSCP)(&n.NIC.DSCP), f.DSCP)
		setFrom((*labfile.PSNInterval)(&n.NIC.AckEvery), f.AckEvery)
		setFrom((*labfile.PSNInterval)(&n.NIC.AskEvery), f.AskEvery)
		setFrom((*labfile.AckTimeout)(&n.NIC.Timeout), f.Timeout)
		setFrom((*labfile.Retries)(&n.NIC.RetryCount), f.Retries)
		setFrom((*labfile.RNRRetries)(&n.NIC.RNRRetry), f.RNRRetries)
		setFrom((*labfile.RNRTimer)(&n.NIC.MinRNR), f.RNRTimer)
		n.NIC.Control = v.resolveControl(n, f.Control, place)
		v.resolveRecovery(n, f.Recovery, place)
		traits := cc.TraitsOf(n.NIC.Control)
		if traits.NeedsDelivery {
			v.FailOnce(v.FirstSet(f.Control, place), "it can be the cc of TCP flows: by: {tcp: {cc: "+n.NIC.Control.Name+"}}",
				"%s needs delivery rate samples, which NICs do not take", n.NIC.Control)
		}
		if f.AskEvery == nil && traits.AskEvery > 0 {
			n.NIC.AskEvery = traits.AskEvery
		}
		if traits.AckDSCP > 0 {
			n.NIC.AckDSCP = &traits.AckDSCP
		}
		if f.AckDSCP != nil {
			n.NIC.AckDSCP = (*uint8)(f.AckDSCP)
		}
		v.nicMTU(n, f, place, overRoCE+telemetry.StackSize(traits.Telemetry))
		n.NIC.Delays = f.Delays.Settings().Times()
		n.NIC.RateLimiter = f.RateLimiter.Settings().Limiter()
		if err := n.NIC.RateLimiter.Check(); err != nil {
			v.FailOnce(v.FirstSet(f.RateLimiter, place), "", "rate-limiter: %v", err)
		}
		v.resolveLayer(n, f.Layer, place)
		n.NIC.Limits = resolveLimits(v.Reader, f.Limits)
		n.NIC.Limits.ActiveMTU = n.NIC.MTU
	}
}

// nicMTU resolves the largest path MTU of a host that fits all its links. Over is the
// maximum overhead of a packet in addition to its payload.
func (v *nics) nicMTU(n *plan.Node, f *labfile.NIC, place any, over units.Bytes) {
	minMTU, at := units.Bytes(math.MaxInt64), ""
	for _, p := range n.Ports {
		for direction := range 2 {
			if mtu := v.settingsOf(&p, direction).MTU; mtu < minMTU {
				minMTU, at = mtu, n.Name+":"+p.Name
			}
		}
	}
	fits := qp.MTU4096
	over += n.EdgeOverhead(true)
	for fits > qp.MTU256 && units.Bytes(fits.Bytes())+over > minMTU {
		fits--
	}
	n.NIC.MTU = fits
	setFrom((*labfile.PathMTU)(&n.NIC.MTU), f.MTU)
	if n.NIC.MTU > fits {
		packet := units.Bytes(n.NIC.MTU.Bytes()) + over
		v.FailOnce(v.FirstSet(f.MTU, place), fmt.Sprintf("write mtu: %d here, or give the link an mtu of %d or more", fits.Bytes(), packet),
			"with RoCEv2 and IPv6 headers, a path MTU of %d makes packets of %dB, more than the mtu %d of the link at %s", n.NIC.MTU.Bytes(), packet, minMTU, at)
	}
}

// resolveLimits resolves the limits of a device.
func resolveLimits(v *yamlfile.Reader, f *labfile.Limits) qp.Limits {
	l := qp.ConnectX5()
	if f == nil {
		return l
	}
	check := func(at any) bool {
		err := l.Check()
		if err != nil {
			v.ReportFault(at, "", "%s", strings.TrimPrefix(err.Error(), syscall.EINVAL.Error()+": "))
		}
		return err == nil
	}
	if f.MRSize != nil {
		before := l.MRSize
		if l.MRSize = uint64(*f.MRSize); !check(f.MRSize) {
			l.MRSize = before
		}
	}
	if f.Inline != nil {
		before := l.Inline
		if l.Inline = int(*f.Inline); !check(f.Inline) {
			l.Inline = before
		}
	}
	for _, number := range []struct {
		from *labfile.Limit
		to   *int
	}{
		{f.MR, &l.MR}, {f.MW, &l.MW}, {f.PD, &l.PD}, {f.CQ, &l.CQ}, {f.CQE, &l.CQE}, {f.QP, &l.QP}, {f.QPWR, &l.QPWR}, {f.SGE, &l.SGE},
		{f.QPRdAtom, &l.QPRdAtom}, {f.QPInitRdAtom, &l.QPInitRdAtom}, {f.SRQ, &l.SRQ}, {f.SRQWR, &l.SRQWR}, {f.SRQSGE, &l.SRQSGE},
		{f.AH, &l.AH}, {f.McastGroups, &l.McastGroups},
	} {
		if number.from == nil {
			continue
		}
		before := *number.to
		if *number.to = int(*number.from); !check(number.from) {
			*number.to = before
		}
	}
	if f.Atomics != nil {
		l.NoAtomics = !bool(*f.Atomics)
	}
	return l
}
