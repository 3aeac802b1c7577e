package plan

import (
	"time"

	"github.com/weftlab/weft/netns-lab/vm"
	"github.com/weftlab/weft/sim/units"
)

// VM is what a virtual machine boots, and how. Of Image, Kernel and Disk it has an
// Image alone, or one of the others or both. Paths are absolute, or relative to
// where the lab file's path is.
type VM struct {
	Line int // of the node in the file, for what is found wrong later

	Image, Kernel, Initrd, Disk string // Image is empty for weft's own as well, if the others are
	Persist                     bool
	Append                      string
	Memory                      units.Bytes // a multiple of MiB
	CPUs                        int
	Accel                       vm.Accel
	Console                     string // empty is a file in the lab's directory
	Ready                       string // vm.ReadyAgent, vm.ReadyNone or a text
	ReadyLimit                  time.Duration
}

// BuiltIn tells whether the machine boots an image of weft's own making.
func (m *VM) BuiltIn() bool { return m.Kernel == "" && m.Disk == "" }
