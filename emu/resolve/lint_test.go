package resolve

import (
	"strings"
	"testing"
)

// TestLint_WarnsOfMistakesThatAFileMayMake: each file is valid, and has the warnings, each with its
// line; the same file with the correction has none.
func TestLint_WarnsOfMistakesThatAFileMayMake(t *testing.T) {
	const star = "topology:\n  generate: {star: {hosts: 3, rate: 10Gbps, delay: 1us}}\n"
	pair := func(first, second string) string {
		return "topology:\n" +
			"  kinds: {link: {rate: 10Gbps, delay: 1us}, host: {attach: none}}\n" +
			"  nodes:\n" +
			"    h1: {kind: host}\n" +
			"    h2: {kind: host}\n" +
			"    s1: {kind: switch, " + first + "}\n" +
			"    s2: {kind: switch, " + second + "}\n" +
			"  links: [{endpoints: [\"h1:eth0\", \"s1:1\"]}, {endpoints: [\"s1:2\", \"s2:2\"]}, {endpoints: [\"s2:1\", \"h2:eth0\"]}]\n"
	}
	const lossless = "classes: {roce: {dscp: 26, priority: 3, pfc: {xoff: 100KB}}, default: {weight: 1}}"
	for _, c := range []struct {
		name     string
		file     string
		want     []string // what each warning contains, in order
		fix, was string   // the correction, and what it replaces
	}{
		{
			"headroom below what the link needs",
			star + "  kinds:\n    host: {attach: none, nic: {dscp: 26}}\n    switch:\n      classes: {roce: {dscp: 26, priority: 3, pfc: {xoff: 100KB, headroom: 2KB}}, default: {weight: 1}}\n",
			[]string{":6:76: a headroom of 2KB is too small for class roce at s1:h1: 7.198KB can come in", "and 2 more of this kind", "weft headroom"},
			"headroom: 7.2KB", "headroom: 2KB",
		},
		{
			"NICs outside the lossless class",
			star + "  kinds:\n    host: {attach: none, nic: {cc: none}}\n    switch: {" + lossless + "}\n",
			[]string{"RDMA packets of h1 have DSCP 0, which is in the lossy class default of s1: its lossless class roce is for DSCP 26", "nic: {dscp: 26}"},
			"nic: {cc: none, dscp: 26}", "nic: {cc: none}",
		},
		{
			"transfers outside the lossless class",
			star + "  kinds:\n    host: {attach: none, nic: {dscp: 26}}\n    switch: {" + lossless + "}\nworkload: [{write: {from: h1, to: h2, size: 1MB, dscp: 8}}]\n",
			[]string{"RDMA packets of h1 have DSCP 8"},
			"size: 1MB, dscp: 26", "size: 1MB, dscp: 8",
		},
		{
			"a rate control without marks",
			star + "  kinds: {host: {attach: none, nic: {cc: dcqcn}}}\n",
			[]string{"cc: dcqcn of h1 waits for marks, and no queue marks packets of DSCP 0", "mark: {red:"},
			"{switch: {queue: {mark: {red: {kmin: 10KB, kmax: 40KB, pmax: 0.2}}}}, host:", "{host:",
		},
		{
			"marks in another class only",
			star + "  kinds:\n    host: {attach: none, nic: {cc: dcqcn}}\n    switch: {classes: {roce: {dscp: 26, priority: 3, mark: {step: {k: 30KB}}}, default: {weight: 1}}}\n",
			[]string{"cc: dcqcn of h1 waits for marks"},
			"nic: {cc: dcqcn, dscp: 26}", "nic: {cc: dcqcn}",
		},
		{
			"a rate control that waits for messages of switches",
			star + "  kinds:\n    host: {attach: none, nic: {cc: accurate, dscp: 26}}\n    switch: {classes: {frp: {dscp: 48, priority: 6}, roce: {dscp: 26, priority: 3}}}\n",
			[]string{"cc: accurate of h1 waits for marks"},
			"priority: 6, mark: accurate}", "priority: 6}",
		},
		{
			"TCP that waits for marks",
			star + "  kinds: {host: {attach: none}}\nduration: 1ms\nworkload: [{arrivals: {load: 50%, sizes: 1KB, by: {tcp: {cc: dctcp}}}}]\n",
			[]string{"cc: dctcp waits for marks"},
			"kinds: {switch: {queue: {mark: {step: {k: 30KB}}}}, host:", "kinds: {host:",
		},
		{
			"an event after the end",
			star + "  kinds: {host: {attach: none}}\nduration: 10ms\nevents: [{at: 20ms, link: \"s1:h1\", set: {loss: 5%}}]\n",
			[]string{"5:15: the event at 20ms has no effect: the run ends at 10ms"},
			"at: 9ms", "at: 20ms",
		},
		{
			"traffic after the end",
			star + "  kinds: {host: {attach: none}}\nduration: 10ms\nworkload: [{cbr: {from: h1, to: h2, rate: 1Gbps, size: 1KB, at: 10ms}}]\n",
			[]string{"the traffic at 10ms has no effect"},
			"at: 1ms", "at: 10ms",
		},
		{
			"PFC at one end of a link",
			pair(lossless, "classes: {roce: {dscp: 26, priority: 3}, default: {weight: 1}}"),
			[]string{"s1:2 asks s2:2 for pauses of class roce (priority 3), which ignores them, as its class roce has no pfc"},
			"classes: {roce: {dscp: 26, priority: 3, pfc: {xoff: 100KB}}", "classes: {roce: {dscp: 26, priority: 3}",
		},
		{
			"a host that ignores PFC",
			star + "  kinds:\n    host: {attach: none, classes: {roce: {dscp: 26, priority: 3, pfc: none}}}\n    switch: {" + lossless + "}\n",
			[]string{"s1:h1 asks h1:eth0 for pauses of class roce (priority 3), which ignores them"},
			"priority: 3, pfc: {}}", "priority: 3, pfc: none}",
		},
		{
			"PFC and PAUSE",
			pair("pause: {xoff: 100KB}, classes: {roce: {dscp: 26, priority: 3}}", lossless),
			[]string{"s1:2 asks s2:2 for pauses of the whole port, which has no pause", "s2:2 asks s1:2 for pauses of class roce (priority 3), which ignores them, as it has pause"},
			"pause: none, " + lossless, "pause: {xoff: 100KB}, classes: {roce: {dscp: 26, priority: 3}}",
		},
		{
			"an xoff that no queue reaches",
			star + "  kinds: {host: {attach: none}, switch: {classes: {roce: {dscp: 26, priority: 3, limit: 40KB, pfc: {xoff: 100KB}}}}}\n",
			[]string{"class roce of s1 never pauses: its queues hold 40KB each"},
			"limit: 140KB", "limit: 40KB",
		},
		{
			"a queue that drops before an xoff",
			star + "  kinds: {host: {attach: none}, switch: {classes: {roce: {dscp: 26, priority: 3, limit: 80KB, pfc: {xoff: 100KB}}}}}\n",
			[]string{"a queue of class roce of s1 drops what is beyond 80KB, before a pause begins: xoff is 100KB"},
			"limit: 140KB", "limit: 80KB",
		},
		{
			"an alpha of the queue below that of pauses",
			star + "  kinds: {host: {attach: none}, switch: {buffer: {size: 1MB}, classes: {roce: {dscp: 26, priority: 3, alpha: 1/8, pfc: {alpha: 1}}}}}\n",
			[]string{"drops at alpha 0.125 of the free buffer, before a pause begins: that is at alpha 1"},
			"alpha: 4, pfc", "alpha: 1/8, pfc",
		},
		{
			"a limit below a dynamic threshold",
			star + "  kinds: {host: {attach: none}, switch: {buffer: {size: 1MB}, classes: {roce: {dscp: 26, priority: 3, limit: 100KB, pfc: {alpha: 1}}}}}\n",
			[]string{"drops what is beyond 100KB, before a pause begins: with alpha 1 one port alone is paused at"},
			"limit: 900KB", "limit: 100KB",
		},
		{
			"marks that begin after pauses",
			star + "  kinds: {host: {attach: none}, switch: {classes: {roce: {dscp: 26, priority: 3, mark: {step: {k: 200KB}}, pfc: {xoff: 100KB}}}}}\n",
			[]string{"class roce of s1 marks from 200KB on, and a single sender is paused at 100KB"},
			"k: 20KB", "k: 200KB",
		},
	} {
		check := func(what, file string, want []string) {
			p, err := Parse("lab.yaml", []byte(file))
			if err != nil {
				t.Errorf("%s%s: %v", c.name, what, err)
				return
			}
			all := strings.Join(p.Warnings, "\n")
			if len(want) == 0 && all != "" {
				t.Errorf("%s%s: warned without need:\n%s", c.name, what, all)
			}
			for _, w := range want {
				if !strings.Contains(all, w) {
					t.Errorf("%s%s: no warning has %q:\n%s", c.name, what, w, all)
				}
			}
		}
		check("", c.file, c.want)
		if c.was != "" {
			fixed := strings.ReplaceAll(c.file, c.was, c.fix)
			if fixed == c.file {
				t.Errorf("%s: the correction changes nothing", c.name)
			}
			check(", corrected", fixed, nil)
		}
	}
}

// TestLint_WarnsOfACoreWithASmallerMTU: switches drop what does not fit and routers tell only
// senders that can make packets shorter. Links of hosts alone may differ from the core's.
func TestLint_WarnsOfACoreWithASmallerMTU(t *testing.T) {
	file := func(core, host, address string) string {
		return "topology:\n" +
			"  kinds: {link: {rate: 10Gbps, mtu: " + host + "}, host: {attach: none, nic: roce}}\n" +
			"  nodes: {h1: {kind: host}, h2: {kind: host}, s1: {kind: switch" + address + "}, s2: {kind: switch" + address + "}}\n" +
			"  links:\n" +
			"    - {endpoints: [\"h1:eth0\", \"s1:1\"]}\n" +
			"    - {endpoints: [\"s1:2\", \"s2:2\"], mtu: " + core + "}\n" +
			"    - {endpoints: [\"s2:1\", \"h2:eth0\"]}\n"
	}
	for _, c := range []struct{ core, host, address, want string }{
		{"1500", "9000", "", ":6:7: the link from s1:2 to s2:2 has an mtu of 1500, and h1:eth0 sends packets of up to 9000: switches drop"},
		{"1500", "9000", ", address: auto", ":6:7: the link from s1:2 to s2:2 has an mtu of 1500, and the NIC of h1:eth0 sends packets of up to"},
		{"9000", "9000", "", ""},
		{"9000", "1500", "", ""},
		{"9000", "1500", ", address: auto", ""},
	} {
		p, err := Parse("lab.yaml", []byte(file(c.core, c.host, c.address)))
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(p.Warnings, "\n")
		if c.want == "" && all != "" || !strings.Contains(all, c.want) {
			t.Errorf("core %s, hosts %s%s: no %q in\n%s", c.core, c.host, c.address, c.want, all)
		}
	}
}
