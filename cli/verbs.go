package cli

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"

	"github.com/weftlab/weft/emu/lab"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// checkVerbs returns an error if a program uses RDMA and its host has NICs but the
// libraries for them are missing.
func checkVerbs(info netnslab.Info, host, program string) error {
	if _, err := os.Stat(netnslab.VerbsSocket(info.Dir, host)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if lab.HasLibraries(info.Dir) || !usesVerbs(program) {
		return nil
	}
	_, err := lab.FindLibraries()
	if err == nil {
		err = errors.New("the libraries for that were missing when the lab started: restart it")
	}
	return fmt.Errorf("%s uses RDMA, and host %s has an RDMA NIC: %w; or let it use the kernel's with --kernel-rdma", program, host, err)
}

// usesVerbs reports whether a program is linked to RDMA libraries. It does not detect
// a program that loads them later.
func usesVerbs(program string) bool {
	path, err := exec.LookPath(program)
	if err != nil {
		return false // starting the program will report it
	}
	f, err := elf.Open(path)
	if err != nil {
		return false // a script
	}
	defer f.Close()
	libraries, _ := f.ImportedLibraries()
	return slices.Contains(libraries, lab.VerbsLibrary) || slices.Contains(libraries, "librdmacm.so.1")
}
