package cli

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/netns-lab/livefs"
)

// Environment of programs in hosts with NICs.
const (
	verbsDirectory = "WEFT_VERBS"        // where the libraries are, if not beside weft
	verbsSocket    = "WEFT_VERBS_SOCKET" // where they reach the lab
	libraryPath    = "LD_LIBRARY_PATH"
)

// verbsLibrary is the library without which there are no verbs.
const verbsLibrary = "libibverbs.so.1"

// giveVerbs lets the program that is about to start in a host use the host's emulated
// NICs, if it has any: by the environment, and by what it returns, which is to be
// called in the host's namespaces. Where the libraries have not been built, that is
// an error only for programs that use them.
func giveVerbs(info netnslab.Info, host, program string) (inside func() error, err error) {
	socket := netnslab.VerbsSocket(info.Dir, host)
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	dir, err := findVerbs()
	switch {
	case err == nil:
	case usesVerbs(program):
		return nil, fmt.Errorf("%s uses RDMA, and host %s has an RDMA NIC: %w; or let it use the kernel's with --kernel-rdma", program, host, err)
	default:
		return nil, nil
	}
	path := dir
	if old := os.Getenv(libraryPath); old != "" {
		path += ":" + old
	}
	inside = func() error {
		if err := netnslab.ShowVerbs(netnslab.VerbsClass(info.Dir, host)); err != nil {
			return err
		}
		err := netnslab.ShowCounters(netnslab.VerbsCounters(info.Dir, host))
		if errors.Is(err, livefs.ErrUnavailable) {
			// Programs seldom look there, and doctor says what is missing.
			return nil
		}
		return err
	}
	return inside, errors.Join(os.Setenv(libraryPath, path), os.Setenv(verbsSocket, socket))
}

// usesVerbs tells whether a program is linked to libraries for RDMA. Of one that loads
// them later that cannot be seen.
func usesVerbs(program string) bool {
	path, err := exec.LookPath(program)
	if err != nil {
		return false // and that will be said
	}
	f, err := elf.Open(path)
	if err != nil {
		return false // a script
	}
	defer f.Close()
	libraries, _ := f.ImportedLibraries()
	return slices.Contains(libraries, verbsLibrary) || slices.Contains(libraries, "librdmacm.so.1")
}

// findVerbs finds the directory with the libraries.
func findVerbs() (string, error) {
	dir := os.Getenv(verbsDirectory)
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(filepath.Dir(self), "verbs")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, verbsLibrary)); err != nil {
		return "", fmt.Errorf("the libraries for that are not in %s: scripts/verbs.sh builds them into bin/verbs; $%s can name another place", dir, verbsDirectory)
	}
	return dir, nil
}
