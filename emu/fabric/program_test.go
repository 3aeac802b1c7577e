package fabric

import (
	"context"
	"strings"
	"testing"

	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
)

// TestGo_RunsProgramsWithTheirOwnNIC starts programs on hosts of two workers, each with its
// own NIC, and on hosts that have none.
func TestGo_RunsProgramsWithTheirOwnNIC(t *testing.T) {
	p, err := resolve.Parse("lab.yaml", []byte(`
name: programs
topology:
  kinds: {host: {attach: none, nic: roce}}
  generate: {star: {hosts: 3, rate: 1Gbps, delay: 1us}}
  nodes: {h3: {nic: none}}
`))
	if err != nil {
		t.Fatal(err)
	}
	f, err := NewWithWorkers(p, 2)
	if err != nil {
		t.Fatal(err)
	}
	var names [2]string
	var started [3]*sim.Process
	for i, host := range []string{"h1", "h2"} {
		started[i], err = f.Go(host, func(p *sim.Process, d *nicemu.Device) {
			names[i] = d.Name()
			if own, err := f.DeviceOf(host); own != d || err != nil || f.EngineOf(d).Now() != p.Now() {
				t.Errorf("%s got the NIC of another, or another engine's: %v", host, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if started[2], err = f.Go("h1", func(p *sim.Process, _ *nicemu.Device) { p.Sleep(units.Never) }); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{"h3": "nic: roce", "s1": "no NIC", "h9": "no host"} {
		if _, err := f.Go(host, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a program on %s: %v", host, err)
		}
	}
	if err := f.Run(context.Background(), units.Never); err != nil {
		t.Fatal(err)
	}
	if names != [2]string{"h1:eth0", "h2:eth0"} || !started[0].Done() || started[2].Done() {
		t.Errorf("the programs had %q; ended: %v, %v", names, started[0].Done(), started[2].Done())
	}
	f.StopProcesses()
	if !started[2].Done() {
		t.Error("a process that sleeps was not stopped")
	}
}
