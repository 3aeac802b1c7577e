package lab

import (
	"os/exec"
	"path/filepath"
	"regexp"
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
