package systems

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/internal/oracle"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/nicemu/edge/eqdsnic"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// onNative starts a program on a host with its native EQIF. An error that the
// program returns fails the test: it runs on the engine's goroutine.
func onNative(t *testing.T, f *fabric.Fabric, host string, program func(p *sim.Process, n *eqdsnic.Native) error) {
	t.Helper()
	_, err := f.GoEdge(host, func(p *sim.Process, s edge.Service) {
		n, err := eqdsnic.NativeOf(s)
		if err == nil {
			err = program(p, n)
		}
		if err != nil {
			t.Errorf("%s: %v", host, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNativeEQIF_IsTheSameWithAnyNumberOfWorkers: programs on 32 hosts, whose engines run at
// the same time, send messages of bytes to each other over a network that loses packets. Each
// message arrives complete, at the same time with any number of workers, and every packet is
// accounted for.
func TestNativeEQIF_IsTheSameWithAnyNumberOfWorkers(t *testing.T) {
	const hosts, rounds, size = 32, 4, 20_000
	lab := fmt.Sprintf("topology: {kinds: {host: {attach: none, edge: eqds}, link: {loss: 0.5%%}, switch: {%s}}, generate: {star: {hosts: %d, rate: 10Gbps, delay: 1us}}}", trimmingQueues, hosts)
	var first string
	var trace uint64
	for _, workers := range []int{1, 2} {
		f, err := fabric.NewParallel(fabrictest.Parse(t, lab), workers)
		if err != nil {
			t.Fatal(err)
		}
		logs := make([]bytes.Buffer, hosts)
		for i := range hosts {
			onNative(t, f, fmt.Sprintf("h%d", i+1), func(p *sim.Process, n *eqdsnic.Native) error {
				s, err := n.Open(eqdsnic.SocketConfig{Port: 7})
				if err != nil {
					return err
				}
				var sent []*eqdsnic.Sending
				for r := range rounds {
					to := netip.AddrFrom4([4]byte{10, 0, 0, byte((i+r+1)%hosts + 1)})
					m, err := s.Send(netip.AddrPortFrom(to, 7), bytes.Repeat([]byte{byte(i), byte(r)}, size/2))
					if err != nil {
						return err
					}
					sent = append(sent, m)
				}
				for range rounds {
					m, err := s.Receive(p, units.Second)
					if err != nil {
						return err
					}
					if !bytes.Equal(m.Data, bytes.Repeat(m.Data[:2], size/2)) || len(m.Data) != size {
						return fmt.Errorf("a message of %v has other bytes", m.From)
					}
					fmt.Fprintln(&logs[i], p.Now(), m.From, m.Data[:2])
				}
				for _, m := range sent {
					d, err := m.Wait(p, units.Second)
					if err != nil {
						return err
					}
					fmt.Fprintln(&logs[i], d)
				}
				return nil
			})
		}
		runTo(t, f, units.Never)
		f.StopProcesses()
		atRest(t, f)
		var text strings.Builder
		for i := range logs {
			text.Write(logs[i].Bytes())
		}
		if workers == 1 {
			first, trace = text.String(), f.Trace()
			if n := strings.Count(first, "\n"); n != 2*rounds*hosts {
				t.Fatalf("%d lines:\n%s", n, first)
			}
			if edgeGauge(t, f, "resent") == 0 || edgeGauge(t, f, "native_sent") != rounds*hosts {
				t.Error("nothing was lost, or messages were")
			}
		} else if text.String() != first || f.Trace() != trace {
			t.Errorf("%d workers: trace %x, with one %x; %s", workers, f.Trace(), trace, fabrictest.FirstDifference(first, text.String()))
		}
	}
}

// TestNativeEQIF_IsReadByTshark: tshark finds the messages in tunnels with all their bytes and
// no errors, over both versions of IP.
func TestNativeEQIF_IsReadByTshark(t *testing.T) {
	p := fabrictest.Parse(t, "topology: {kinds: {host: {attach: none, edge: eqds}, switch: {"+trimmingQueues+"}}, generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}}")
	f := fabric.New(p)
	h1, _ := p.Node("h1")
	h2, _ := p.Node("h2")
	data := []byte(strings.Repeat("a message ", 400))
	onNative(t, f, "h1", func(p *sim.Process, n *eqdsnic.Native) error {
		s, err := n.Open(eqdsnic.SocketConfig{Port: 9})
		if err != nil {
			return err
		}
		for _, a := range f.Plan.Nodes[h2].Ports[0].Addresses {
			if _, err := s.Send(netip.AddrPortFrom(a.Addr(), 10), data); err != nil {
				return err
			}
			if _, err := s.SendSize(netip.AddrPortFrom(a.Addr(), 10), 100); err != nil {
				return err
			}
		}
		return nil
	})
	frames := captured(t, f, []fabric.Watched{{Node: h1, Out: true}}, func() { runTo(t, f, units.Never) })
	f.StopProcesses()
	got := map[bool]string{}
	for _, row := range oracle.Tshark(t, dissectorFile(t), frames, "frame.protocols", "udp.checksum.status", "ip.checksum.status", "_ws.malformed",
		"eqds_native.srcport", "eqds_native.dstport", "eqds_native.number", "eqds_native.length", "eqds_native.offset", "eqds_native.data") {
		if strings.ContainsAny(row[1]+row[2], "0") || row[3] != "" {
			t.Errorf("%q", row)
		}
		if !strings.Contains(row[0], "eqds:ip:udp:eqds_native") && !strings.Contains(row[0], "eqds:ipv6:udp:eqds_native") {
			continue
		}
		if row[4] != "9" || row[5] != "10" {
			t.Errorf("ports: %q", row)
		}
		six := strings.Contains(row[0], "ipv6")
		if row[6] == "1" && row[7] == "4000" && row[8] == fmt.Sprint(len(got[six])/2) {
			got[six] += row[9]
		} else if row[6] != "2" || row[7] != "100" || row[8] != "0" || row[9] != strings.Repeat("00", 100) {
			t.Errorf("%q", row)
		}
	}
	for _, six := range []bool{false, true} {
		if got[six] != fmt.Sprintf("%x", data) {
			t.Errorf("IPv6 %v: tshark has %d of %d bytes", six, len(got[six])/2, len(data))
		}
	}
	if a := f.Accounts(); !a.Balanced() || a.Dropped != 0 {
		t.Errorf("%+v", a)
	}
}
