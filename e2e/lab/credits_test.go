package lab

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
)

// TestCredits_HoldSendersBackWithoutLoss: real UDP senders over three switches with credits. One of them
// offers five times what its receiver's link carries: the wait for credit spreads to its own
// host, no port drops a packet or holds more than its buffer, and another class keeps sending.
func TestCredits_HoldSendersBackWithoutLoss(t *testing.T) {
	t.Parallel()
	const buffer = 100_000
	text := strings.Replace(pfcLab, "pfc: {xoff: 100KB, xon: 80KB}", "credits: {buffer: 100KB}", 1)
	l := testlab.Start(t, text, "iperf3", "tshark")
	stop := l.Capture("s1:h1", "-s", "100", "-f", "ether proto 0x8808")
	for _, host := range []string{"h3", "h4"} {
		l.StartServer(host, "iperf3", "-s")
		l.WaitListening(host, "5201")
	}
	culprit := l.StartServer("h1", "iperf3", "-4", "-c", "h3", "-u", "-b", "100M", "-l", "1200", "-t", "4", "-S", "104")
	// The victim is in another class, which is never held back.
	r := l.Iperf3("h2", "h4", "h4", "-u", "-b", "20M", "-l", "1200", "-n", "3M")
	t.Logf("the victim has %.1f Mb/s", r.End.Received.Bits/1e6)
	if err := culprit.Wait(); err != nil {
		t.Errorf("the culprit: %v", err)
	}
	l.WaitQuiet()
	for name, p := range l.Ports() {
		if p.Dropped > 0 {
			t.Errorf("%s dropped %d: %v", name, p.Dropped, p.Drops)
		}
		for _, c := range p.Classes {
			if g := c.CreditGiven; g != nil && (g.HeldMax > buffer || g.Lost+g.Surplus != 0) {
				t.Errorf("%s gives %+v", name, g)
			}
		}
	}
	for _, name := range []string{"s2:s3", "s1:s2", "h1:eth0"} {
		c := testlab.ClassOf(t, l.Ports()[name], "lossless")
		if c.CreditSpent == nil || c.CreditSpent.Waits == 0 || c.PausedTime == 0 {
			t.Errorf("%s waited for %v: %+v", name, c.PausedTime, c.CreditSpent)
		}
	}
	if c := testlab.ClassOf(t, l.Ports()["h2:eth0"], "default"); c.PausedTime != 0 {
		t.Errorf("the default class of h2 was held for %v", c.PausedTime)
	}
	end := l.Down()
	for _, h := range end.Hosts {
		if h.TxDropped+h.QueueDropped > 0 {
			t.Errorf("the device of %s dropped %d, its queueing discipline %d", h.Name, h.TxDropped, h.QueueDropped)
		}
	}
	if !end.Accounts.Balanced() {
		t.Errorf("%+v", end.Accounts)
	}
	// Only class 3 has credits, and the switch needs none from its host.
	frames := testlab.Tshark(t, stop(), "-X", "lua_script:../../observe/dissector/weft.lua", "-Y", "weft.credits", "-T", "fields", "-e", "weft.credits.grants")
	if len(frames) < 100 {
		t.Errorf("%d credit frames in the capture", len(frames))
	}
	for _, f := range frames {
		if f != "0x08" && f != "0x00" {
			t.Fatalf("a credit frame grants %s", f)
		}
	}
}

// creditsInBothClocks has links that lose data and credit, and a host that is gone for a while.
const creditsInBothClocks = `
clock: real
duration: 400ms
topology:
  kinds:
    host: {attach: none, nic: {cc: none, dscp: 26, mtu: 1024, timeout: 33ms}}
    switch:
      classes:
        roce: {dscp: 26, priority: 3, weight: 1, credits: {buffer: 12KB}}
        default: {weight: 1}
  generate: {leaf-spine: {spines: 2, leaves: 2, hosts-per-leaf: 3, rate: 100Mbps, delay: 100us, loss: 0.1%}}
events:
  - {at: 100ms, link: "h3:eth0", set: {state: down}}
  - {at: 120ms, link: "h3:eth0", set: {state: up}}
workload:
  - {incast: {name: in, to: h1, from: [h2, h3, h4, h5, h6], size: 100KB, count: 5, at: 10ms}}
`

// TestCredits_AreTheSameUnderBothClocks: modelled traffic over links with credits is equal in both clocks.
func TestCredits_AreTheSameUnderBothClocks(t *testing.T) {
	t.Parallel()
	weft := testlab.Need(t)
	dir := t.TempDir()
	for _, workers := range []int{1, 2} {
		l := testlab.New(t, weft, dir, creditsInBothClocks)
		l.Workers = strconv.Itoa(workers)
		want := testlab.Simulate(t, weft, l.File)
		o, e, code := l.Run("up", "--workload", "--for", "400ms", "--json", l.File)
		if code != 0 {
			t.Fatalf("weft up: exit code %d\n%s", code, e)
		}
		got := &report.Report{}
		_, body, _ := strings.Cut(o, "{")
		if err := json.Unmarshal([]byte("{"+body), got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Ports, got.Ports, cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Errorf("%d workers (-virtual time +wall clock):\n%s", workers, diff)
		}
		var waits, lost uint64
		for _, p := range want.Ports {
			for _, c := range p.Classes {
				if c.CreditSpent != nil {
					waits += c.CreditSpent.Waits
				}
				if c.CreditGiven != nil {
					lost += uint64(c.CreditGiven.Lost)
				}
			}
		}
		if waits < 100 || lost == 0 || want.TransferSums.Completed == 0 {
			t.Errorf("too little has happened: %d waits, %d B lost, %+v", waits, lost, want.TransferSums)
		}
	}
}
