package lab

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/report"
)

// TestFullSocket_IsExplained: datagrams that the fabric delivers but no program gets are
// explained, for every kind of device: the counters of devices and of the fabric do
// not show them.
func TestFullSocket_IsExplained(t *testing.T) {
	t.Parallel()
	testlab.Need(t, "python3", "ss")
	for _, device := range []string{"tap", "tun", "tap, offload: off"} {
		t.Run(device, func(t *testing.T) {
			l := testlab.Start(t, fmt.Sprintf(`
topology:
  nodes: {h1: {kind: host}, h2: {kind: host, attach: %s}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 100Mbps}
`, device), "python3", "ss")
			l.StartServer("h2", "python3", "-c", testlab.UnreadSocket)
			l.WaitFor("a socket in h2", func() bool { return l.Exec("h2", "ss", "-Hlun", "sport", "=", ":7000") != "" })
			const toFull, toNobody = 300, 5
			delivered := map[string]uint64{}
			for ip, address := range map[string]string{"Ip": "10.0.0.2", "Ip6": "fd00::2"} {
				// Until h1 knows the address of the neighbour, it has no room for all of them.
				l.Ping("h1", 1, address)
				delivered[ip] = counter(l, "h2", ip+"InDelivers")
				l.Exec("h1", "python3", "-c", testlab.SendDatagrams, address, "7000", fmt.Sprint(toFull))
				l.Exec("h1", "python3", "-c", testlab.SendDatagrams, address, "9999", fmt.Sprint(toNobody))
			}
			l.WaitQuiet()
			// Delivered packets wait for the kernel's soft interrupts.
			for _, ip := range []string{"Ip", "Ip6"} {
				l.WaitFor("the kernel of h2 takes in the datagrams over "+ip, func() bool { return counter(l, "h2", ip+"InDelivers") >= delivered[ip]+toFull+toNobody })
			}
			counted := counter(l, "h2", "UdpRcvbufErrors") + counter(l, "h2", "Udp6RcvbufErrors")
			text, said, code := l.Run("down", l.Name)
			if code != 0 {
				t.Fatal(said)
			}
			// A buffer of 4 KB holds a few of the datagrams.
			if counted < 2*(toFull-20) || counted > 2*toFull {
				t.Errorf("the kernel counts %d datagrams lost, of %d", counted, 2*toFull)
			}
			for _, want := range []string{
				fmt.Sprintf("host     h2: %d UDP datagrams that the fabric delivered found the receive buffer of their socket full", counted),
				fmt.Sprintf("host     h2: %d UDP datagrams that the fabric delivered went to ports that no program had open", 2*toNobody),
			} {
				if !strings.Contains(text, want) {
					t.Errorf("the report does not say %q:\n%s", want, text)
				}
			}
			if strings.Contains(text, "host     h1: ") {
				t.Errorf("h1 lost nothing:\n%s", text)
			}
		})
	}
}

// TestSockets_OfAllHostsAreInTheReport: JSON has the counters of every real host, and its structure
// does not depend on what was lost.
func TestSockets_OfAllHostsAreInTheReport(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, m1: {kind: host, attach: none}}
  links:
    - {endpoints: ["h1:eth0", "h2:eth0"]}
`)
	r := l.Down()
	if len(r.Sockets) != 2 || r.Sockets[0] != (report.Sockets{Host: "h1"}) || r.Sockets[1] != (report.Sockets{Host: "h2"}) {
		t.Errorf("%+v", r.Sockets)
	}
}
