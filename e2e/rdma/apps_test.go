package rdma

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestUCX_RunsOverRCAndUD: Debian's UCX, unmodified, finds the NIC and runs over its RC and UD.
func TestUCX_RunsOverRCAndUD(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaPairs, "ucx_perftest", "ucx_info")
	out := l.Exec("h1", "ucx_info", "-d")
	for _, transport := range []string{"rc_verbs", "ud_verbs"} {
		if !regexp.MustCompile(`Transport: ` + transport + `\n#\s+Device: roce0:1\n`).MatchString(out) {
			t.Errorf("ucx_info -d does not show %s of the NIC:\n%s", transport, out)
		}
	}
	type test struct{ transport, argv string }
	const rc, ud = "rc_v,self", "ud_v,self"
	cases := []test{
		{rc, "-t tag_lat -s 8"}, {rc, "-t tag_lat -s 100000"}, {rc, "-t tag_lat -s 8 -E sleep"},
		{rc, "-t tag_bw -s 1000"}, {rc, "-t tag_bw -s 1000000 -n 50"}, {rc, "-t tag_sync_lat"}, {rc, "-t stream_bw -s 5000"},
		{rc, "-t ucp_put_lat"}, {rc, "-t ucp_put_bw -s 100000"}, {rc, "-t ucp_get -s 8"}, {rc, "-t ucp_get -s 100000"},
		{rc, "-t ucp_add"}, {rc, "-t ucp_fadd"}, {rc, "-t ucp_swap"}, {rc, "-t ucp_cswap"}, {rc, "-t ucp_am_lat -s 3000"}, {rc, "-t ucp_am_bw -s 100000"},
		{ud, "-t tag_lat -s 8"}, {ud, "-t tag_lat -s 8 -E sleep"}, {ud, "-t tag_bw -s 50000"}, {ud, "-t stream_lat"}, {ud, "-t ucp_am_bw -s 1000"}, {ud, "-t ucp_get -s 2000"},
		{"rc_verbs", "-d roce0:1 -x rc_verbs -t am_lat -D short"}, {"rc_verbs", "-d roce0:1 -x rc_verbs -t put_lat -D short"},
		{"rc_verbs", "-d roce0:1 -x rc_verbs -t put_bw -D zcopy -s 100000"}, {"rc_verbs", "-d roce0:1 -x rc_verbs -t get -D zcopy -s 100000"},
		{"rc_verbs", "-d roce0:1 -x rc_verbs -t fadd"}, {"rc_verbs", "-d roce0:1 -x rc_verbs -t cswap"},
		{"ud_verbs", "-d roce0:1 -x ud_verbs -t am_bw -D bcopy -s 1000"},
	}
	testlab.OnPairs(l, cases, func(c test) string { return c.transport + " " + c.argv }, func(l *testlab.Lab, p testlab.Pair, c test) {
		argv := []string{"env", "UCX_TLS=" + c.transport, "ucx_perftest"}
		_, said := l.RunRDMABetween(p.At, p.From, argv, plus(argv, append([]string{p.Address(), "-n", "200", "-w", "10"}, strings.Fields(c.argv)...)...))
		if !regexp.MustCompile(`Final: +\d+ `).MatchString(said) || strings.Contains(said, "ERROR") {
			l.T.Errorf("the client says\n%s", said)
		}
	})
}

// TestLibfabric_RunsOverItsEndpointTypes: Debian's libfabric, unmodified, with endpoints of all
// its types over verbs. fi_pingpong -c compares the received bytes with those sent.
func TestLibfabric_RunsOverItsEndpointTypes(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaPairs, "fi_pingpong", "fi_info")
	out := l.Exec("h1", "fi_info", "-p", "verbs")
	for _, want := range []string{"FI_PROTO_RDMA_CM_IB_RC", "FI_PROTO_IB_UD", "domain: roce0\n", "domain: roce0-dgram\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("fi_info -p verbs does not say %q:\n%s", want, out)
		}
	}
	type test struct{ argv, want string }
	cases := []test{
		{"-p verbs -e msg", `(?m)^1m +10 `},
		{"-p verbs -e dgram", `(?m)^1k +10 `},
		{"-p verbs;ofi_rxm -e rdm", `(?m)^1m +10 `},
		{"-p verbs;ofi_rxd -e rdm", `(?m)^64k +10 `},
	}
	testlab.OnPairs(l, cases, func(c test) string { return c.argv }, func(l *testlab.Lab, p testlab.Pair, c test) {
		argv := append([]string{"fi_pingpong", "-c", "-I", "10"}, strings.Fields(c.argv)...)
		said := alike(l, p.At, p.From, argv...)
		if !regexp.MustCompile(c.want).MatchString(said) || strings.Contains(said, "rror") {
			l.T.Errorf("the client says\n%s", said)
		}
	})
}

// TestExtendedVerbs_CarryPingpongs: programs of rdma-core that post with ibv_wr_*() and read
// completions one by one, with their timestamps.
func TestExtendedVerbs_CarryPingpongs(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaPairs, "ibv_rc_pingpong")
	// Unsupported features are refused with the errno that programs recognize.
	out, e, code := l.Run("exec", "-l", l.Name, "h1", "--", "ibv_rc_pingpong", "-g", "0", "-j")
	if code == 0 || !strings.Contains(out+e, "doesn't support dm allocation") {
		t.Errorf("ibv_rc_pingpong -j: exit code %d\n%s%s", code, out, e)
	}
	type test struct{ argv, want string }
	cases := []test{
		{"ibv_rc_pingpong -g 0 -N -c", `1000 iters in`},
		{"ibv_rc_pingpong -g 0 -N -e", `1000 iters in`},
		{"ibv_rc_pingpong -g 0 -t", `1000 iters in[^$]*Average receive completion clock cycles = [1-9]`},
		{"ibv_rc_pingpong -g 0 -o -c", `1000 iters in`},    // on-demand paging,
		{"ibv_rc_pingpong -g 0 -O -c", `1000 iters in`},    // of all memory,
		{"ibv_rc_pingpong -g 0 -o -P -c", `1000 iters in`}, // prefetched
		{"ibv_rc_pingpong -g 0 -N -t -s 50000", `1000 iters in[^$]*Average receive completion clock cycles = [1-9]`},
	}
	testlab.OnPairs(l, cases, func(c test) string { return c.argv }, func(l *testlab.Lab, p testlab.Pair, c test) {
		said := alike(l, p.At, p.From, strings.Fields(c.argv)...)
		if !regexp.MustCompile(c.want).MatchString(said) {
			l.T.Errorf("the client has not printed %q:\n%s", c.want, said)
		}
	})
}
