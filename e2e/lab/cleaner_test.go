package lab

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/internal/await"
)

// TestKilledTest_LeavesNoLab: a lab ends even if the process of its test is killed.
func TestKilledTest_LeavesNoLab(t *testing.T) {
	t.Parallel()
	const inner = "WEFT_TEST_TO_BE_KILLED"
	weft := testlab.Need(t)
	if os.Getenv(inner) != "" {
		l := testlab.New(t, weft, t.TempDir(), testlab.TwoHosts)
		l.Must("up", "-d", l.File)
		fmt.Println("lab", l.Name, weft)
		select {}
	}
	c := exec.Command(os.Args[0], "-test.run", "^TestKilledTest_LeavesNoLab$")
	c.Env = append(os.Environ(), inner+"=1", "TMPDIR="+t.TempDir())
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var lab, command string
	lines := bufio.NewScanner(out)
	for lab == "" && lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text(), "lab %s %s", &lab, &command)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if lab == "" {
		t.Fatal("the inner test has not started its lab")
	}
	await.True(t, "lab "+lab+" and the directory of its command are gone", func() bool {
		o, _, _ := testlab.RunWeft(t, weft, "ps")
		_, err := os.Stat(filepath.Dir(command))
		return !strings.Contains(o, lab+" ") && err != nil
	})
}
