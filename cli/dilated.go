package cli

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	netnslab "github.com/weftlab/weft/netns-lab"
)

// Environment of programs that see the clock of a dilated lab.
const (
	slowClock = "WEFT_SLOWCLOCK" // the library, if it is not beside weft
	clockFile = "WEFT_CLOCK"     // the lab's clock
	preload   = "LD_PRELOAD"
)

// slowClockName is the library's name beside weft (scripts/slowclock.sh).
const slowClockName = "slowclock.so"

func dilatedFlag(c *cobra.Command) *bool {
	return c.Flags().Bool("dilated", false, "give the program the clock of a dilated lab, so that it reports emulated rates and times")
}

// giveClock sets the environment so that the program about to start in a lab, and
// its children, see the lab's clock.
func giveClock(info netnslab.Info, program string) error {
	if info.Dilation <= 1 {
		return nil // the program sees the lab's clock anyway
	}
	if err := checkPreload(program); err != nil {
		return fmt.Errorf("--dilated: %w", err)
	}
	library, err := findSlowClock()
	if err != nil {
		return fmt.Errorf("--dilated: %w", err)
	}
	if old := os.Getenv(preload); old != "" {
		library += ":" + old
	}
	return errors.Join(os.Setenv(preload, library), os.Setenv(clockFile, filepath.Join(info.Dir, netnslab.ClockFile)))
}

// checkPreload returns an error for programs on which the library has no effect. It
// cannot check scripts.
func checkPreload(program string) error {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil // starting the program will report it
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	linked := false
	for _, p := range f.Progs {
		linked = linked || p.Type == elf.PT_INTERP
	}
	switch {
	case !linked:
		return fmt.Errorf("%s is linked statically: it takes the time from the kernel and cannot be given another clock", program)
	case f.Section(".go.buildinfo") != nil:
		return fmt.Errorf("%s is a Go program: it takes the time from the kernel and cannot be given another clock", program)
	}
	return nil
}

// findSlowClock finds the library.
func findSlowClock() (string, error) {
	path := os.Getenv(slowClock)
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		path = filepath.Join(filepath.Dir(self), slowClockName)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("there is no %s: scripts/slowclock.sh builds bin/%s; $%s can name another path", path, slowClockName, slowClock)
	}
	return path, nil
}
