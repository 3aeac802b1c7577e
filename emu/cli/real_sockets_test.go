package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weftlab/weft/emu/report"
)

// deaf opens a UDP socket with a small buffer on port 7000 and never reads it; blast sends
// datagrams to it, and to a port without a socket.
const (
	deaf = `
import socket
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
s.bind(("::", 7000))
import signal; signal.pause()
`
	blast = `
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
for i in range(int(sys.argv[3])):
    try: s.sendto(b"x" * 1000, (sys.argv[1], int(sys.argv[2])))
    except ConnectionRefusedError: pass
`
)

// TestLostInASocket: datagrams that the fabric delivers but no program gets are
// explained, for every kind of device: the counters of devices and of the fabric do
// not show them.
func TestLostInASocket(t *testing.T) {
	for _, device := range []string{"tap", "tun", "tap, offload: off"} {
		t.Run(device, func(t *testing.T) {
			l := startLab(t, fmt.Sprintf(`
topology:
  nodes: {h1: {kind: host}, h2: {kind: host, attach: %s}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"], rate: 100Mbps}
    - {endpoints: ["h2:eth0", "s1:2"], rate: 100Mbps}
`, device), "python3", "ss")
			l.server("h2", "python3", "-c", deaf)
			for try := 0; l.exec("h2", "ss", "-Hlun", "sport", "=", ":7000") == ""; try++ {
				if try == 200 {
					t.Fatal("nothing listens on h2")
				}
				time.Sleep(20 * time.Millisecond)
			}
			const toDeaf, toNobody = 300, 5
			for _, address := range []string{"10.0.0.2", "fd00::2"} {
				l.exec("h1", "python3", "-c", blast, address, "7000", fmt.Sprint(toDeaf))
				l.exec("h1", "python3", "-c", blast, address, "9999", fmt.Sprint(toNobody))
			}
			l.quiet()
			// Delivered packets wait for the kernel's soft interrupts, which may take long on
			// a busy machine.
			lost := func() uint64 { return l.counter("h2", "UdpRcvbufErrors") + l.counter("h2", "Udp6RcvbufErrors") }
			counted := lost()
			for try := 0; try < 100 && counted < 2*(toDeaf-20); try++ {
				time.Sleep(100 * time.Millisecond)
				counted = lost()
			}
			text, said, code := l.run("down", l.name)
			if code != 0 {
				t.Fatal(said)
			}
			// A buffer of 4 KB holds a few of the datagrams.
			if counted < 2*(toDeaf-20) || counted > 2*toDeaf {
				t.Errorf("the kernel counts %d datagrams lost, of %d", counted, 2*toDeaf)
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

// TestSocketsOfAllHosts: JSON has the counters of every real host, and its structure
// does not depend on what was lost.
func TestSocketsOfAllHosts(t *testing.T) {
	l := startLab(t, `
topology:
  nodes: {h1: {kind: host}, h2: {kind: host}, m1: {kind: host, attach: none}}
  links:
    - {endpoints: ["h1:eth0", "h2:eth0"]}
`)
	r := l.down()
	if len(r.Sockets) != 2 || r.Sockets[0] != (report.Sockets{Host: "h1"}) || r.Sockets[1] != (report.Sockets{Host: "h2"}) {
		t.Errorf("%+v", r.Sockets)
	}
}
