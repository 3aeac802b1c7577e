package fabric

import (
	"context"
	"fmt"
	"testing"

	"github.com/weftlab/weft/emu/units"
)

// run runs the fabric of a lab file to its end.
func runTransfers(t *testing.T, lab string, shards int) *Fabric {
	t.Helper()
	f, err := NewSharded(parse(t, lab), shards)
	if err != nil {
		t.Fatal(err)
	}
	until := f.Plan.Duration
	if until == 0 {
		until = units.Never
	}
	if err := f.Run(context.Background(), until); err != nil {
		t.Fatal(err)
	}
	if a := f.Accounts(); !a.Balanced() || a.Held != 0 {
		t.Errorf("accounts: %+v", a)
	}
	return f
}

// TestTransfersOfEveryKind runs each verb over each service that has it, over both
// versions of IP, alone on its path: the completion time is the ideal one.
func TestTransfersOfEveryKind(t *testing.T) {
	for _, v := range []string{"4", "6"} {
		for _, kind := range []string{"write rc", "write uc", "read rc", "send rc", "send uc", "send ud"} {
			var verb, service string
			_, _ = fmt.Sscan(kind, &verb, &service)
			t.Run(kind+" ipv"+v, func(t *testing.T) {
				size := "100KB"
				if service == "ud" {
					size = "1000B"
				}
				lab := fmt.Sprintf(`
topology:
  kinds: {host: {nic: roce}}
  generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}
workload:
  - %s: {from: h1, to: h2, size: %s, count: 10, depth: 1, service: %s, ip: %s}
`, verb, size, service, v)
				f := runTransfers(t, lab, 1)
				r := f.Transfers()[0]
				if r.Completed != 10 || r.Failed != 0 || r.Retransmitted != 0 || r.Received != r.Payload {
					t.Errorf("%+v", r)
				}
				if r.SlowdownMax < 0.99 || r.SlowdownMax > 1.03 {
					t.Errorf("completion takes %v us, ideally %v us", r.CompletionMax, r.Ideal)
				}
			})
		}
	}
}

// TestPostedOneByOne: a message that is posted alone completes within the ideal
// time, also where that is before anything else happens: UC and UD complete when
// the last packet begins to leave.
func TestPostedOneByOne(t *testing.T) {
	for _, service := range []string{"rc", "uc", "ud"} {
		f := runTransfers(t, fmt.Sprintf(`
duration: 1ms
topology:
  kinds: {host: {nic: roce}}
  generate: {star: {hosts: 2, rate: 10Gbps, delay: 1us}}
workload:
  - {send: {from: h1, to: h2, size: 100B, count: 10, every: 50us, service: %s}}
`, service), 1)
		if r := f.Transfers()[0]; r.Completed != 10 || r.SlowdownMax > 1.03 {
			t.Errorf("%s: %d completed, in %v us, ideally %v us", service, r.Completed, r.CompletionMax, r.Ideal)
		}
	}
}
