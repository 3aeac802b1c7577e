package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
)

// TestDown_WithoutANameEndsOnlyALabOfThisPlace: without a name, weft down takes the only lab if
// that was started in this directory, and otherwise wants the name; exec says which lab it has
// chosen. A lab that crashed is named.
func TestDown_WithoutANameEndsOnlyALabOfThisPlace(t *testing.T) {
	t.Parallel()
	weft, here, elsewhere := testlab.Need(t, "unshare", "setsid", "mount"), t.TempDir(), t.TempDir()
	l := testlab.New(t, weft, here, testlab.TwoHosts)
	// A mount namespace with its own /run/weft has no lab of other tests. setsid leaves no
	// terminal, from which weft down would ask.
	script := `
weft=` + weft + `
mount -t tmpfs -o mode=755 tmpfs /run/weft || exit 9
trap '$weft down ` + l.Name + ` >/dev/null 2>&1' EXIT
cd ` + here + ` && $weft up -d ` + l.File + ` >/dev/null || exit 8
cd ` + elsewhere + `
$weft exec h1 -- true </dev/null; echo "exec elsewhere: $?"
$weft down </dev/null; echo "down elsewhere: $?"
cd ` + here + `
$weft exec h1 -- true </dev/null; echo "exec here: $?"
$weft down </dev/null >/dev/null; echo "down here: $?"
$weft up -d ` + l.File + ` >/dev/null || exit 8
kill -9 $($weft ps | awk '/running/ {print $3}')
while $weft ps | grep -q running; do sleep 0.1; done
$weft exec h1 -- true </dev/null; echo "exec after the crash: $?"
`
	out, err := exec.Command("setsid", "-w", "unshare", "-m", "sh", "-c", script).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	name, place := regexp.QuoteMeta(l.Name), regexp.QuoteMeta(filepath.Clean(here))
	want := `(?s)^weft: lab ` + name + `, the only one that runs, was started in ` + place + `
exec elsewhere: 0
weft: lab ` + name + ` was started in ` + place + `: to end it, name it: weft down ` + name + `
down elsewhere: 2
exec here: 0
down here: 0
weft: no lab is running, and ` + name + ` crashed: remove what is left with: weft down ` + name + `
exec after the crash: 1
$`
	if !regexp.MustCompile(want).Match(out) {
		t.Errorf("the commands say\n%s\nwant\n%s", out, want)
	}
}

// TestLabVariable_NamesTheLab: with WEFT_LAB commands need no -l beside other labs, -l comes first,
// and an error says where the name is from.
func TestLabVariable_NamesTheLab(t *testing.T) {
	t.Parallel()
	first, second := testlab.Start(t, testlab.TwoHosts), testlab.Start(t, testlab.TwoHosts)
	run := func(variable string, args ...string) (said string, code int) {
		c := first.Command(args...)
		c.Env = append(os.Environ(), "WEFT_LAB="+variable)
		o, e, code := testlab.RunCommand(t, c)
		return o + e, code
	}
	for _, c := range []struct {
		variable string
		args     []string
		want     string
		code     int
	}{
		{first.Name, []string{"ps", "-p"}, "h1:eth0", 0},
		{first.Name, []string{"exec", "h1", "true"}, "", 0},
		{first.Name, []string{"exec", "-l", second.Name, "h1", "true"}, "", 0},
		{"none", []string{"exec", "h1", "true"}, "WEFT_LAB=none: ", 2},
		{"", []string{"exec", "h1", "true"}, "say which with --lab or WEFT_LAB", 2},
		{second.Name, []string{"down"}, "lab " + second.Name, 0},
	} {
		if said, code := run(c.variable, c.args...); code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("WEFT_LAB=%s weft %v: exit code %d, want %d with %q:\n%s", c.variable, c.args, code, c.code, c.want, said)
		}
	}
	if first.Status().Name != first.Name {
		t.Error("weft down has ended another lab")
	}
}
