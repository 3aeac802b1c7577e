package fabric

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/routing"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/port"
	"github.com/weftlab/weft/wire"
)

// remark is the body of a protocol of this test.
type remark struct{ text []byte }

func (n *remark) Len() int             { return len(n.text) }
func (n *remark) EncodeTo(b []byte)    { copy(b, n.text) }
func (n *remark) Set(from packet.Body) { n.text = append(n.text[:0], from.(*remark).text...) }
func (n *remark) Reset()               { n.text = n.text[:0] }
func newRemark() packet.Body           { return &remark{} }

var remarks = []*packet.MessageProtocol{
	packet.NewMessageProtocol(packet.MessageProtocol{Name: "udp note", Proto: wire.ProtoUDP, Proto6: wire.ProtoUDP, Port: 50000, New: newRemark}),
	packet.NewMessageProtocol(packet.MessageProtocol{Name: "icmp note", Proto: wire.ProtoICMP, Proto6: wire.ProtoICMPv6, New: newRemark}),
	packet.NewMessageProtocol(packet.MessageProtocol{Name: "ip note", Proto: 253, Proto6: 253, New: newRemark}),
	packet.NewMessageProtocol(packet.MessageProtocol{Name: "ethernet note", Ether: 0x88b5, New: newRemark}),
}

const messageLab = `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch%[1]s}, s2: {kind: switch%[1]s}}
  kinds:
    host: {attach: none}
    switch: {%[2]s}
    link: {rate: 1Gbps, delay: 1us, duplicate: %[3]s}
  links:
    - {endpoints: ["h1:eth0", "s1:h1"]}
    - {endpoints: ["s1:s2", "s2:s1"], rate: 10Mbps}
    - {endpoints: ["h2:eth0", "s2:h2"]}
workload:
  - {cbr: {from: h1, to: h2, rate: 1Mbps, size: 100B, for: 1ms}}
`

// TestMessages_TravelLikeOtherPackets: packets of protocols that come with other systems are
// switched, routed, duplicated, captured, trimmed and accounted for like others, over IPv4,
// IPv6 and Ethernet, and reach their receivers.
func TestMessages_TravelLikeOtherPackets(t *testing.T) {
	for _, c := range []struct {
		name, address, classes, duplicate string
		workers                           int
	}{
		{"switched", "", "", "0%", 1},
		{"in two workers", "", "", "0%", 2},
		{"routed", ", address: auto", "", "0%", 1},
		{"duplicated", "", "", "100%", 2},
		{"trimmed", "", "classes: {cut: {dscp: 10, priority: 7, limit: 100KB}, default: {limit: 2KB, trim: {dscp: 10}}}", "0%", 1},
	} {
		for i, protocol := range remarks {
			for _, version := range []uint8{4, 6} {
				if protocol.Ether != 0 && (version == 6 || c.address != "") {
					continue // no IP: no versions, and routers do not take it
				}
				t.Run(fmt.Sprintf("%s/%s over IPv%d", c.name, protocol.Name, version), func(t *testing.T) {
					checkMessages(t, fmt.Sprintf(messageLab, c.address, c.classes, c.duplicate), c.workers, i, version, c.name)
				})
			}
		}
	}
}

func checkMessages(t *testing.T, lab string, workers, protocol int, version uint8, what string) {
	const sent, size = 40, 600
	f, err := NewWithWorkers(parse(t, lab), workers)
	if err != nil {
		t.Fatal(err)
	}
	from, to := f.Interfaces[0], f.Interfaces[1]
	whole, trimmed := 0, 0
	to.SetReceiver(remarks[protocol], func(_ units.Time, p *packet.Packet) {
		text := p.Message.Body.(*remark).text
		if len(text) != size || text[0] != 'x' {
			t.Errorf("%d bytes came", len(text))
		}
		if p.Trimmed {
			trimmed++
		} else {
			whole++
		}
		to.Pool.Free(p)
	})
	frames := 0
	s1, _ := f.Plan.Node("s1")
	f.Port(s1, 0).SetObserver(0, observer(func(p *packet.Packet, _ port.Direction, _ packet.Fate) {
		if p.Kind == packet.Protocol {
			frames++
			checkMessageFrame(t, p)
		}
	}))
	for range sent {
		p := from.Pool.NewMessage(remarks[protocol])
		m := p.Message
		m.Body.(*remark).text = append(m.Body.(*remark).text, make([]byte, size)...)
		m.Body.(*remark).text[0] = 'x'
		if remarks[protocol].Ether == 0 {
			m.From, _ = plan.AddressOf(&f.Plan.Nodes[from.Node].Ports[0], version == 6)
			m.To, _ = plan.AddressOf(&f.Plan.Nodes[to.Node].Ports[0], version == 6)
		}
		p.SrcPort = 40000
		p.SetFields()
		hop, _ := f.Neighbours(from).FirstHop(m.To)
		if remarks[protocol].Ether != 0 {
			hop = routing.FirstHop{Dest: to.ID, MAC: to.MAC}
		}
		p.Src, p.Dst, p.To, p.Dest = from.MAC, hop.MAC, hop.To, hop.Dest
		from.OriginatePacket(0, p)
	}
	if err := f.Run(context.Background(), units.Never); err != nil {
		t.Fatal(err)
	}
	if a := f.Accounts(); !a.Balanced() {
		t.Errorf("%+v", a)
	}
	switch {
	case frames == 0:
		t.Error("no frames were looked at")
	case what == "trimmed" && remarks[protocol].Ether == 0:
		if trimmed == 0 || whole == 0 || whole+trimmed != sent {
			t.Errorf("%d whole, %d trimmed", whole, trimmed)
		}
	case what == "trimmed":
		if trimmed > 0 || whole == 0 {
			t.Errorf("%d whole, %d trimmed", whole, trimmed)
		}
	case what == "duplicated":
		if whole != 8*sent {
			t.Errorf("%d came", whole)
		}
	case whole != sent:
		t.Errorf("%d came", whole)
	}
}

// checkMessageFrame compares the bytes of a packet with gopacket's reading of them.
func checkMessageFrame(t *testing.T, p *packet.Packet) {
	frame := new(renderer).render(p, nil)
	if units.Bytes(len(frame)) != p.Size {
		t.Fatalf("%d bytes of %d", len(frame), p.Size)
	}
	g := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	m := p.Message
	if l := g.NetworkLayer(); p.Version != 0 {
		if l == nil {
			t.Fatal(g)
		}
		src, dst := l.NetworkFlow().Endpoints()
		if src.String() != m.From.String() || dst.String() != m.To.String() {
			t.Errorf("from %v to %v", src, dst)
		}
	}
	if p.Trimmed || p.Proto != wire.ProtoUDP && p.Proto != wire.ProtoICMP && p.Proto != wire.ProtoICMPv6 {
		return
	}
	// The sum of the IP payload with its checksum is 0.
	rest := frame[p.L3:]
	if p.Version == 4 {
		rest = rest[wire.IPv4Header:]
	} else {
		rest = rest[wire.IPv6Header:]
	}
	sum := uint32(0)
	if p.Proto != wire.ProtoICMP {
		sum = pseudoHeader(p, len(rest))
	}
	if wire.Checksum(rest, sum) != 0 {
		t.Errorf("the checksum of protocol %d over IPv%d is wrong", p.Proto, p.Version)
	}
}
