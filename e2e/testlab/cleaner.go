package testlab

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// cleaner ends labs that their tests leave. Labs end with their tests, unless the tests' process is killed, as go test does at its time
// limit. So a cleaner waits for the end of that process, takes down the labs that are left, and
// removes the directory of the weft command.
type cleaner struct {
	process *exec.Cmd
	alive   io.Closer // the end of a pipe, which also closes when this process is killed
}

// clean is the cleaner's script. Its arguments are the weft command and the prefix of the labs'
// names.
const clean = `
trap '' INT TERM HUP
cat >/dev/null
"$1" ps | awk -v prefix="$2" 'index($1, prefix) == 1 { print $1 }' | while read -r lab; do
  "$1" down "$lab"
done
rm -rf "$(dirname "$1")"
`

// labPrefix starts the names of this process's labs.
func labPrefix() string { return fmt.Sprintf("t%d-", os.Getpid()%100000) }

func startCleaner(weft string) (*cleaner, error) {
	// In a session of its own, no signal to the tests' terminal or process group reaches it.
	c := &cleaner{process: exec.Command("sh", "-c", clean, "cleaner", weft, labPrefix())}
	c.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	if c.alive, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	return c, c.process.Start()
}

// finishCleaning lets the cleaner clean, and waits for it.
func (c *cleaner) finishCleaning() {
	c.alive.Close()
	_ = c.process.Wait()
}
