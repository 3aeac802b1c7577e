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

// checkVerbs tells a program that uses RDMA from a host that has NICs, but not the
// libraries for them.
func checkVerbs(info netnslab.Info, host, program string) error {
	if _, err := os.Stat(netnslab.VerbsSocket(info.Dir, host)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if lab.HasLibraries(info.Dir) || !usesVerbs(program) {
		return nil
	}
	_, err := lab.FindLibraries()
	if err == nil {
		err = errors.New("the libraries for that were not there when the lab started: restart it")
	}
	return fmt.Errorf("%s uses RDMA, and host %s has an RDMA NIC: %w; or let it use the kernel's with --kernel-rdma", program, host, err)
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
	return slices.Contains(libraries, lab.VerbsLibrary) || slices.Contains(libraries, "librdmacm.so.1")
}
