package fabric

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/observe/capture"
	"github.com/weftlab/weft/packet"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/switches/congestion"
	"github.com/weftlab/weft/wire"
)

// talker is a congestion point that answers packets with its own packets, of every
// possible kind, and some invalid ones.
type talker struct {
	congestion.Passive
	env   congestion.Env
	rand  *rand.Rand
	to    []packet.Endpoint
	sent  map[string]int
	pause int // packets to let pass before the next
}

var talk = []struct {
	name string
	good bool
	make func(c *talker, seen *packet.Packet) *packet.Packet
}{
	{"UDP", true, func(c *talker, seen *packet.Packet) *packet.Packet { return c.reply(seen, 0, 100) }},
	{"ICMP", true, func(c *talker, seen *packet.Packet) *packet.Packet { return c.reply(seen, 1, 26) }},
	{"another protocol", true, func(c *talker, seen *packet.Packet) *packet.Packet { return c.reply(seen, 2, 1400) }},
	{"no IP", true, func(c *talker, seen *packet.Packet) *packet.Packet { return c.reply(seen, 3, 46) }},
	{"a frame", true, func(c *talker, _ *packet.Packet) *packet.Packet {
		p := c.env.Pool.NewFrame(80)
		clear(p.Frame)
		copy(p.Frame, []byte{0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x88, 0xb5})
		return p
	}},
	{"a copy", true, func(c *talker, seen *packet.Packet) *packet.Packet { return c.env.Pool.ClonePacket(seen) }},
	{"nothing but fields", false, func(c *talker, _ *packet.Packet) *packet.Packet {
		p := c.env.Pool.New()
		p.Version, p.Size = 4, 100
		return p
	}},
	{"without addresses", false, func(c *talker, _ *packet.Packet) *packet.Packet { return c.env.Pool.NewMessage(remarks[0]) }},
	{"shorter than its headers", false, func(c *talker, _ *packet.Packet) *packet.Packet {
		p := c.env.Pool.New()
		p.Version, p.Size = 4, 41
		return p
	}},
	{"longer than a frame", false, func(c *talker, _ *packet.Packet) *packet.Packet {
		p := c.env.Pool.New()
		p.Version, p.Size = 4, 10_000
		return p
	}},
	{"no IP that there is", false, func(c *talker, _ *packet.Packet) *packet.Packet {
		p := c.env.Pool.New()
		p.Version, p.Size = 5, 100
		return p
	}},
	{"shorter than an Ethernet header", false, func(c *talker, _ *packet.Packet) *packet.Packet { return c.env.Pool.NewFrame(13) }},
	{"of no flow", false, func(c *talker, _ *packet.Packet) *packet.Packet {
		p := c.env.Pool.New()
		p.Kind, p.Flow, p.Version, p.Size = packet.Modelled, 99, 4, 100
		return p
	}},
	{"of a NIC, without addresses", false, func(c *talker, _ *packet.Packet) *packet.Packet {
		p := c.env.Pool.NewRoCE()
		p.Version, p.Size = 4, 100
		return p
	}},
	{"of a NIC, with nothing", false, func(c *talker, _ *packet.Packet) *packet.Packet {
		p := c.env.Pool.New()
		p.Kind, p.Version, p.Size = packet.NIC, 4, 100
		return p
	}},
	{"to nobody", false, func(c *talker, _ *packet.Packet) *packet.Packet {
		p := c.env.Pool.New()
		p.Version, p.Size = 4, 100
		return p
	}},
}

// reply makes a remark to the sender of a packet.
func (c *talker) reply(seen *packet.Packet, protocol, n int) *packet.Packet {
	p := c.env.NewReply(seen, remarks[protocol])
	if p == nil {
		return nil
	}
	r := p.Message.Body.(*remark)
	r.text = append(r.text, make([]byte, n)...)
	p.SrcPort, p.TOS = 7, 46<<2
	return p
}

func (c *talker) OnEnqueue(_ units.Time, _ congestion.Queue, p *packet.Packet) packet.Fate {
	if c.pause--; c.pause > 0 || p.Kind == packet.Real {
		return packet.Fine
	}
	c.pause = 1 + c.rand.IntN(5)
	kind := talk[c.rand.IntN(len(talk))]
	q := kind.make(c, p)
	if q == nil {
		return packet.Fine // to a host that cannot be found
	}
	if kind.name != "a copy" && q.Message == nil {
		q.Dest = c.to[c.rand.IntN(len(c.to))]
	}
	if kind.name == "to nobody" {
		q.Dest = 77
	}
	c.sent[kind.name]++
	c.env.Send(q)
	return packet.Fine
}

// withTalkers builds a fabric in which every queue of a switch has a talker, and
// returns what they have sent.
func withTalkers(p *plan.Plan) (f *Fabric, sent map[string]int) {
	sent = map[string]int{}
	defer func(make func(congestion.Choice, congestion.Env) congestion.Point) { newPoint = make }(newPoint)
	newPoint = func(_ congestion.Choice, env congestion.Env) congestion.Point {
		if strings.HasPrefix(env.Name, "h") {
			return nil // of a host
		}
		return &talker{env: env, rand: env.Rand, sent: sent, to: []packet.Endpoint{packet.Flood, 0, 1, 2}}
	}
	return New(p), sent
}

// byWallClock runs a fabric of one shard in the wall clock for an emulated time.
func byWallClock(t *testing.T, f *Fabric, until units.Time) {
	t.Helper()
	d, err := wall.NewDriver(f.Shards[0].Engine, wall.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := d.Run(ctx, wall.NewClock(1), until, func() {}); err != nil {
			t.Error(err)
		}
	})
	ended.Wait()
}

// TestCongestionPointPackets_AreCapturedWhole: packets from congestion points are in captures,
// whole and well-formed, and in the accounts; what cannot be a frame is refused. In virtual
// time and in the wall clock.
func TestCongestionPointPackets_AreCapturedWhole(t *testing.T) {
	const modelled = `
  nodes: {s1: {kind: switch%s}, h1: {kind: host}, h2: {kind: host}, h3: {kind: host}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 1Gbps}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 1Gbps}
    - {endpoints: ["h3:eth0", "s1:3"], rate: 1Gbps}
%s
duration: 30ms
`
	const flows = `workload: [{cbr: {from: [h1, h2], to: h3, rate: 600Mbps, size: 1000B}}]`
	const classes = ", classes: {headers: {dscp: 10, priority: 7, limit: 24KB}, data: {dscp: 0, priority: 1, limit: 12KB, trim: {preset: ndp, dscp: 10}}}"
	for name, text := range map[string]string{
		"plain ports":        "topology:" + fmt.Sprintf(modelled, "", flows),
		"ports with classes": "topology:" + fmt.Sprintf(modelled, classes, flows),
		"a router":           "topology:" + fmt.Sprintf(modelled, ", address: auto", flows),
		"hosts with NICs":    "topology:\n  kinds: {host: {attach: none, nic: {}}}" + fmt.Sprintf(modelled, "", `workload: [{write: {from: h1, to: h3, size: 1MB}}, {write: {from: h2, to: h3, size: 1MB}}]`),
	} {
		p, routed := parse(t, text), name == "a router"
		for clock, run := range map[string]func(*testing.T, *Fabric, units.Time){
			"in virtual time": func(t *testing.T, f *Fabric, until units.Time) {
				if err := f.Run(context.Background(), until); err != nil {
					t.Fatal(err)
				}
			},
			"by the wall clock": byWallClock,
		} {
			t.Run(name+" "+clock, func(t *testing.T) {
				f, sent := withTalkers(p)
				file := captured(t, f, func() { run(t, f, 30*units.Millisecond) })
				good, bad := uint64(0), uint64(0)
				for _, kind := range talk {
					if n := sent[kind.name]; n == 0 && routed && kind.name == "no IP" {
						continue // it does not pass routers
					} else if n == 0 {
						t.Errorf("no packet was sent: %s", kind.name)
					} else if kind.good {
						good += uint64(n)
					} else {
						bad += uint64(n)
					}
				}
				checkTalk(t, file, routed)
				a := f.Accounts()
				originated, unsent := uint64(0), uint64(0)
				for _, sw := range f.Switches {
					if sw != nil {
						originated, unsent = originated+sw.OriginatedPackets(), unsent+sw.UnsentPackets()
					}
				}
				if originated < good+bad || unsent < bad || !a.Balanced() {
					t.Errorf("%d originated, %d unsent of %d good and %d bad ones; accounts %+v", originated, unsent, good, bad, a)
				}
			})
		}
	}
}

// captured runs a function while all ports are captured.
func captured(t *testing.T, f *Fabric, run func()) *bytes.Buffer {
	t.Helper()
	var ports []Watched
	for n := range f.Plan.Nodes {
		for i := range f.Plan.Nodes[n].Ports {
			ports = append(ports, Watched{Node: n, Port: i, In: true, Out: true})
		}
	}
	c, err := f.NewCapture(ports, capture.Options{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	file := new(bytes.Buffer)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(context.Background(), file)
		ended <- err
	}()
	stop := f.Watch(ports, c)
	run()
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return file
}

// dscpOf returns the DSCP of an IP packet.
func dscpOf(p gopacket.Packet) uint8 {
	if ip, ok := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4); ok {
		return ip.TOS >> 2
	}
	ip, _ := p.Layer(layers.LayerTypeIPv6).(*layers.IPv6)
	return ip.TrafficClass >> 2
}

// checkTalk checks a capture of a fabric with talkers.
func checkTalk(t *testing.T, file *bytes.Buffer, routed bool) {
	t.Helper()
	r, err := pcapgo.NewNgReader(file, pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for {
		b, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		p := gopacket.NewPacket(b, layers.LayerTypeEthernet, gopacket.Default)
		udp, _ := p.Layer(layers.LayerTypeUDP).(*layers.UDP)
		switch ether := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet); {
		case udp != nil && dscpOf(p) == 10: // trimmed
		case info.Length != len(b):
			t.Fatalf("%d of %d bytes: % x", len(b), info.Length, b)
		case ether.EthernetType == 0x88b5 && len(b) == 80:
			seen["a frame"]++
		case ether.EthernetType == 0x88b5 && len(b) == 60:
			seen["no IP"]++
		case udp != nil && udp.SrcPort == 7 && udp.DstPort == layers.UDPPort(remarks[0].Port):
			seen["UDP"]++
			if p.ErrorLayer() != nil || len(udp.Payload) != 100 {
				t.Fatalf("%v: % x", p.ErrorLayer(), b)
			}
		case p.Layer(layers.LayerTypeICMPv4) != nil || p.Layer(layers.LayerTypeICMPv6) != nil:
			seen["ICMP"]++
		case len(b) >= 1434 && b[wire.EthernetHeader+9] == 253:
			seen["another protocol"]++
		}
	}
	for _, kind := range talk {
		if kind.good && kind.name != "a copy" && seen[kind.name] == 0 && !(routed && kind.name == "no IP") {
			t.Errorf("the capture has no %s: %v", kind.name, seen)
		}
	}
}
