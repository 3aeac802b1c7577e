package eqdsnic_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/nicemu/edge"
	"github.com/weftlab/weft/nicemu/edge/eqdsnic"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// lab is three hosts with EQDS at a switch that trims.
const lab = `
name: native
topology:
  kinds:
    host: {attach: none, edge: eqds}
    switch: {classes: {control: {dscp: [10, 48], priority: 6}, default: {weight: 1, limit: 12KB, trim: {preset: ndp, dscp: 10}}}}
  generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}
`

// A server answers requests of two clients, over the native EQIF. On its way to the server a
// client's data waits at the client, not in the network.
func Example() {
	f := fabric.New(must(resolve.Parse("lab.yaml", []byte(lab))))
	server := netip.MustParseAddrPort("10.0.0.1:80")
	must(f.GoEdge("h1", func(p *sim.Process, s edge.Service) {
		socket := must(must(eqdsnic.NativeOf(s)).Open(eqdsnic.SocketConfig{Port: server.Port()}))
		for range 2 {
			m := must(socket.Receive(p, units.Never))
			must(socket.Send(m.From, []byte("thanks for "+string(m.Data[:5]))))
		}
	}))
	for i, host := range []string{"h2", "h3"} {
		must(f.GoEdge(host, func(p *sim.Process, s edge.Service) {
			native := must(eqdsnic.NativeOf(s))
			socket := must(native.Open(eqdsnic.SocketConfig{}))
			request := make([]byte, 500_000)
			copy(request, []string{"bread", "honey"}[i])
			sending := must(socket.Send(server, request))
			p.Sleep(200 * units.Microsecond)
			d := native.Destination(server.Addr())
			fmt.Printf("%s: %d packets wait, %d KB with the program\n", host, d.Packets, d.Backlog/1000)
			delivery := must(sending.Wait(p, units.Second))
			fmt.Printf("%s: %d packets delivered, %d sent again\n", host, delivery.Packets, delivery.Resent)
			answer := must(socket.Receive(p, units.Second))
			fmt.Printf("%s: %s\n", host, answer.Data)
		}))
	}
	check(f.Run(context.Background(), units.Never))
	f.StopProcesses()
	// Output:
	// h2: 100 packets wait, 250 KB with the program
	// h3: 100 packets wait, 233 KB with the program
	// h3: 354 packets delivered, 40 sent again
	// h3: thanks for honey
	// h2: 354 packets delivered, 50 sent again
	// h2: thanks for bread
}

// must is for examples, where nothing can fail.
func must[T any](x T, err error) T {
	check(err)
	return x
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
