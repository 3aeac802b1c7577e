package lab

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// table returns a switch's current next hops to a host's interface, or a
// router's to a prefix.
func table(l *testlab.Lab, sw, to string) string {
	l.T.Helper()
	t, err := l.Client().Table(l.T.Context(), sw)
	if err != nil {
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
	l.WaitFor("the next hops of "+sw+" to "+to+" are "+want, func() bool { return table(l, sw, to) == want })
}

// over returns what each of two spines has carried from leaf1.
func over(l *testlab.Lab) (spine1, spine2 uint64) {
	p := l.Ports()
	return p["leaf1:spine1"].TxPackets, p["leaf1:spine2"].TxPackets
}

// TestLinkFailure_TCPGoesOnOverTheOtherSpine: an iperf3 run of several connections over two
// spines continues over one of them when the link to the other is cut, uses
// both again when it is restored, and succeeds; with one worker and with two.
func TestLinkFailure_TCPGoesOnOverTheOtherSpine(t *testing.T) {
	t.Parallel()
	testlab.Need(t, "iperf3")
	for name, workers := range map[string]string{"one worker": "1", "two workers": "2"} {
		t.Run(name, func(t *testing.T) {
			l := testlab.StartOn(t, workers, `
topology:
  reroute: {after: 300ms}
  kinds: {switch: {forwarding: {flowlet: {gap: 20ms}}}}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 1, rate: 50Mbps, delay: 500us}}
`, "iperf3")
			l.StartServer("h2", "iperf3", "-s")
			l.WaitListening("h2", "5201")
			for _, family := range []string{"-4", "-6"} {
				if family == "-6" && name == "two workers" {
					continue
				}
				both := "spine1 spine2"
				becomes(l, "leaf1", "h2:eth0", both)
				client := l.StartProgram("h1", "iperf3", "-c", "h2", family, "-P", "8", "-t", "600")
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

				// All connections are still those of the start.
				if n := strings.Count(l.Exec("h1", "ss", "-Htn", "state", "established", "dport", "=", ":5201"), "\n"); n != 8+1 {
					t.Errorf("%s: %d connections are left of 8 and that of control", family, n)
				}
				interrupt(l, client)
			}
			l.WaitQuiet()
			r := l.Down()
			if a := r.Accounts; !a.Balanced() || a.Drops["link-down"] == 0 {
				t.Errorf("accounts %+v", a)
			}
		})
	}
}

// interrupt ends a program, which must still run.
func interrupt(l *testlab.Lab, p *testlab.Program) {
	l.T.Helper()
	if p.Exited() {
		l.T.Errorf("%v has ended: %v\n%s", p.Args, p.Err, p.Out.String())
	}
	_ = p.Process.Signal(os.Interrupt)
	_ = p.WaitEnd(l.T)
}

// moves waits until the spines have carried substantially more from leaf1.
func moves(l *testlab.Lab, spine1, spine2 bool) {
	l.T.Helper()
	const deal = 50
	a, b := over(l)
	l.WaitFor(fmt.Sprintf("packets over spine1 %v, over spine2 %v", spine1, spine2), func() bool {
		x, y := over(l)
		return (!spine1 || x > a+deal) && (!spine2 || y > b+deal)
	})
}

// TestSprayingAndStaticRoutes_ChooseThePaths: programs talk over switches that spray their
// packets, in turn and by weights, and over a path set in the file.
func TestSprayingAndStaticRoutes_ChooseThePaths(t *testing.T) {
	t.Parallel()
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
	l.Ping("h1", 20, "h4")
	if a2, b2 := over(l); a2 > a1+5 || b2 < b1+20 {
		t.Errorf("20 pings to h4: spine1 carried %d, spine2 %d, want all over spine2", a2-a1, b2-b1)
	}
	l.WaitQuiet()
	if a := l.Down().Accounts; !a.Balanced() || a.Dropped != 0 {
		t.Errorf("accounts %+v", a)
	}
}
