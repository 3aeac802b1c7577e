package fabric

import (
	"net"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/links/device/gso"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
)

// trainInbox is an inbox that takes trains.
type trainInbox struct {
	inbox
	trains int
}

func (b *trainInbox) DeliverTrain(now units.Time, p *packet.Packet) {
	b.trains++
	b.pool.SplitTrain(p, func(q *packet.Packet) { b.DeliverPacket(now, q) })
}

// superTCP lets a host enter a super-packet of TCP to another.
func superTCP(t *testing.T, from, to *hosts.Interface, seq uint32, payload, size int) {
	t.Helper()
	tcp := &layers.TCP{SrcPort: 1, DstPort: 2, Seq: seq, ACK: true, PSH: true, Window: 100}
	h := &layers.IPv4{Version: 4, TTL: 64, Id: uint16(seq), Flags: layers.IPv4DontFragment, Protocol: layers.IPProtocolTCP, SrcIP: net.IP(addressOf(from, false).AsSlice()), DstIP: net.IP(addressOf(to, false).AsSlice())}
	_ = tcp.SetNetworkLayerForChecksum(h)
	frame := frameOf(t, from, h, tcp, gopacket.Payload(make([]byte, payload)))
	enterSuper(t, from, frame, gso.Header{Flags: gso.NeedsCsum, GSOType: gso.GSOTCPv4, GSOSize: uint16(size)})
}

// TestTrains_EqualSinglePackets: whether a super-packet passes as a train or as packets makes
// no difference, and it passes as a train where links have neither rate nor delay and ports do
// nothing but count.
func TestTrains_EqualSinglePackets(t *testing.T) {
	fabrictest.SkipUnderRace(t)
	nodes := func(kind, link string) string {
		return "nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch" + kind + "}}, links: [{endpoints: [\"h1:eth0\", \"s1:1\"]}, {endpoints: [\"s1:2\", \"h2:eth0\"]" + link + "}]"
	}
	for name, c := range map[string]struct {
		topology string
		watch    string // a port that is captured
		plain    bool   // the receiver takes no trains
		trains   int    // that arrive, of 3
	}{
		"a direct link":      {topology: "nodes: {h1: {kind: host}, h2: {kind: host}}, links: [{endpoints: [\"h1:eth0\", \"h2:eth0\"]}]", trains: 3},
		"a switch":           {topology: nodes("", ""), trains: 3},
		"ECMP at leaves":     {topology: "generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1}}", trains: 3},
		"random spraying":    {topology: "kinds: {switch: {forwarding: random}}, generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1}}"},
		"spraying in turn":   {topology: "kinds: {switch: {forwarding: round-robin}}, generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1}}"},
		"real clocks":        {topology: "kinds: {switch: {clock: real}, host: {clock: real}}, " + nodes("", ""), trains: 3},
		"a rate":             {topology: nodes("", ", rate: 1Gbps")},
		"a full queue":       {topology: "kinds: {switch: {queue: {limit: 20KB}}}, " + nodes("", ", rate: 1Gbps")},
		"a small queue":      {topology: "kinds: {switch: {queue: {limit: 1600B}}}, " + nodes("", ""), trains: 3},
		"a delay":            {topology: nodes("", ", delay: 10us")},
		"a lossy link":       {topology: nodes("", ", loss: 20%")},
		"a smaller MTU":      {topology: nodes("", ", mtu: 1400")},
		"a marking queue":    {topology: "kinds: {switch: {queue: {limit: 1MB, mark: {step: {k: 1B}}}}}, " + nodes("", "")},
		"ports with classes": {topology: "kinds: {switch: {classes: {default: {weight: 1}}}}, " + nodes("", "")},
		"a router":           {topology: "kinds: {switch: {address: auto}}, " + nodes("", "")},
		"an edge service":    {topology: "kinds: {host: {edge: {limit: {rate: 1Gbps}}}}, " + nodes("", "")},
		"a capture":          {topology: nodes("", ""), watch: "h2:eth0"},
		"a capture before":   {topology: nodes("", ""), watch: "s1:1"},
		"a plain device":     {topology: nodes("", ""), plain: true},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(trains bool) (all []any, passed int) {
				f := New(parse(t, "duration: 1s\ntopology: {"+c.topology+"}\n"))
				from, to := f.Interfaces[0], f.Interfaces[1]
				in := &trainInbox{inbox: inbox{pool: to.Pool}}
				to.Attach(in)
				if c.plain {
					to.Attach(&in.inbox)
				}
				from.Attach(&inbox{pool: from.Pool})
				var seen [][]byte
				watch := observer(func(p *packet.Packet, _ port.Direction, _ packet.Fate) {
					if p.Kind != packet.Real {
						t.Errorf("a capture sees a packet of kind %d", p.Kind)
					}
					seen = append(seen, gso.RenderPacket(p, nil))
				})
				if c.watch != "" {
					n, i, _ := f.Plan.Endpoint(c.watch)
					f.Port(n, i).SetObserver(0, watch)
				}
				if !trains { // of captured ports packets leave one by one
					from.Port.SetObserver(0, observer(func(*packet.Packet, port.Direction, packet.Fate) {}))
				}
				superTCP(t, from, to, 1000, 20*1400+100, 1400)
				superTCP(t, from, to, 30000, 3*1400, 1400)
				superTCP(t, from, to, 40000, 40*1448, 1448)
				finish(t, f)
				return append(outcome(f), in.got, seen), in.trains
			}
			want, none := run(false)
			got, passed := run(true)
			if diff := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
				t.Errorf("as trains (-want +got):\n%s", diff)
			}
			if none != 0 || passed != c.trains {
				t.Errorf("%d and %d trains arrived, not none and %d", none, passed, c.trains)
			}
		})
	}
}
