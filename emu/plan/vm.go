package plan

import (
	"time"

	"github.com/weftlab/weft/netns-lab/vm"
	"github.com/weftlab/weft/sim/units"
)

// VM says what a virtual machine boots, and how. Of Image, Kernel and Disk, either
// Image alone is set, or one or both of the others. Paths are absolute, or
// relative to the same directory as the lab file's path.
type VM struct {
	Line int // of the node in the file, for errors found later

	Image, Kernel, Initrd, Disk string // Image is also empty for weft's own, if the others are
	Persist                     bool
	Append                      string
	Memory                      units.Bytes // a multiple of MiB
	CPUs                        int
	Accel                       vm.Accel
	Console                     string // empty means a file in the lab's directory
	Ready                       string // vm.ReadyAgent, vm.ReadyNone or a text
	ReadyLimit                  time.Duration
}

// BuiltIn reports whether the machine boots an image that weft made.
func (m *VM) BuiltIn() bool { return m.Kernel == "" && m.Disk == "" }
