package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/spf13/cobra"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version and what identifies this build",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return printVersion() },
	}
}

func printVersion() error {
	text, err := versionText()
	if err == nil {
		printLine(text)
	}
	return err
}

// versionText identifies this build: the module's version, and the beginning of a hash
// of the executable, which differs if anything in it does.
var versionText = sync.OnceValues(func() (string, error) {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", err
	}
	defer self.Close()
	h := sha256.New()
	if _, err := io.Copy(h, self); err != nil {
		return "", err
	}
	return fmt.Sprintf("weft %s %s/%s build %s", version, runtime.GOOS, runtime.GOARCH, hex.EncodeToString(h.Sum(nil)[:6])), nil
})
