package netnslab

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/switches/class"
)

// Classes are the traffic classes that a device separates, so that each can be held
// without the others: the device has one queue for each class, or several over which
// the flows of the class are distributed.
type Classes struct {
	Map        class.Map // maps a packet to its priority
	Priorities []uint8   // 0 to 7, of each class; includes all priorities in Map
	Flows      int       // queues for each class; 0 means 1
}

// perClass returns the number of queues of each class.
func (c *Classes) perClass() int { return max(c.Flows, 1) }

// queueCount returns the total number of queues.
func (c *Classes) queueCount() int { return len(c.Priorities) * c.perClass() }

// firstQueue returns the number of the first queue for a priority, -1 if there is none.
func (c *Classes) firstQueue(priority uint8) int {
	i := slices.Index(c.Priorities, priority)
	if i < 0 {
		return -1
	}
	return i * c.perClass()
}

func (c *Classes) validateClasses() error {
	if n := len(c.Priorities); n < 1 || n > class.Count {
		return fmt.Errorf("%d traffic classes: a device has 1 to %d", n, class.Count)
	}
	if c.Flows < 0 || c.queueCount() > MaxQueues {
		return fmt.Errorf("%d queues for each of %d traffic classes: a device has at most %d", c.Flows, len(c.Priorities), MaxQueues)
	}
	for i, p := range c.Priorities {
		if p >= class.Count {
			return fmt.Errorf("priority %d of a traffic class: priorities are 0 to %d", p, class.Count-1)
		}
		if slices.Contains(c.Priorities[:i], p) {
			return fmt.Errorf("two traffic classes have priority %d: each needs its own", p)
		}
	}
	for _, p := range slices.Concat(c.Map.DSCP[:], c.Map.PCP[:], []uint8{c.Map.Untagged}) {
		if c.firstQueue(p) < 0 {
			return fmt.Errorf("packets get priority %d, but no traffic class has it", p)
		}
	}
	return nil
}

// ErrNoSteering means that a device cannot have a queue for each traffic class.
var ErrNoSteering = errors.New("traffic classes cannot be kept apart")

// CheckSteering reports why the devices of this process cannot have a queue for each
// traffic class, with the fix; nil if they can. It makes a temporary TAP called name
// with two queues in the calling thread's network namespace.
func CheckSteering(name string) error {
	c := &Classes{Priorities: []uint8{0, 1}}
	fds, err := openQueues(Interface{Name: name, Kind: TAP, Classes: c})
	for _, fd := range fds {
		unix.Close(fd)
	}
	return err
}

// openQueues opens a device with a queue for each of the classes of i, into which
// the kernel sorts the host's packets. The error is ErrNoSteering if a device
// without them can be made.
func openQueues(i Interface) (fds []int, err error) {
	// First, because this is the most likely to be refused.
	program, err := newSteering(i.Classes, i.Kind)
	if err != nil {
		return nil, err
	}
	// The device holds the program as long as it lives (tun_set_ebpf,
	// drivers/net/tun.c).
	defer program.Close()
	open := openTun
	if i.Offload {
		open = openOffload
	}
	defer func() {
		if err != nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
			fds = nil
		}
	}()
	for range i.Classes.queueCount() {
		fd, err := open(i.Name, i.Kind, true)
		if err != nil {
			return fds, err
		}
		fds = append(fds, fd)
	}
	if err := unix.IoctlSetPointerInt(fds[0], unix.TUNSETSTEERINGEBPF, program.FD()); err != nil {
		return fds, fmt.Errorf("%w: TUNSETSTEERINGEBPF: %w (Linux 4.16 or later is needed)", ErrNoSteering, err)
	}
	return fds, nil
}

// newSteering loads the program that returns the number of a packet's queue. It is a
// variable so that tests can simulate machines that refuse it.
var newSteering = func(c *Classes, kind DeviceKind) (*ebpf.Program, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "weft_steering", Type: ebpf.SocketFilter, License: "GPL", Instructions: c.steeringProgram(kind),
	})
	switch {
	case err == nil:
		return p, nil
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("%w: this process may not load BPF programs: %w (run as root; in a container, with --cap-add BPF; or sysctl -w kernel.unprivileged_bpf_disabled=0)", ErrNoSteering, unix.EPERM)
	}
	return nil, fmt.Errorf("%w: load a BPF program: %w (it needs CONFIG_BPF_SYSCALL)", ErrNoSteering, err)
}

// Fields of struct __sk_buff (include/uapi/linux/bpf.h), by their offset.
const (
	skbMark        = 8
	skbVLANPresent = 20
	skbVLANTCI     = 24
)

// untagged represents the priority code point of a packet without a tag.
const untagged = 8

// maxTags is the number of VLAN tags in a frame, in addition to the one that the kernel
// keeps outside it, that are skipped to find an IP packet.
const maxTags = 3

// steeringProgram returns the program. It chooses by the DSCP of an IP packet, even behind
// VLAN tags, else by the priority code point of the outermost tag, else the queue of
// untagged packets. A tag added by a VLAN device of the host is beside the frame,
// not in it. A packet with a kick's mark goes to the queue in the mark.
func (c *Classes) steeringProgram(kind DeviceKind) asm.Instructions {
	// R6 is the packet, R7 its priority code point, R8 the length of its tags.
	in := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R0, asm.R6, skbMark, asm.Word),
		asm.Mov.Reg32(asm.R1, asm.R0),
		asm.And.Imm32(asm.R1, ^kickQueue),
		asm.JNE.Imm32(asm.R1, kickMark, "packet"),
		asm.And.Imm(asm.R0, kickQueue),
		asm.Return(),
		asm.Mov.Imm(asm.R8, 0).WithSymbol("packet"),
		asm.Mov.Imm(asm.R7, untagged),
	}
	l3 := int32(kind.headerLen())
	if kind == TUN {
		in = append(in,
			asm.LoadAbs(0, asm.Byte),
			asm.RSh.Imm(asm.R0, 4),
			asm.JEq.Imm(asm.R0, 4, "ipv4"),
			asm.JEq.Imm(asm.R0, 6, "ipv6"),
		)
	} else {
		in = append(in,
			asm.LoadMem(asm.R0, asm.R6, skbVLANPresent, asm.Word),
			asm.JEq.Imm(asm.R0, 0, "type0"),
			asm.LoadMem(asm.R7, asm.R6, skbVLANTCI, asm.Word),
			asm.RSh.Imm(asm.R7, 13),
			asm.And.Imm(asm.R7, 7),
		)
		for k := range int32(maxTags) {
			in = append(in,
				asm.LoadAbs(l3-2+k*vlanTag, asm.Half).WithSymbol(fmt.Sprint("type", k)),
				asm.JEq.Imm(asm.R0, unix.ETH_P_8021Q, fmt.Sprint("tag", k)),
				asm.JNE.Imm(asm.R0, unix.ETH_P_8021AD, "type"),
				asm.Add.Imm(asm.R8, vlanTag).WithSymbol(fmt.Sprint("tag", k)),
				asm.JNE.Imm(asm.R7, untagged, fmt.Sprint("type", k+1)), // the outermost counts
				asm.LoadAbs(l3+k*vlanTag, asm.Byte),
				asm.RSh.Imm(asm.R0, 5),
				asm.Mov.Reg(asm.R7, asm.R0),
			)
		}
		in = append(in,
			asm.LoadAbs(l3-2+maxTags*vlanTag, asm.Half).WithSymbol(fmt.Sprint("type", maxTags)),
			asm.JEq.Imm(asm.R0, unix.ETH_P_IP, "ipv4").WithSymbol("type"),
			asm.JEq.Imm(asm.R0, unix.ETH_P_IPV6, "ipv6"),
		)
	}
	in = append(in, asm.Mov.Reg(asm.R0, asm.R7))
	in = c.appendChoice(in, func(priority uint8) (set uint64) {
		for pcp, p := range c.Map.PCP {
			if p == priority {
				set |= 1 << pcp
			}
		}
		if c.Map.Untagged == priority {
			set |= 1 << untagged
		}
		return set
	})
	in = append(in,
		asm.Mov.Imm(asm.R7, isIPv4).WithSymbol("ipv4"),
		asm.LoadInd(asm.R0, asm.R8, l3+1, asm.Byte),
		asm.RSh.Imm(asm.R0, 2),
		asm.Ja.Label("dscp"),
		asm.Mov.Imm(asm.R7, isIPv6).WithSymbol("ipv6"),
		asm.LoadInd(asm.R0, asm.R8, l3, asm.Half),
		asm.RSh.Imm(asm.R0, 6),
		asm.And.Imm(asm.R0, 63),
		asm.Mov.Reg(asm.R0, asm.R0).WithSymbol("dscp"),
	)
	in = c.appendChoice(in, func(priority uint8) (set uint64) {
		for dscp, p := range c.Map.DSCP {
			if p == priority {
				set |= 1 << dscp
			}
		}
		return set
	})
	if c.perClass() == 1 {
		for i := range c.Priorities {
			in = append(in, asm.Mov.Imm(asm.R0, int32(i)).WithSymbol(fmt.Sprint("queue", i)), asm.Return())
		}
		return in
	}
	for i := range c.Priorities {
		in = append(in, asm.Mov.Imm(asm.R9, int32(i*c.perClass())).WithSymbol(fmt.Sprint("queue", i)), asm.Ja.Label("share"))
	}
	return c.distributeFlows(in, l3)
}

// Values of R7 once a packet is known to be IP: they are not priority code points.
const (
	isIPv4 = 104
	isIPv6 = 106
)

// distributeFlows distributes the flows of a class over its queues, of which R9 is the first: by
// addresses, and by TCP and UDP ports if they are known to be present, so that a flow
// keeps its queue. Packets other than IP take the first.
func (c *Classes) distributeFlows(in asm.Instructions, l3 int32) asm.Instructions {
	const (
		fragment = 0x3fff // offset, and More Fragments
		tcp, udp = unix.IPPROTO_TCP, unix.IPPROTO_UDP
	)
	in = append(in,
		asm.JEq.Imm(asm.R7, isIPv4, "share4").WithSymbol("share"),
		asm.JEq.Imm(asm.R7, isIPv6, "share6"),
		asm.Mov.Reg(asm.R0, asm.R9),
		asm.Return(),
		asm.Mov.Imm(asm.R7, 0).WithSymbol("share4"),
	)
	in = addWords(in, l3+12, 2)
	in = append(in,
		asm.LoadInd(asm.R0, asm.R8, l3+6, asm.Half),
		asm.JSet.Imm(asm.R0, fragment, "spread"),
		asm.LoadInd(asm.R0, asm.R8, l3+9, asm.Byte),
		asm.JEq.Imm(asm.R0, tcp, "ports4"),
		asm.JNE.Imm(asm.R0, udp, "spread"),
		asm.LoadInd(asm.R0, asm.R8, l3, asm.Byte).WithSymbol("ports4"),
		asm.And.Imm(asm.R0, 15),
		asm.LSh.Imm(asm.R0, 2),
		asm.Add.Reg(asm.R8, asm.R0),
	)
	in = addWords(in, l3, 1)
	in = append(in,
		asm.Ja.Label("spread"),
		asm.Mov.Imm(asm.R7, 0).WithSymbol("share6"),
	)
	in = addWords(in, l3+8, 8)
	in = append(in,
		asm.LoadInd(asm.R0, asm.R8, l3+6, asm.Byte),
		asm.JEq.Imm(asm.R0, tcp, "ports6"),
		asm.JNE.Imm(asm.R0, udp, "spread"),
		asm.Mov.Reg(asm.R0, asm.R0).WithSymbol("ports6"),
	)
	in = addWords(in, l3+40, 1)
	return append(in,
		asm.Mov.Reg32(asm.R0, asm.R7).WithSymbol("spread"),
		asm.RSh.Imm32(asm.R0, 15),
		asm.Xor.Reg32(asm.R0, asm.R7),
		asm.Mul.Imm32(asm.R0, hashMix),
		asm.RSh.Imm32(asm.R0, 16),
		asm.Mod.Imm32(asm.R0, int32(c.perClass())),
		asm.Add.Reg(asm.R0, asm.R9),
		asm.Return(),
	)
}

// hashMix is an odd number whose bits look random: the multiplier of Knuth's
// multiplicative hash, as a signed number.
const hashMix = 0x9e3779b1 - 1<<32

// addWords adds words of 4 bytes, from an offset after the VLAN tags, to the hash in R7.
func addWords(in asm.Instructions, offset, words int32) asm.Instructions {
	for i := range words {
		in = append(in,
			asm.LoadInd(asm.R0, asm.R8, offset+4*i, asm.Word),
			asm.Xor.Reg32(asm.R7, asm.R0),
			asm.Mul.Imm32(asm.R7, hashMix),
			asm.Mov.Reg32(asm.R0, asm.R7),
			asm.RSh.Imm32(asm.R0, 13),
			asm.Xor.Reg32(asm.R7, asm.R0),
		)
	}
	return in
}

// appendChoice jumps to the queue whose priority has the value of R0 in its set, a bit set
// of 64 bits.
func (c *Classes) appendChoice(in asm.Instructions, set func(priority uint8) uint64) asm.Instructions {
	for i, p := range c.Priorities[1:] {
		in = append(in,
			asm.LoadImm(asm.R1, int64(set(p)), asm.DWord),
			asm.RSh.Reg(asm.R1, asm.R0),
			asm.JSet.Imm(asm.R1, 1, fmt.Sprint("queue", i+1)),
		)
	}
	return append(in, asm.Ja.Label("queue0"))
}
