package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/lab"
)

// learned returns what s1 knows of an Ethernet address; false if it has not learned it.
func learned(l *testlab.Lab, mac string) (lab.Learned, bool) {
	l.T.Helper()
	t, err := l.Client().Table(l.T.Context(), "s1")
	if err != nil {
		l.T.Fatal(err)
	}
	i := slices.IndexFunc(t.Learned, func(e lab.Learned) bool { return e.MAC == mac })
	if i < 0 {
		return lab.Learned{}, false
	}
	return t.Learned[i], true
}

// isBehind waits until s1 knows an Ethernet address behind a host's interface.
func isBehind(l *testlab.Lab, mac, host string) {
	l.T.Helper()
	l.WaitFor("s1 knows "+mac+" behind "+host, func() bool {
		e, ok := learned(l, mac)
		return ok && e.Host == host
	})
}

// shell runs a script in a host.
func shell(l *testlab.Lab, host, script string) string {
	l.T.Helper()
	return l.Exec(host, "sh", "-ec", script)
}

// reaches waits for an answer to a ping.
func reaches(l *testlab.Lab, from, to string) {
	l.T.Helper()
	l.WaitFor(from+" reaches "+to, func() bool {
		_, _, code := l.Run("exec", "-l", l.Name, from, "--", "ping", "-c", "1", "-W", "1", to)
		return code == 0
	})
}

// takes returns how many packets s1 sends to a host while from sends 1000 pings to an address.
func takes(l *testlab.Lab, host, from, to string) uint64 {
	l.T.Helper()
	port := "s1:" + host
	before := l.Ports()[port].TxPackets
	out := l.Exec(from, "ping", "-f", "-q", "-c", "1000", to)
	if !strings.Contains(out, "1000 packets transmitted, 1000") {
		l.T.Errorf("pings from %s to %s: %s", from, to, out)
	}
	return l.Ports()[port].TxPackets - before
}

// guestIn makes a namespace with a macvlan of a host's eth0 that has an Ethernet address. It
// announces its IP address.
const guestIn = `
ip netns add guest
ip link add mv0 link eth0 address %s type macvlan mode bridge
ip link set mv0 netns guest
ip netns exec guest sysctl -qw net.ipv4.conf.all.arp_notify=1
ip -n guest addr add %s dev mv0
ip -n guest link set mv0 up
`

// TestMacvlan_TakesOnlyItsOwnLink: a flow to a macvlan on h3 does not reach the link of h2, if the
// switch learns; if it does not, it does. weft ps and metrics show what was learned.
func TestMacvlan_TakesOnlyItsOwnLink(t *testing.T) {
	t.Parallel()
	const mac = "0a:00:00:00:00:33"
	for _, learning := range []string{"on", "off"} {
		t.Run(learning, func(t *testing.T) {
			l := testlab.Start(t, `
topology:
  kinds: {host: {private: [/run]}, switch: {learning: `+learning+`}}
  generate: {star: {hosts: 3}}
`, "ip", "ping")
			shell(l, "h3", fmt.Sprintf(guestIn, mac, "10.0.0.33/16"))
			reaches(l, "h1", "10.0.0.33")
			// Whatever hosts send to groups meanwhile is far less.
			switch n := takes(l, "h2", "h1", "10.0.0.33"); {
			case learning == "on" && n >= 500:
				t.Errorf("%d packets went to h2, while 1000 pings went to a macvlan on h3", n)
			case learning == "off" && n < 1000:
				t.Errorf("%d packets went to h2: they cannot all have been flooded", n)
			}
			text := l.Must("ps", l.Name, "-t", "s1")
			if shown := strings.Contains(text, mac) && strings.Contains(text, "h3:eth0") && strings.Contains(text, "LEARNED"); shown != (learning == "on") {
				t.Errorf("weft ps -t shows\n%s", text)
			}
			if learning == "on" {
				isBehind(l, mac, "h3:eth0")
				if e, _ := learned(l, mac); e.VLAN != 0 || e.Moved || len(e.Ports) != 1 || e.Ports[0] != "h3" || e.Age < 0 {
					t.Errorf("learned %+v", e)
				}
			}
			r := l.Down()
			if !r.Accounts.Balanced() {
				t.Errorf("accounts %+v", r.Accounts)
			}
			if len(r.Switches) != 1 || learning == "off" && r.Switches[0].Unknown < 1000 || learning == "on" && r.Switches[0].Learned == 0 {
				t.Errorf("the report has %+v", r.Switches)
			}
		})
	}
}

// TestVirtualRouterAddress_MovesBetweenHosts: the address of a virtual router, which moves from h1 to
// h2 and announces itself there, is reached by a host that asks nobody again.
func TestVirtualRouterAddress_MovesBetweenHosts(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, "topology: {kinds: {host: {private: [/run]}}, generate: {star: {hosts: 3}}}\n", "ip", "ping", "sysctl")
	const mac = "00:00:5e:00:01:01"
	shell(l, "h1", fmt.Sprintf(guestIn, mac, "10.0.0.254/16"))
	isBehind(l, mac, "h1:eth0")
	reaches(l, "h3", "10.0.0.254")
	l.Exec("h3", "ip", "neigh", "replace", "10.0.0.254", "lladdr", mac, "dev", "eth0", "nud", "permanent")

	shell(l, "h1", "ip netns del guest")
	shell(l, "h2", fmt.Sprintf(guestIn, mac, "10.0.0.254/16"))
	isBehind(l, mac, "h2:eth0")
	reaches(l, "h3", "10.0.0.254")
	if n := takes(l, "h1", "h3", "10.0.0.254"); n >= 500 {
		t.Errorf("%d packets went to h1, where the address was before", n)
	}
	if r := l.Down(); len(r.Switches) != 1 || r.Switches[0].Moved == 0 {
		t.Errorf("the report has %+v", r.Switches)
	}
}

// TestBridgeInHost_ConnectsItsGuests: two namespaces behind a bridge on h3 reach the other hosts, and
// they them, over two switches.
func TestBridgeInHost_ConnectsItsGuests(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  kinds: {host: {private: [/run]}}
  generate: {dumbbell: {left: 2, right: 2}}
`, "ip", "ping")
	shell(l, "h3", `
ip link add br0 type bridge
ip addr flush dev eth0
ip link set eth0 master br0
ip link set br0 up
for i in 1 2; do
	ip netns add c$i
	ip link add v$i type veth peer name eth0 netns c$i address 0a:00:00:00:00:0$i
	ip link set v$i master br0
	ip link set v$i up
	ip -n c$i addr add 10.0.0.5$i/16 dev eth0
	ip -n c$i link set eth0 up
done
`)
	for _, guest := range []string{"10.0.0.51", "10.0.0.52"} {
		reaches(l, "h1", guest)
	}
	isBehind(l, "0a:00:00:00:00:01", "h3:eth0")
	isBehind(l, "0a:00:00:00:00:02", "h3:eth0")
	shell(l, "h3", "ip netns exec c1 ping -c 1 10.0.0.52; ip netns exec c1 ping -c 1 10.0.0.1; ip netns exec c2 ping -c 1 10.0.0.4")
	if n := takes(l, "h2", "h1", "10.0.0.51"); n >= 500 {
		t.Errorf("%d packets went to h2", n)
	}
	if r := l.Down(); !r.Accounts.Balanced() {
		t.Errorf("accounts %+v", r.Accounts)
	}
}

// TestHostAddress_Changes: a host that changes its Ethernet address is reached, over its own link
// only.
func TestHostAddress_Changes(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, "topology: {kinds: {host: {sysctls: {net.ipv4.conf.all.arp_notify: 1}}}, generate: {star: {hosts: 3}}}\n", "ip", "ping")
	reaches(l, "h1", "10.0.0.2")
	const mac = "0a:00:00:00:00:22"
	shell(l, "h2", "ip link set eth0 down; ip link set eth0 address "+mac+"; ip link set eth0 up")
	l.Exec("h1", "ip", "neigh", "flush", "all")
	reaches(l, "h1", "10.0.0.2")
	isBehind(l, mac, "h2:eth0")
	if n := takes(l, "h3", "h1", "10.0.0.2"); n >= 500 {
		t.Errorf("%d packets went to h3", n)
	}
	l.Down()
}

// TestHostAddress_MovesToItsOtherInterface and back, as that of a bond in active-backup mode does:
// another host that keeps the Ethernet address in its cache reaches it.
func TestHostAddress_MovesToItsOtherInterface(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, `
topology:
  nodes:
    h1: {kind: host, sysctls: {net.ipv4.conf.all.arp_notify: 1}}
    h2: {kind: host}
    h3: {kind: host}
    s1: {kind: switch}
  links:
    - {endpoints: ["h1:eth0", "s1:a"]}
    - {endpoints: ["h1:eth1", "s1:b"]}
    - {endpoints: ["h2:eth0", "s1:h2"]}
    - {endpoints: ["h3:eth0", "s1:h3"]}
`, "ip", "ping")
	mac := l.Status().Hosts[0].Interfaces[0].MAC
	other := l.Status().Hosts[0].Interfaces[1].MAC
	l.Exec("h2", "ip", "neigh", "replace", "10.0.0.1", "lladdr", mac, "dev", "eth0", "nud", "permanent")
	reaches(l, "h2", "10.0.0.1")
	move := func(from, spare, to string) {
		t.Helper()
		shell(l, "h1", fmt.Sprintf(`
ip link set %s down
ip link set %s address %s
ip addr flush dev %s
ip link set %s down
ip link set %s address %s
ip addr flush dev %s
ip addr add 10.0.0.1/16 dev %s
ip link set %s up
`, from, from, spare, from, to, to, mac, to, to, to))
	}
	move("eth0", other, "eth1")
	isBehind(l, mac, "h1:eth1")
	reaches(l, "h2", "10.0.0.1")
	if n := takes(l, "h3", "h2", "10.0.0.1"); n >= 500 {
		t.Errorf("%d packets went to h3", n)
	}
	if e, _ := learned(l, mac); !e.Moved || len(e.Ports) != 1 || e.Ports[0] != "b" {
		t.Errorf("learned %+v", e)
	}
	if text := l.Must("ps", l.Name, "-t", "s1"); !strings.Contains(text, "(moved)") {
		t.Errorf("weft ps -t shows\n%s", text)
	}
	move("eth1", other, "eth0")
	l.WaitFor("the address is back", func() bool { _, ok := learned(l, mac); return !ok })
	reaches(l, "h2", "10.0.0.1")
	l.Down()
}

// TestSpanningTreeFrames_EndAtTheSwitch: what a bridge on h1 sends for its spanning tree reaches the
// switch and no host.
func TestSpanningTreeFrames_EndAtTheSwitch(t *testing.T) {
	t.Parallel()
	l := testlab.Start(t, "topology: {generate: {star: {hosts: 2}}}\n", "ip", "tcpdump")
	watch := l.StartProgram("h2", "tcpdump", "-n", "-i", "eth0", "-c", "1", "ether dst 01:80:c2:00:00:00")
	shell(l, "h1", "ip link add br0 type bridge stp_state 1 hello_time 100 forward_delay 200; ip link set eth0 master br0; ip link set br0 up")
	l.WaitFor("s1 has filtered frames of a spanning tree", func() bool { return l.Ports()["s1:h1"].Drops["filtered"] >= 3 })
	if watch.Exited() {
		t.Errorf("h2 got one: %s", watch.Out.String())
	}
	interrupt(l, watch)
	l.Down()
}
