package labfile

import (
	"github.com/invopop/jsonschema"

	"github.com/weftlab/weft/emu/suggest"
	"github.com/weftlab/weft/emu/yamlfile"
	"github.com/weftlab/weft/netns-lab/vm"
	"github.com/weftlab/weft/sim/units"
)

// VM describes a virtual machine as a lab file does; keys that it leaves out
// are taken from its kind.
type VM struct {
	Image   *string      `yaml:"image,omitempty" jsonschema_description:"vm: directory of an image built by scripts/vm-image.sh; default the last one built, if neither kernel nor disk is set"`
	Kernel  *string      `yaml:"kernel,omitempty" jsonschema_description:"vm: kernel to boot, a bzImage or vmlinux"`
	Initrd  *string      `yaml:"initrd,omitempty" jsonschema_description:"vm: initial RAM disk of the kernel"`
	Disk    *string      `yaml:"disk,omitempty" jsonschema_description:"vm: disk image, qcow2 or raw, which boots by its own loader if kernel is not set"`
	Persist *bool        `yaml:"persist,omitempty" jsonschema_description:"vm: whether the disk keeps what the guest writes; default false"`
	Append  *string      `yaml:"append,omitempty" jsonschema_description:"vm: text to append to the kernel's command line"`
	Memory  *units.Bytes `yaml:"memory,omitempty" jsonschema_description:"vm: memory, 64MiB to 1024GiB, rounded up to a MiB; default 256MiB"`
	CPUs    *CPUs        `yaml:"cpus,omitempty" jsonschema_description:"vm: processors, 1 to 64; default 1"`
	Accel   *Accel       `yaml:"accel,omitempty" jsonschema_description:"vm: acceleration: KVM, emulation (tcg), or KVM where it works (auto); default auto"`
	Console *string      `yaml:"console,omitempty" jsonschema_description:"vm: file for the guest's console output; default console.log in the lab's directory, which is removed with the lab"`
	Ready   *string      `yaml:"ready,omitempty" jsonschema_description:"vm: when the guest counts as up: agent when weft's agent answers, none at once, any other text when it appears on the console; default agent with weft's own image, otherwise none"`
	Limit   *units.Time  `yaml:"ready-limit,omitempty" jsonschema_description:"vm: maximum time until the guest is up, 1s to 1h; default 3min"`
}

// MergeOver returns f with missing keys taken from base. What boots is taken as a
// whole.
func (f VM) MergeOver(r *yamlfile.Reader, base VM) *VM {
	if f.Image != nil || f.Kernel != nil || f.Disk != nil {
		base.Image, base.Kernel, base.Initrd, base.Disk, base.Ready = nil, nil, nil, nil, nil
		if f.Disk == nil {
			base.Persist = nil
		}
		if f.Image == nil && f.Kernel == nil {
			base.Append = nil
		}
	}
	return joinUnder(r, &f, &base)
}

// VMKind holds the defaults of virtual machines.
type VMKind struct {
	VM      `yaml:",inline"`
	Sysctls yamlfile.Dict[yamlfile.Scalar] `yaml:"sysctls,omitempty" jsonschema_description:"kernel settings below net."`
	Exec    []ExecForm                     `yaml:"exec,omitempty" jsonschema_description:"commands that each machine runs in order when the lab comes up"`
	Queue   Queue                          `yaml:"queue,omitempty" jsonschema_description:"egress queue of every interface"`
	Classes yamlfile.Dict[Class]           `yaml:"classes,omitempty" jsonschema_description:"traffic classes by name; default the classes of the switch that the machine is connected to"`
	Clock   *Clock                         `yaml:"clock,omitempty" jsonschema_description:"how exact the clocks of machines' NICs are: exact, real, or settings; default that of the lab"`
	Edge    *Edge                          `yaml:"edge,omitempty" jsonschema_description:"edge service between machines and their ports: {name: {settings}}, or none; default none"`
}

// NodeKind is the kind of a node in a file. In a plan a virtual machine is a host.
type NodeKind uint8

// The kinds.
const (
	HostNode NodeKind = iota
	SwitchNode
	VMNode
)

var nodeKindNames = []string{"host", "switch", "vm"}

// String returns the name that a lab file uses.
func (k NodeKind) String() string { return nodeKindNames[k] }

// foreignKinds maps other tools' names for the kinds, containerlab's first.
var foreignKinds = map[string]string{
	"linux": "host", "container": "host", "docker": "host", "netns": "host", "server": "host",
	"bridge": "switch", "ovs-bridge": "switch", "ovs": "switch", "router": "switch", "virtual-machine": "vm", "qemu": "vm",
}

// UnmarshalText reads the name that a lab file uses.
func (k *NodeKind) UnmarshalText(b []byte) error {
	err := unmarshalName(k, b, nodeKindNames)
	if err == nil {
		return nil
	}
	name := string(b)
	hint := suggest.Hint(name, "the kinds are", nodeKindNames)
	switch ours, known := foreignKinds[name]; {
	case name == "linux":
		hint = "write kind: host (linux in containerlab): a network namespace of this machine; it needs no image"
	case name == "router":
		hint = "write kind: switch; a switch with address: is a router"
	case known:
		hint = "write kind: " + ours
	}
	return &yamlfile.HintError{Msg: err.Error(), Hint: hint}
}

func (NodeKind) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(nodeKindNames...)
}

const maxCPUs = 64

// CPUs is a number of processors.
type CPUs int

// UnmarshalText reads a number from 1 to maxCPUs.
func (c *CPUs) UnmarshalText(b []byte) error {
	n, err := yamlfile.ParseInt(b, 1, maxCPUs)
	*c = CPUs(n)
	return err
}

func (CPUs) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.IntegerSchema(1, maxCPUs)
}

// Accel is how a guest's instructions are run.
type Accel vm.Accel

// UnmarshalText reads one of vm.AccelNames.
func (a *Accel) UnmarshalText(b []byte) error { return unmarshalName(a, b, vm.AccelNames) }

func (Accel) MakeSchema(*yamlfile.SchemaMaker) *jsonschema.Schema {
	return yamlfile.EnumSchema(vm.AccelNames...)
}
