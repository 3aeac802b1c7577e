package fabric

import (
	"context"
	"fmt"
	"io"
	"testing"

	"pgregory.net/rapid"

	"github.com/weftlab/weft/emu/fabric/fabrictest"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/observe/capture"
	"github.com/weftlab/weft/traffic/workload"
)

// nicOutcome is outcome with the results of NICs and transfers.
func nicOutcome(f *Fabric) []any {
	type counters struct {
		NIC nicemu.Counters
		QPs any
	}
	all := append(outcome(f), f.Transfers())
	for _, n := range f.nics {
		a, b := n.Counters()
		all = append(all, counters{a, b})
	}
	return all
}

// TestTransfers_AreTheSameWithAnyNumberOfWorkers: whatever switches and links do to transfers,
// every packet is accounted for, and neither the number of workers nor inspections, at any
// time, change anything.
func TestTransfers_AreTheSameWithAnyNumberOfWorkers(t *testing.T) {
	fabrictest.Check(t, 30, func(rt *rapid.T) {
		runSound(rt, fabrictest.DrawNICLab(rt), soundness{workers: 4, watch: watchAll, outcome: nicOutcome})
	})
}

// TestTransfers_SurviveOrFailTheSameWithAnyNumberOfWorkers: the same, for labs in which
// transfers slow down, lose packets, time out and fail.
func TestTransfers_SurviveOrFailTheSameWithAnyNumberOfWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		nic, link, events string
		happens           func(s *workload.TransferSums) bool
	}{
		"marks slow them down": {
			nic: "cc: dcqcn", happens: func(s *workload.TransferSums) bool {
				return s.CNPs > 0 && s.Completed > 0 && s.Failed == 0
			},
		},
		"links lose packets": {
			nic: "timeout: 65us", link: ", loss: 1%", happens: func(s *workload.TransferSums) bool {
				return s.NAKs > 0 && s.Retransmitted > 0 && s.Timeouts > 0 && s.Completed > 0
			},
		},
		"a link fails": {
			nic: "timeout: 65us, retries: 1", events: "events:\n  - {at: 1ms, link: \"h4:eth0\", set: {state: down}}\n",
			happens: func(s *workload.TransferSums) bool {
				return s.Timeouts > 0 && s.Failed > 0 && s.Completed > 0
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := runSound(t, fmt.Sprintf(`
duration: 2ms
topology:
  kinds:
    host: {attach: none, nic: {dscp: 26, %s}}
    switch: {classes: {cnp: {dscp: 48, priority: 6}, roce: {dscp: 26, priority: 3, limit: 300KB, mark: {step: {k: 20KB}}}}}
  generate: {dumbbell: {left: 3, right: 2, rate: 10Gbps, delay: 1us%s}}
%sworkload:
  - {incast: {to: h4, from: [h1, h2, h3], size: 50KB, count: unlimited}}
  - {read: {from: h4, to: h1, size: 20KB, count: unlimited, every: 100us}}
  - {send: {from: h5, to: h2, size: 30KB, count: unlimited, every: 100us}}
`, c.nic, c.link, c.events), soundness{workers: 4, watch: watchAll, outcome: nicOutcome})
			if s := workload.SumTransfers(f.Transfers()); !c.happens(s) {
				t.Errorf("%+v", s)
			}
		})
	}
}

// watchAll captures at all ports. The function that it returns stops that.
func watchAll(t rapid.TB, f *Fabric) (end func()) {
	var ports []Watched
	for n := range f.Plan.Nodes {
		for i := range f.Plan.Nodes[n].Ports {
			if f.ports[n][i].Link() != nil {
				ports = append(ports, Watched{Node: n, Port: i, In: true, Out: true})
			}
		}
	}
	c, err := f.NewCapture(ports, capture.Options{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(context.Background(), io.Discard)
		ended <- err
	}()
	stop := f.Watch(ports, c)
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}
