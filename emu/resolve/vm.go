package resolve

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/netns-lab/vm"
	"github.com/weftlab/weft/sim/units"
)

// resolveVM resolves the settings of a virtual machine.
func (v *nodes) resolveVM(i int) {
	n, own := &v.plan.Nodes[i], v.nodeFileOf(i)
	file := own.VM.MergeOver(v.Reader, v.kinds.VM.VM)
	m := n.VM
	m.Line = v.Line(own.Kind)
	for _, path := range []struct {
		to   *string
		from *string
		name string
	}{{&m.Image, file.Image, "image"}, {&m.Kernel, file.Kernel, "kernel"}, {&m.Initrd, file.Initrd, "initrd"}, {&m.Disk, file.Disk, "disk"}, {&m.Console, file.Console, "console"}} {
		if path.from == nil {
			continue
		}
		if *path.from == "" {
			v.FailOnce(path.from, "leave the key out, or name a file", "%s is empty", path.name)
			continue
		}
		if err := oneLine(path.name, *path.from, 4095); err != nil {
			v.FailOnce(path.from, "", "%v", err)
		}
		*path.to = *path.from
		if !filepath.IsAbs(*path.to) {
			*path.to = filepath.Join(filepath.Dir(v.File()), *path.to)
		}
	}
	setFrom(&m.Persist, file.Persist)
	setFrom(&m.Append, file.Append)
	v.checkBoot(m, file)

	m.Memory = defaultGuestMemory
	setFrom(&m.Memory, file.Memory)
	if m.Memory < minGuestMemory || m.Memory > maxGuestMemory {
		v.FailOnce(file.Memory, "weft's own image needs 256MiB", "memory %v is outside 64MiB to 1024GiB", m.Memory)
	}
	m.Memory = (m.Memory + units.MiB - 1) / units.MiB * units.MiB
	m.CPUs = 1
	setFrom((*labfile.CPUs)(&m.CPUs), file.CPUs)
	setFrom((*labfile.Accel)(&m.Accel), file.Accel)

	m.Ready = vm.ReadyNone
	if m.BuiltIn() {
		m.Ready = vm.ReadyAgent
	}
	setFrom(&m.Ready, file.Ready)
	if m.Ready == "" {
		v.FailOnce(file.Ready, "write agent, none, or a text such as \"login:\"", "ready is empty")
	} else if err := oneLine("ready", m.Ready, 256); err != nil {
		v.FailOnce(file.Ready, "", "%v", err)
	}
	m.ReadyLimit = defaultReady
	if t := file.Limit; t != nil {
		if *t < minReady || *t > maxReady {
			v.FailOnce(t, "", "ready-limit %v is outside 1s to 1h", *t)
		}
		m.ReadyLimit = time.Duration(*t / units.Nanosecond)
	}
}

// checkBoot checks what a machine boots.
func (v *nodes) checkBoot(m *plan.VM, f *labfile.VM) {
	if m.Image != "" && (m.Kernel != "" || m.Disk != "") {
		v.FailOnce(f.Image, "leave out image, or kernel and disk", "an image has its own kernel, and no disk")
	}
	if m.Initrd != "" && m.Kernel == "" {
		v.FailOnce(f.Initrd, "write kernel: too", "an initrd has no effect without a kernel")
	}
	if m.Persist && m.Disk == "" {
		v.FailOnce(f.Persist, "write disk: too", "persist has no effect without a disk")
	}
	if m.Append == "" {
		return
	}
	if m.Disk != "" && m.Kernel == "" {
		v.FailOnce(f.Append, "write kernel: too, or set the command line in the disk's own loader", "append has no effect: the disk boots by its own loader")
	}
	if err := oneLine("append", m.Append, maxAppend); err != nil {
		v.FailOnce(f.Append, "", "%v", err)
	}
}

// Bounds on virtual machines.
const (
	minGuestMemory     = 64 * units.MiB
	maxGuestMemory     = 1024 * units.GiB
	defaultGuestMemory = 256 * units.MiB
	minReady           = units.Second
	maxReady           = 3600 * units.Second
	defaultReady       = 3 * time.Minute
	// maxAppend leaves room for what weft itself puts on the command line, of
	// which an x86 kernel takes 2048 bytes (COMMAND_LINE_SIZE).
	maxAppend = 1800
)

// oneLine checks a text that is passed to a program unchanged.
func oneLine(what, text string, maxLength int) error {
	switch {
	case strings.ContainsAny(text, "\n\r\x00"):
		return fmt.Errorf("%s must be a single line", what)
	case len(text) > maxLength:
		return fmt.Errorf("%s has %d bytes, more than %d", what, len(text), maxLength)
	}
	return nil
}
