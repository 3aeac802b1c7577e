package lab

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/nicemu/edge/eqdsnic"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// Go programs on real hosts send each other messages over the native EQIF of EQDS
// in wall-clock time, on one engine and on two, over both versions of IP. The bytes are
// correct, every delivery is reported, and no packet is missing.
func TestNative_DeliversMessagesOfPrograms(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			t.Parallel()
			plan, err := resolve.Parse("native.yaml", fmt.Appendf(nil, `
name: %s
topology:
  kinds:
    link: {rate: 200Mbps, delay: 50us}
    host: {edge: eqds}
    switch: {classes: {control: {dscp: [10, 48], priority: 6}, default: {weight: 1, limit: 12KB, trim: {preset: ndp, dscp: 10}}}}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}, s2: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["s1:2", "s2:2"], delay: 200us}
    - {endpoints: ["h2:eth0", "s2:1"]}
`, labName("native")))
			if err != nil {
				t.Fatal(err)
			}
			plan.Engine.Workers = workers
			l, _, stop := startTwo(t, plan)
			n, _ := plan.Node("h2")
			results := make(chan error, 2)
			const rounds, port = 3, 7
			// program starts one of the two programs. Its error does not use t, which must
			// not end the engine's goroutine.
			program := func(host string, f func(p *sim.Process, n *eqdsnic.Native) error) {
				l.on(t, func() error {
					_, err := l.fabric.GoEdge(host, func(p *sim.Process, s edge.Service) {
						n, err := eqdsnic.NativeOf(s)
						if err == nil {
							err = f(p, n)
						}
						if err != nil {
							err = fmt.Errorf("%s: %w", host, err)
						}
						results <- err
					})
					return err
				})
			}
			addresses := plan.Nodes[n].Ports[0].Addresses
			program("h2", func(p *sim.Process, n *eqdsnic.Native) error {
				s, err := n.Open(eqdsnic.SocketConfig{Port: port})
				if err != nil {
					return err
				}
				defer s.Close()
				var last *eqdsnic.Sending
				for range rounds * len(addresses) {
					m, err := s.Receive(p, units.Never)
					if err != nil {
						return err
					}
					if last, err = s.Send(m.From, m.Data); err != nil {
						return err
					}
				}
				_, err = last.Wait(p, units.Never)
				return err
			})
			program("h1", func(p *sim.Process, n *eqdsnic.Native) error {
				s, err := n.Open(eqdsnic.SocketConfig{})
				if err != nil {
					return err
				}
				defer s.Close()
				random := rand.NewChaCha8([32]byte{byte(workers)})
				data := make([]byte, 50_001)
				for _, a := range addresses {
					to := netip.AddrPortFrom(a.Addr(), port)
					for range rounds {
						_, _ = random.Read(data)
						m, err := s.Send(to, data)
						if err != nil {
							return err
						}
						d, err := m.Wait(p, units.Never)
						if err != nil {
							return err
						}
						if d.RTT < 600*units.Microsecond {
							return fmt.Errorf("%+v, over links of 300 us each way", d)
						}
						back, err := s.Receive(p, units.Never)
						if err != nil {
							return err
						}
						if back.From != to || !bytes.Equal(back.Data, data) {
							return fmt.Errorf("%d bytes of %v, and not what was sent", len(back.Data), back.From)
						}
					}
				}
				return nil
			})
			for range 2 {
				if err := await.Receive(t, "the end of a program", results); err != nil {
					t.Error(err)
				}
			}
			stop()
			if a := l.Report().Accounts; !a.Balanced() || a.Dropped > a.Drops["no-receiver"] {
				t.Errorf("%+v", a)
			}
		})
	}
}
