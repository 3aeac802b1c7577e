package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	netnslab "github.com/weftlab/weft/netns-lab"
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
// called in the host's namespaces.
func giveVerbs(info netnslab.Info, host string) (inside func() error, err error) {
	socket := netnslab.VerbsSocket(info.Dir, host)
	if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	dir, err := findVerbs()
	if err != nil {
		return nil, fmt.Errorf("host %s has an RDMA NIC: %w; or leave it alone with weft exec --kernel-rdma", host, err)
	}
	path := dir
	if old := os.Getenv(libraryPath); old != "" {
		path += ":" + old
	}
	return nil, errors.Join(os.Setenv(libraryPath, path), os.Setenv(verbsSocket, socket))
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
		return "", fmt.Errorf("the libraries that its programs need are not in %s: scripts/verbs.sh builds them into bin/verbs; $%s can name another place", dir, verbsDirectory)
	}
	return dir, nil
}
