package rdma

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/observe/dissector"
)

// TestXRC_ProgramsRunAndTsharkReadsThem: rdma-core's program for XRC with several clients, and
// perftest over XRC, unmodified; tshark reads the headers of what they send.
func TestXRC_ProgramsRunAndTsharkReadsThem(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, `
topology:
  kinds: {host: {nic: roce}}
  generate: {leaf-spine: {spines: 1, leaves: 2, hosts-per-leaf: 2, rate: 5Gbps, delay: 5us}}
`, "ibv_xsrq_pingpong", "ib_send_bw", "tshark")
	stop := l.Capture("leaf1:h1")
	// One server, whose shared receive queue takes the messages of two connections.
	pingpong := []string{"ibv_xsrq_pingpong", "-g", "0", "-n", "20", "-s", "3000"}
	s := l.StartServing("h1", plus(pingpong, "-c", "2")...)
	first := l.StartProgram("h3", plus(pingpong, "10.0.0.1")...)
	said, code := l.TryRDMA("h4", plus(pingpong, "10.0.0.1")...)
	for name, p := range map[string]*testlab.Program{"server": s, "client": first} {
		if err := p.WaitEnd(t); err != nil || !strings.Contains(p.Out.String(), "success") {
			t.Errorf("%s: %v\n%s", name, err, testlab.Tail(p.Out.String()))
		}
	}
	if code != 0 || !strings.Contains(said, "success") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	for _, argv := range [][]string{
		{"ib_send_bw", "-x", "0", "-c", "XRC", "-n", "100"}, {"ib_write_bw", "-x", "0", "-c", "XRC", "-n", "100"}, {"ib_read_bw", "-x", "0", "-c", "XRC", "-n", "10"}, {"ib_atomic_bw", "-x", "0", "-c", "XRC", "-n", "10"},
	} {
		l.RunRDMABetween("h1", "h3", argv, plus(argv, "10.0.0.1"))
	}
	file, lua := stop(), filepath.Join(t.TempDir(), "weft.lua")
	if err := os.WriteFile(lua, dissector.Lua(), 0o600); err != nil {
		t.Fatal(err)
	}
	script := "lua_script:" + lua
	if bad := testlab.Tshark(t, file, "-X", script, "-Y", "_ws.malformed || _ws.lua.error || (infiniband && _ws.expert.severity == error)"); len(bad) > 0 {
		t.Errorf("tshark finds fault with %d packets: %s", len(bad), bad[0])
	}
	for filter, want := range map[string]int{
		"infiniband.bth.opcode == 160 && xrc.srq > 0": 80,   // SEND First: 40 there, 40 back
		"infiniband.bth.opcode == 166 && xrc.rkey":    90,   // WRITE First
		"infiniband.bth.opcode == 167 && xrc.srq > 0": 5000, // WRITE Middle
		"infiniband.bth.opcode == 172 && xrc.length":  9,    // READ Request
		"infiniband.bth.opcode == 180 && xrc.swap":    9,    // FetchAdd
		"xrc.syndrome && xrc.msn > 0":                 50,   // acknowledgements
		// NAKs, but for those of a sequence: ibv_xsrq_pingpong may send before its peer is ready.
		"xrc.syndrome > 0x60": 0,
	} {
		n := len(testlab.Tshark(t, file, "-X", script, "-Y", filter))
		if n < want || want == 0 && n > 0 {
			t.Errorf("%s: %d packets, not %d", filter, n, want)
		}
	}
}
