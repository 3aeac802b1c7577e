package rdma

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/nicemu"
)

// needFUSE skips a test if the files of counters are not supported.
func needFUSE(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("SKIPPED: this test needs FUSE: %v", err)
	}
	f.Close()
}

// TestSysfs_DescribesTheNIC: what programs find about a NIC in /sys apart from its addresses.
func TestSysfs_DescribesTheNIC(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs)
	for file, want := range map[string]string{
		"hca_type": "weft", "board_id": "weft", "node_desc": "h1 roce0", "device/net/eth0/address": "02:00:00:00:00:01", "ports/1/state": "4: ACTIVE",
	} {
		if got := l.NICFile("h1", file); got != want {
			t.Errorf("%s has %q, not %q", file, got, want)
		}
	}
	if got := l.Exec("h1", "ls", "/sys/class/infiniband/roce0/device/net"); got != "eth0\n" {
		t.Errorf("device/net has %q", got)
	}
	needFUSE(t)
	for file, got := range counterFiles(l, func(o nicemu.Origin) bool { return o != nicemu.PortAttribute }) {
		if got != "0" {
			t.Errorf("%s has %q before anything was sent", file, got)
		}
	}
}

// TestSysfs_HasTheKernelsShape: programs such as Mellanox's rdmamap find devices by the links of
// /sys, from the class and from the interface, and the interface keeps its own files.
func TestSysfs_HasTheKernelsShape(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs)
	for at, want := range map[string]string{
		"/sys/class/infiniband/roce0":           "../../devices/weft/nic0/infiniband/roce0",
		"/sys/class/infiniband_verbs/uverbs0":   "../../devices/weft/nic0/infiniband_verbs/uverbs0",
		"/sys/class/infiniband/roce0/device":    "../../../nic0",
		"/sys/class/net/eth0/device":            "../../../weft/nic0",
		"/sys/class/net/eth0":                   "../../devices/virtual/net/eth0",
		"/sys/devices/weft/nic0/net/eth0":       "../../../virtual/net/eth0",
		"/sys/class/infiniband_verbs/../net/lo": "../../devices/virtual/net/lo",
	} {
		if got := strings.TrimSpace(l.Exec("h1", "readlink", at)); got != want {
			t.Errorf("%s is a link to %q, not %q", at, got, want)
		}
	}
	if got := l.Exec("h1", "ls", "/sys/class/net/eth0/device/infiniband"); got != "roce0\n" {
		t.Errorf("the interface has the RDMA devices %q", got)
	}
	if got := l.Exec("h1", "cat", "/sys/class/net/eth0/address", "/sys/class/net/eth0/statistics/tx_errors"); got != "02:00:00:00:00:01\n0\n" {
		t.Errorf("the interface's own files have %q", got)
	}
	// What a program makes later is there, too.
	l.Exec("h1", "ip", "link", "add", "later", "type", "bridge")
	if got := l.Exec("h1", "ls", "/sys/class/net"); got != "eth0\nlater\nlo\n" {
		t.Errorf("the interfaces are %q", got)
	}
}

// TestLinkDown_TakesThePortDown: programs learn of their NIC's link that goes down and comes up, by
// asynchronous events, ibv_query_port and /sys; those at another link do not.
func TestLinkDown_TakesThePortDown(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "ibv_asyncwatch", "ibv_devinfo")
	watch := l.StartProgram("h1", "stdbuf", "-oL", "ibv_asyncwatch")
	watch.WaitFor(l, "it watches", func() bool { return strings.Contains(watch.Out.String(), "async event FD") })
	for _, step := range []struct{ state, file, verbs, event string }{
		{"down", "1: DOWN", "PORT_DOWN", "IBV_EVENT_PORT_ERR (10), port 1"}, {"up", "4: ACTIVE", "PORT_ACTIVE", "IBV_EVENT_PORT_ACTIVE (9), port 1"},
	} {
		set(l, "h1:eth0", "state="+step.state)
		watch.WaitFor(l, step.event, func() bool { return strings.Contains(watch.Out.String(), step.event) })
		l.WaitFor("the file to say "+step.file, func() bool { return l.NICFile("h1", "ports/1/state") == step.file })
		if out := l.Exec("h1", "ibv_devinfo"); !strings.Contains(out, step.verbs) {
			t.Errorf("after %s ibv_devinfo does not say %s:\n%s", step.state, step.verbs, out)
		}
		if got := l.NICFile("h2", "ports/1/state"); got != "4: ACTIVE" {
			t.Errorf("the other NIC's port is %q", got)
		}
	}
}

// TestContainerWithoutTheSocket_IsToldWhy: a program that finds the NIC in /sys but not the lab's
// socket, as in a container that got only /sys and /dev/infiniband, is told what is missing.
func TestContainerWithoutTheSocket_IsToldWhy(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "ibv_devices")
	_, said, _ := l.Run("exec", "-l", l.Name, "h1", "--", "unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev/weft && exec ibv_devices")
	if !strings.Contains(said, "/dev/weft/verbs is missing: pass /dev/weft into the container too") {
		t.Errorf("it is told %q", said)
	}
}

// counterFiles returns what the files of h1's NIC say of the counters of some origins, by counter.
func counterFiles(l *testlab.Lab, of func(nicemu.Origin) bool) map[string]string {
	l.T.Helper()
	var names []string
	command := []string{"cat"}
	for _, c := range nicemu.CounterInfos() {
		if !of(c.Origin) {
			continue
		}
		dir := "hw_counters"
		if c.Origin == nicemu.PortCounter {
			dir = "counters"
		}
		names = append(names, c.Name)
		command = append(command, filepath.Join("/sys/class/infiniband/roce0/ports/1", dir, c.Name))
	}
	values := strings.Fields(l.Exec("h1", command...))
	if len(values) != len(names) {
		l.T.Fatalf("%d counters have the values %q", len(names), values)
	}
	found := map[string]string{}
	for i, name := range names {
		found[name] = values[i]
	}
	return found
}

// TestSysfsCounters_CountAllTraffic: perftest reads the counters before and after its run, from
// files that it keeps open, and sees all of its own traffic.
func TestSysfsCounters_CountAllTraffic(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "ib_write_bw")
	needFUSE(t)
	const messages = 100
	run := []string{"ib_write_bw", "-x", "0", "-s", "65536", "-n", strconv.Itoa(messages), "-W"}
	served, said := l.RunRDMA(append(run, "counters/port_rcv_packets,hw_counters/rx_write_requests,counters/port_rcv_errors"),
		append(run, "counters/port_xmit_packets,counters/port_xmit_data", "10.0.0.1"))
	of := func(out, counter string) (n int) {
		t.Helper()
		m := regexp.MustCompile(counter + `=(\d+)`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("perftest does not tell of %s:\n%s", counter, out)
		}
		n, _ = strconv.Atoi(m[1])
		return n
	}
	// More if packets were retransmitted.
	const packets = messages * 64
	if n := of(said, "port_xmit_packets"); n < packets || n > 2*packets {
		t.Errorf("%d packets sent, where there are %d", n, packets)
	}
	if n := of(said, "port_xmit_data"); n < messages*65536/4 || n > 2*messages*65536/4 {
		t.Errorf("%d words sent, where there are %d", n, messages*65536/4)
	}
	if n := of(served, "port_rcv_packets"); n < packets || n > 2*packets {
		t.Errorf("%d packets received, where there are %d", n, packets)
	}
	if n := of(served, "rx_write_requests"); n < messages || n > 2*messages {
		t.Errorf("%d WRITEs received, where there are %d", n, messages)
	}
	if n := of(served, "port_rcv_errors"); n != 0 {
		t.Errorf("%d errors", n)
	}
	// Nothing is sent any more, so all sources agree.
	counters := l.NIC("h1").Counters
	for name, got := range counterFiles(l, func(o nicemu.Origin) bool { return o == nicemu.PortCounter }) {
		if want := fmt.Sprint(counters.Of(name)); got != want {
			t.Errorf("%s is %s in /sys, and %s by weft nic", name, got, want)
		}
	}
}

// TestKilledLab_LeavesNoCounters: a lab that is killed while a program has counters open
// leaves nothing behind.
func TestKilledLab_LeavesNoCounters(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs)
	needFUSE(t)
	before := mounts(t)
	ready := filepath.Join(t.TempDir(), "ready")
	s := l.StartProgram("h1", "sh", "-c", "exec 3</sys/class/infiniband/roce0/ports/1/counters/port_rcv_data && read n <&3 && echo $n >"+ready+"; exec sleep 3600")
	l.WaitFor("the program's reading", func() bool { b, _ := os.ReadFile(ready); return string(b) == "0\n" })
	l.Kill()
	l.Must("down", l.Name)
	if err := s.WaitEnd(l.T); err == nil {
		t.Error("the program has ended well")
	}
	if after := mounts(t); after != before {
		t.Errorf("mounts before:\n%s\nand after:\n%s", before, after)
	}
}

// mounts lists the mounts of FUSE that this process sees.
func mounts(t *testing.T) (list string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, " fuse ") {
			list += line
		}
	}
	return list
}
