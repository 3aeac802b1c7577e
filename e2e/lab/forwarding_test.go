package lab

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/internal/await"
)

// table returns a switch's current next hops to a host's interface, or a
// router's to a prefix.
func table(l *testlab.Lab, sw, to string) string {
	l.T.Helper()
	var t lab.Table
	if err := json.Unmarshal([]byte(l.Must("ps", "--json", "-t", sw, l.Name)), &t); err != nil {
		l.T.Fatal(err)
	}
	for _, r := range t.Routes {
		if r.Host == to {
			return strings.Join(r.Ports, " ")
		}
	}
	for _, p := range t.Prefixes {
		if p.To == to {
			return strings.Join(p.Ports, " ")
		}
	}
	l.T.Fatalf("%s knows no %s", sw, to)
	return ""
}

// becomes waits until table returns these next hops.
func becomes(l *testlab.Lab, sw, to, want string) {
	l.T.Helper()
	got := ""
	for end := time.Now().Add(await.Limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if got = table(l, sw, to); got == want {
			return
		}
	}
	l.T.Fatalf("the ways of %s to %s are %q, and do not become %q", sw, to, got, want)
}

// over returns what each of two spines has carried from leaf1.
func over(l *testlab.Lab) (spine1, spine2 uint64) {
	p := l.Ports()
	return p["leaf1:spine1"].TxPackets, p["leaf1:spine2"].TxPackets
}

// TestTrafficSurvivesAFailure: an iperf3 run of several connections over two
// spines continues over one of them when the link to the other is cut, uses
// both again when it is restored, and succeeds; with one worker and with two.
func TestTrafficSurvivesAFailure(t *testing.T) {
	for name, workers := range map[string]string{"one worker": "1", "two workers": "2"} {
		t.Run(name, func(t *testing.T) {
			l := testlab.StartOn(t, workers, `
topology:
  reroute: {after: 300ms}
  kinds: {switch: {forwarding: {flowlet: {gap: 20ms}}}}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1, rate: 50Mbps, delay: 500us}}
`, "iperf3")
			for _, family := range []string{"-4", "-6"} {
				if family == "-6" && name == "two workers" {
					continue
				}
				both := "spine1 spine2"
				becomes(l, "leaf1", "h2:eth0", both)
				done := make(chan testlab.Iperf)
				go func() {
					defer close(done)
					// Long enough to cut, check, restore and check on a busy
					// machine.
					done <- l.TryIperf3("h1", "h2", "h2", family, "-P", "8", "-t", "12")
				}()
				// Both carry a substantial share of the traffic.
				moves(l, true, true)

				l.Must("set", "-l", l.Name, "leaf1:spine1", "state=down")
				becomes(l, "leaf1", "h2:eth0", "spine2")
				becomes(l, "leaf2", "h1:eth0", "spine2")
				cut, _ := over(l)
				moves(l, false, true)
				if now, _ := over(l); now != cut {
					t.Errorf("%s: the link that was cut carried %d packets", family, now-cut)
				}

				l.Must("set", "-l", l.Name, "leaf1:spine1", "state=up")
				becomes(l, "leaf1", "h2:eth0", both)
				becomes(l, "leaf2", "h1:eth0", both)
				moves(l, true, true)

				r := <-done
				if r.Error != "" || r.End.Received.Bytes == 0 {
					t.Errorf("%s: iperf3: %s, %.0f bytes", family, r.Error, r.End.Received.Bytes)
				}
				t.Logf("%s: %.1f Mb/s through it all", family, r.End.Received.Bits/1e6)
			}
			l.WaitQuiet()
			r := l.Down()
			if a := r.Accounts; !a.Balanced() || a.Drops["link-down"] == 0 {
				t.Errorf("accounts %+v", a)
			}
		})
	}
}

// moves waits until the spines have carried substantially more from leaf1.
func moves(l *testlab.Lab, spine1, spine2 bool) {
	l.T.Helper()
	const deal = 50
	a, b := over(l)
	var x, y uint64
	for end := time.Now().Add(await.Limit); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		x, y = over(l)
		if (!spine1 || x > a+deal) && (!spine2 || y > b+deal) {
			return
		}
	}
	l.T.Fatalf("the spines carried %d and %d packets, want some of each: %v, %v", x-a, y-b, spine1, spine2)
}

// TestSprayingAndStaticRoutes: programs talk over switches that spray their
// packets, in turn and by weights, and over a path set in the file.
func TestSprayingAndStaticRoutes(t *testing.T) {
	l := testlab.Start(t, `
topology:
  kinds: {switch: {forwarding: round-robin}}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 2, rate: 50Mbps, delay: 50us}}
  nodes:
    leaf1:
      routes:
        - {to: h3, via: [{port: spine1, weight: 3}, {port: spine2, weight: 1}]}
        - {to: h4, via: spine2}
`, "iperf3", "ping")
	if out := l.Must("ps", "-t", "leaf1", l.Name); !strings.Contains(out, "spine1*3 spine2 (static)") {
		t.Errorf("the table does not show weights:\n%s", out)
	}
	for _, family := range []string{"-4", "-6"} {
		l.WaitQuiet()
		a1, b1 := over(l)
		if r := l.Iperf3("h1", "h3", "h3", family, "-u", "-b", "4M", "-l", "1000", "-t", "2"); r.End.Sum.Packets < 500 {
			t.Errorf("only %.0f packets", r.End.Sum.Packets)
		}
		a2, b2 := over(l)
		// Spraying in turn is exact; other packets for h3 take turns as well.
		if a, b := a2-a1, b2-b1; a < 3*b-8 || a > 3*b+8 {
			t.Errorf("%s: spine1 carried %d, spine2 %d; want three to one", family, a, b)
		}
	}
	l.WaitQuiet()
	a1, b1 := over(l)
	l.Exec("h1", "ping", "-c", "20", "-i", "0.02", "h4")
	if a2, b2 := over(l); a2 > a1+5 || b2 < b1+20 {
		t.Errorf("20 pings to h4: spine1 carried %d, spine2 %d, want all over spine2", a2-a1, b2-b1)
	}
	l.WaitQuiet()
	if a := l.Down().Accounts; !a.Balanced() || a.Dropped != 0 {
		t.Errorf("accounts %+v", a)
	}
}
