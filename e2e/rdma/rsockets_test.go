package rdma

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// rspreload is the library that gives a program rsockets in place of its sockets.
const rspreload = "/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"

// TestRsockets_CarryStreams: Debian's programs for rsockets, in the ways that they can wait, with
// messages that fit one announced buffer and those that do not, and with their data verified.
func TestRsockets_CarryStreams(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, rdmaPairs, "rstream", "riostream")
	type test struct{ argv string }
	cases := []test{
		{"rstream -C 5 -I 5 -S 1000"},
		{"rstream -C 5 -I 5 -S 100000 -T b -T v"},
		{"rstream -C 5 -I 5 -S 300000 -T a -T v"},
		{"rstream -C 5 -I 5 -S 300000 -T n -T v"},
		{"rstream -C 5 -I 5 -S 1000 -B 4096 -T v"},
		{"riostream -C 2 -I 2 -S 70000"},
	}
	if _, err := os.Stat(rspreload); err == nil {
		cases = append(cases, test{"env LD_PRELOAD=" + rspreload + " rstream -C 5 -I 5 -S 100000 -T s -T b -T v"})
	}
	testlab.OnPairs(l, cases, func(c test) string { return c.argv }, func(l *testlab.Lab, p testlab.Pair, c test) {
		argv := strings.Fields(c.argv)
		_, said := l.RunRDMABetween(p.At, p.From, argv, plus(plus(argv, "-s"), p.Address()))
		if !strings.Contains(said, "custom") {
			l.T.Errorf("it has measured nothing:\n%s", said)
		}
	})
}

// TestRcopy_CopiesAFile: every byte of a file arrives.
func TestRcopy_CopiesAFile(t *testing.T) {
	t.Parallel()
	l := testlab.StartRDMA(t, testlab.TwoNICs, "rcopy")
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	data := bytes.Repeat(sha256.New().Sum(nil), 100_000)
	for i := range data {
		data[i] += byte(i / 32)
	}
	if err := os.WriteFile(from, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := l.StartServing("h1", "rcopy")
	if said, code := l.TryRDMA("h2", "rcopy", from, "10.0.0.1:"+to); code != 0 {
		t.Fatalf("exit code %d\n%s\nserver:\n%s", code, said, s.KillAndRead())
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes have arrived, or others: %v", len(got), len(data), err)
	}
}
