package fabric

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/nicemu/qp"
	"github.com/weftlab/weft/nicemu/transport"
	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/wire"
)

// listenersOf returns the listeners of a NIC.
func listenersOf(n attachedNIC) (list []status.Listener) {
	for _, l := range n.Listeners() {
		space := "IPoIB"
		switch protocol, _, ip := l.Service.IP(); {
		case ip && protocol == msg.ProtocolTCP:
			space = "TCP"
		case ip:
			space = "UDP"
		}
		port, _ := l.Service.Port()
		list = append(list, status.Listener{PortSpace: space, Address: l.Address, Port: port})
	}
	return list
}

// layerStatus returns the state of a NIC's layer; nil without a layer.
func layerStatus(n attachedNIC) *status.Layer {
	layer, choice := n.Layer(), n.Settings().Layer
	if layer == nil {
		return nil
	}
	s := &status.Layer{Name: choice.String()}
	counts := layer.Work(nil)
	for i, w := range nicemu.Layers.Kind(choice.Name).Work {
		s.Work = append(s.Work, status.LayerWork{Name: w.Name, Count: counts[i]})
	}
	return s
}

// NICs returns the state of every NIC, in the order of the plan.
func (f *Fabric) NICs() []status.NIC { return f.nicStatus(f.nics) }

// NICsOf returns the NICs of a host, or the one of an interface such as
// "h1:eth0". "" means all.
func (f *Fabric) NICsOf(name string) ([]status.NIC, error) {
	list, err := f.nicsOf(name)
	return f.nicStatus(list), err
}

// QPsOf returns the queue pairs of a host's NICs, or of an interface's NIC, by
// rising number. "" means all hosts, in the order of the plan.
func (f *Fabric) QPsOf(name string) ([]status.QP, error) {
	list, err := f.nicsOf(name)
	if err != nil {
		return nil, err
	}
	pairs := 0
	for _, n := range list {
		pairs += n.InUse().QueuePairs
	}
	out := make([]status.QP, 0, pairs)
	for _, n := range list {
		for _, q := range n.QPs() {
			out = append(out, f.qpStatus(n, q))
		}
	}
	return out, nil
}

// nicsOf finds NICs by the name of a host or an interface.
func (f *Fabric) nicsOf(name string) (list []attachedNIC, err error) {
	if name == "" {
		return f.nics, nil
	}
	node, isNode := f.Plan.Node(name)
	port := -1
	if !isNode {
		if node, port, err = f.Plan.Endpoint(name); err != nil {
			return nil, err
		}
	}
	for _, n := range f.nics {
		if n.iface.Node == node && (port < 0 || n.iface.Index == port) {
			list = append(list, n)
		}
	}
	switch {
	case len(list) > 0:
		return list, nil
	case f.Plan.Nodes[node].Kind != plan.Host:
		return nil, fmt.Errorf("%s is a switch, and only hosts have NICs", f.Plan.Nodes[node].Name)
	}
	return nil, fmt.Errorf("%s has no NIC: write nic: roce for it in the lab file", name)
}

func (f *Fabric) nicStatus(list []attachedNIC) []status.NIC {
	out := make([]status.NIC, len(list))
	for i, n := range list {
		settings, used := n.Settings(), n.InUse()
		s := &out[i]
		*s = status.NIC{
			Name: n.Name(), Node: f.Plan.Nodes[n.iface.Node].Name, MAC: hardware(n.MAC()), GIDs: slices.Clone(n.GIDs()),
			MTU: settings.MTU.Bytes(), LineRate: n.Line(), DSCP: settings.DSCP, AckDSCP: settings.AckDSCP,
			Control: settings.Control.String(), Preset: settings.Control.Preset, Layer: layerStatus(n), Recovery: cmp.Or(settings.Recovery.Name, transport.DefaultRecovery),
			CQs: used.CompletionQueues, SRQs: used.SharedReceiveQueues, AHs: used.AddressHandles,
			PDs: used.ProtectionDomains, MRs: used.MemoryRegions, MWs: used.MemoryWindows,
			Listeners: listenersOf(n),
			Counters:  make(status.NICCounters, 0, len(nicemu.CounterInfos())),
		}
		if d := settings.Delays; d != (nicemu.Delays{}) {
			s.Delays = &d
		}
		for _, q := range n.QPs() {
			s.States[q.State()]++
			if q.IsLimited() {
				s.Limited++
			}
		}
		s.Flows = n.flowGauges()
		n.EachCounter(func(_ string, v uint64) { s.Counters = append(s.Counters, v) })
	}
	return out
}

// hardware prints a MAC address.
func hardware(m wire.MAC) string {
	return net.HardwareAddr{byte(m >> 40), byte(m >> 32), byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}.String()
}

func (f *Fabric) qpStatus(n attachedNIC, q *nicemu.QP) status.QP {
	attr, config := q.Query()
	x := q.Status()
	t, c := q.Counters()
	s := status.QP{
		NIC: n.Name(), QPN: q.Number(), Type: config.Type.String(), State: attr.State.String(),
		SQPSN: uint32(x.Window.Next), Unacknowledged: uint32(x.Window.Una), Sends: x.Posted, Fetches: x.Fetching, InFlight: x.InFlight,
		RQPSN: uint32(x.Expected), Receives: x.Receives, Replies: x.Replying,
		Rate: x.Rate, LineRate: n.Line(), Window: x.MaxInFlight, CNPDue: x.CNPDue,
		TxPackets: c.DataPackets, TxBytes: c.DataBytes, RxPackets: c.RxPackets, RxBytes: c.RxBytes,
		Marked: c.Marked, CNPsSent: c.CNPsSent, CNPsHandled: c.CNPsHandled,
	}
	if s.Rate == 0 {
		s.Rate = s.LineRate
	}
	if x.Remote.IsValid() {
		f.addPath(&s, n, &attr, &x)
	}
	if config.Type.IsReliable() && attr.State >= qp.RTS {
		s.Timeout = running(0, transport.AckTimeout(attr.Timeout))
		s.AckTimer, s.RNRTimer = running(n.Now(), x.AckDeadline), running(n.Now(), x.RNRDeadline)
		s.Retries = status.Retries{Left: x.Retries, Limit: attr.RetryCnt}
		s.RNRRetries = status.Retries{Left: x.RNRRetries, Limit: attr.RNRRetry}
	}
	if b := x.Bitmaps; b.Count > 0 {
		s.Bitmaps = &status.Bitmaps{Count: b.Count, Bits: b.Bits, Bytes: units.Bytes(b.Bytes()), Kept: b.Kept}
	}
	s.Control, s.Gauges = n.Settings().Control.String(), x.Gauges
	t.EachCounter(func(name string, v uint64) {
		if v == 0 {
			return
		}
		if s.Counters == nil {
			s.Counters = map[string]uint64{}
		}
		s.Counters[name] = v
	})
	return s
}

// addPath fills in where a queue pair's packets go.
func (f *Fabric) addPath(s *status.QP, n attachedNIC, attr *qp.Attr, x *nicemu.QPStatus) {
	s.Local, s.Remote, s.RemoteQPN, s.PathMTU = x.Local, x.Remote, attr.DestQPN, attr.PathMTU.Bytes()
	s.DSCP, s.UDPSourcePort = x.TOS>>2, x.SourcePort
	s.Peer = networkOf(n.iface).holderOf(x.Remote)
	if !x.Loopback {
		s.Class = f.Plan.Nodes[n.iface.Node].Ports[n.iface.Index].ClassName(x.Priority)
	}
}

// running returns how long a timer that ends at end still runs; 0 if it does not run.
func running(now, end units.Time) units.Time {
	if end == units.Never {
		return 0
	}
	return end - now
}
