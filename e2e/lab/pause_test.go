package lab

import (
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/sim/units"
)

// sendPauses is a program for python3 that sends the port at the other end of eth0 a PFC frame for
// all classes, or with "global" a PAUSE frame, for the longest time that a frame can ask for.
const sendPauses = `
import socket, struct, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
head = bytes.fromhex("0180c2000001") + bytes.fromhex("020000000099") + struct.pack("!H", 0x8808)
if sys.argv[1] == "global":
    body = struct.pack("!HH", 0x0001, 0xffff)
else:
    body = struct.pack("!HH8H", 0x0101, 0x00ff, *[0xffff] * 8)
s.send((head + body).ljust(60, b"\0"))
`

// TestPause_OfAProgramStopsOnlyWhatTheSwitchObeys: a host's program sends PFC frames for every
// class and PAUSE frames. The switch pauses the class with pfc, or at a switch with pause the whole
// port, and counts the rest; the class default of a switch with PFC answers pings all the while. A
// pause of 65535 quanta at 10 Mb/s lasts 3.36 s.
func TestPause_OfAProgramStopsOnlyWhatTheSwitchObeys(t *testing.T) {
	t.Parallel()
	testlab.Need(t, "python3", "ping")
	l := testlab.Start(t, `
topology:
  kinds:
    switch:
      classes:
        lossless: {dscp: 26, priority: 3, weight: 1, pfc: {xoff: 100KB}}
        default: {weight: 1}
    link: {rate: 10Mbps, delay: 10us}
  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch}}
  links:
    - {endpoints: ["h1:eth0", "s1:1"]}
    - {endpoints: ["h2:eth0", "s1:2"]}
`, "python3", "ping")
	l.Exec("h2", "python3", "-c", sendPauses, "global")
	l.WaitFor("the PAUSE is ignored", func() bool { return l.Ports()["s1:2"].PauseIgnored == 1 })
	for _, c := range l.Ports()["s1:2"].Classes {
		if c.PausedCount != 0 || c.PauseIgnored != 1 {
			t.Errorf("PAUSE at a switch with PFC: class %s was paused %d times and ignored %d", c.Name, c.PausedCount, c.PauseIgnored)
		}
	}
	l.Exec("h2", "python3", "-c", sendPauses, "pfc")
	l.WaitFor("the PFC frame arrives", func() bool { return l.Ports()["s1:2"].PauseIgnored == 2 })
	l.Exec("h1", "ping", "-4", "-c", "2", "-i", "0.2", "h2")
	p := l.Ports()["s1:2"]
	if c := testlab.ClassOf(t, p, "lossless"); c.PausedCount != 1 || c.PauseFramesRx != 1 || c.PauseIgnored != 1 {
		t.Errorf("the class with pfc: %d pauses by %d frames, %d ignored", c.PausedCount, c.PauseFramesRx, c.PauseIgnored)
	}
	if c := testlab.ClassOf(t, p, "default"); c.PausedCount != 0 || c.PausedTime != 0 || c.PauseIgnored != 2 {
		t.Errorf("the class without: %d pauses for %v, %d ignored", c.PausedCount, c.PausedTime, c.PauseIgnored)
	}
	if ps := l.Must("ps", l.Name, "-p"); !strings.Contains(ps, "ignored pauses") || !strings.Contains(ps, "pauses  frames") {
		t.Errorf("ps -p:\n%s", ps)
	}
}

// TestSet_ChangesQueuesOfARunningLab: thresholds of a class change, ports may be named with their
// lab, and errors change nothing.
func TestSet_ChangesQueuesOfARunningLab(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds:
    host: {attach: none}
    switch:
      classes:
        lossless: {dscp: 26, priority: 3, weight: 1, pfc: {xoff: 100KB}, mark: {red: {kmin: 10KB, kmax: 40KB, pmax: 0.2}}}
        default: {weight: 1}
    link: {rate: 1Gbps, delay: 10us}
  generate: {star: {hosts: 2}}
`)
	said := l.Must("set", l.Name+"/s1:h1", "--class", "lossless", "xoff=300KB", "xon=200KB", "kmin=20KB", "weight=3")
	if !strings.Contains(said, "s1:h1") || !strings.Contains(said, "xoff 300KB") || strings.Contains(said, "default") {
		t.Errorf("set: %s", said)
	}
	if c := testlab.ClassOf(t, l.Ports()["s1:h1"], "lossless"); c.Xoff != 300*units.KB {
		t.Errorf("xoff is %v", c.Xoff)
	}
	if said := l.Must("set", "-l", l.Name, "s1:h2", "-c", "default", "limit=77KB"); !strings.Contains(said, "limit 77KB") {
		t.Errorf("set limit: %s", said)
	}
	for _, c := range []struct{ args, want string }{
		{"s1:h1 limit=100KB", "s1:h1 has a queue for each class: name the class: default, lossless"},
		{"s1:h1 -c lossles limit=100KB", `s1:h1 has no class "lossles": did you mean "lossless"?`},
		{"s1:h1 -c lossless loss=1%", "loss is a setting of links"},
		{"s1:h1 -c default xoff=1KB", "xoff needs a class with pfc"},
		{"s1:h1 -c default limit=1KB", "limit 1KB is less than one packet"},
		{"s1:h1 --out -c default limit=100KB", "--out and --in are for links"},
		{"s1:h1 loss=1% limit=1MB", "limit is a setting of queues"},
	} {
		if _, e, code := l.Run(append([]string{"set", "-l", l.Name}, strings.Fields(c.args)...)...); code != 2 || !strings.Contains(e, c.want) {
			t.Errorf("set %s: exit code %d, %s", c.args, code, e)
		}
	}
	if why := l.Must("why-no-pause", l.Name+"/s1:h1"); !strings.Contains(why, "lossless (3)") {
		t.Errorf("why-no-pause: %s", why)
	}
}
