package spec

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"syscall"

	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/protocols/dcqcn"
	"github.com/weftlab/weft/protocols/roce"
	"github.com/weftlab/weft/sim/units"
)

// What a NIC has that the file says nothing of.
const (
	defaultAskEvery = 64
	defaultTimeout  = 12 // code of 16.777216 ms
	defaultRNRTimer = 12 // code of 640 us: MIN_RNR_TIMER of perftest
)

// overRoCE is what a packet with payload has in front of and behind it below
// the link's MTU, at most: a WRITE with immediate data over IPv6.
var overRoCE = overIPv6 + units.Bytes(roce.RC.With(roce.WriteOnlyImm).HeaderLen()) + roce.ICRCLen

// nics gives hosts their NICs.
func (v *resolver) nics() {
	kind := v.lab.Topology.Kinds.Host.NIC
	controlled := false
	for i := range v.plan.Nodes {
		n, said := &v.plan.Nodes[i], v.said(i).NIC
		if n.Kind != Host || n.VM != nil {
			continue
		}
		f := said.over(v.reader, kind)
		if f == nil {
			continue
		}
		if n.Ports[0].Link < 0 {
			if said != nil {
				v.fail(said, "join it to a switch under links", "the NIC of %s has no link", n.Name)
			}
			continue
		}
		place := v.some(said, kind)
		n.NIC = &nicemu.Settings{
			AskEvery: defaultAskEvery, Timeout: defaultTimeout, RetryCount: maxRetries, RNRRetry: maxRetries, MinRNR: defaultRNRTimer,
		}
		set(&n.NIC.Control, f.Control)
		set(&n.NIC.Recovery, f.Recovery)
		set((*dscp)(&n.NIC.DSCP), f.DSCP)
		set((*psnInterval)(&n.NIC.AckEvery), f.AckEvery)
		set((*psnInterval)(&n.NIC.AskEvery), f.AskEvery)
		set((*ackTimeout)(&n.NIC.Timeout), f.Timeout)
		set((*retries)(&n.NIC.RetryCount), f.Retries)
		set((*rnrRetries)(&n.NIC.RNRRetry), f.RNRRetries)
		set((*rnrTimer)(&n.NIC.MinRNR), f.RNRTimer)
		v.nicMTU(n, f, place)
		n.NIC.Limits = v.limits(f.Limits)
		n.NIC.Limits.ActiveMTU = n.NIC.MTU
		if n.NIC.Control == nicemu.DCQCN {
			controlled = true
			v.dcqcn(n, f, place)
		} else if said != nil {
			v.uncontrolled(said, "it")
		}
	}
	if kind != nil && !controlled && (kind.Value.Control == nil || *kind.Value.Control != nicemu.DCQCN) {
		v.uncontrolled(kind, "a NIC")
	}
}

// uncontrolled reports parameters of a rate control that nobody has.
func (v *resolver) uncontrolled(f *nicForm, who string) {
	for _, key := range []struct {
		name string
		set  bool
		at   any
	}{{"preset", f.Value.Preset != nil, f.Value.Preset}, {"dcqcn", f.Value.DCQCN != nil, f.Value.DCQCN}} {
		if key.set {
			v.fail(key.at, "write cc: dcqcn beside it", "%s has no effect unless %s has the rate control dcqcn", key.name, who)
		}
	}
}

// nicMTU resolves the largest path MTU of a host, which fits all its links.
func (v *resolver) nicMTU(n *Node, f *nicFile, place any) {
	least, at := units.Bytes(math.MaxInt64), ""
	for _, p := range n.Ports {
		for direction := range 2 {
			if mtu := v.settingsOf(&p, direction).MTU; mtu < least {
				least, at = mtu, n.Name+":"+p.Name
			}
		}
	}
	fits := qp.MTU4096
	for fits > qp.MTU256 && units.Bytes(fits.Bytes())+overRoCE > least {
		fits--
	}
	n.NIC.MTU = fits
	set((*pathMTU)(&n.NIC.MTU), f.MTU)
	if n.NIC.MTU > fits {
		packet := units.Bytes(n.NIC.MTU.Bytes()) + overRoCE
		v.failOnce(v.some(f.MTU, place), fmt.Sprintf("write mtu: %d here, or give the link an mtu of %d or more", fits.Bytes(), packet),
			"a path MTU of %d makes packets of %dB with the headers of RoCEv2 and IPv6, more than the mtu %d of the link at %s", n.NIC.MTU.Bytes(), packet, least, at)
	}
}

// limits resolves what a device can do.
func (v *resolver) limits(f *limitsFile) qp.Limits {
	l := qp.ConnectX5()
	if f == nil {
		return l
	}
	check := func(at any) bool {
		err := l.Check()
		if err != nil {
			v.fail(at, "", "%s", strings.TrimPrefix(err.Error(), syscall.EINVAL.Error()+": "))
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
		from *limit
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

// dcqcn resolves the parameters of a host's rate control, by the rate of its
// first link.
func (v *resolver) dcqcn(n *Node, f *nicFile, place any) {
	line, slowest := v.settingsOf(&n.Ports[0], 0).Rate, units.Rate(math.MaxInt64)
	for _, p := range n.Ports {
		rate := v.settingsOf(&p, 0).Rate
		if rate == 0 {
			v.failOnce(v.some(f.Control, place), "write rate: for the link, in links, in the generator or in link under kinds",
				"DCQCN begins at the rate of the link, and that of %s:%s is unlimited", n.Name, p.Name)
			return
		}
		slowest = min(slowest, rate)
	}
	preset := dcqcnPreset(dcqcn.Presets[0])
	set(&preset, f.Preset)
	c := &n.NIC.DCQCN
	var err error
	if *c, err = dcqcn.Preset(string(preset), line); err != nil {
		v.fail(f.Preset, "", "%v", err)
		return
	}
	n.NIC.Preset = string(preset)
	if f.DCQCN != nil {
		overlay(v.reader, c, &f.DCQCN.Config)
		if v.places[&c.NPCNPPrio] != nil {
			v.failOnce(&f.DCQCN.NPCNPPrio, "leave it out: CNPs have the class that names np_cnp_dscp", "np_cnp_prio has no effect, as packets of NICs have no VLAN tag")
		}
	}
	joined, ok := c.Validate(slowest).(interface{ Unwrap() []error })
	if !ok {
		return
	}
	for _, err := range joined.Unwrap() {
		var bad *dcqcn.RangeError
		if errors.As(err, &bad) {
			v.fail(v.some(parameter(c, bad.Key), f.Preset, f.Control, place), "give "+bad.Mend, "%s: %v is out of range", bad.Key, bad.Value)
		}
	}
}

// checkUnlimited reports an event that takes away the rate of a host's link,
// which its rate control must know.
func (v *resolver) checkUnlimited(from End, place any) {
	if nic := v.plan.Nodes[from.Node].NIC; nic != nil && nic.Control == nicemu.DCQCN {
		v.fail(place, "", "DCQCN goes by the rate of the link, and that of %s becomes unlimited", v.plan.PortName(from.Node, from.Port))
	}
}

// parameter points to the parameter of c that goes by key.
func parameter(c *dcqcn.Config, key string) any {
	v := reflect.ValueOf(c).Elem()
	for _, f := range fieldsOf(v.Type()) {
		if f.name == key {
			return v.FieldByIndex(f.index).Addr().Interface()
		}
	}
	return nil
}
