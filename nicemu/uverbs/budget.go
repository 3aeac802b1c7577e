package uverbs

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/nicemu/qp"
)

// Programs make objects, and objects use limited resources of the emulator's process: memory,
// mappings (vm.max_map_count; without one Go cannot grow its heap and the lab ends) and descriptors
// (RLIMIT_NOFILE). So all servers share a budget, and a process gets more of it only while it holds
// less than what is left. A process that takes all it can leaves half, the next one that does so a
// third, and no process is left with none: the rule by which ports share a switch's buffer
// (Choudhury and Hahne, 1998).

// pool is the remaining amount of one resource.
type pool struct{ left atomic.Int64 }

// shareOfOne returns how much a program can take that is the only one to hold any.
func (p *pool) shareOfOne() int64 { return p.left.Load() / 2 }

// acquireFor takes n for a holder of *held.
func (p *pool) acquireFor(held *int64, n int64) bool {
	for {
		left := p.left.Load()
		if n > 0 && *held+n > left-n {
			return false
		}
		if p.left.CompareAndSwap(left, left-n) {
			*held += n
			return true
		}
	}
}

// releaseFor returns n.
func (p *pool) releaseFor(held *int64, n int64) {
	*held -= n
	p.left.Add(n)
}

// budget is shared by servers.
type budget struct{ memory, mappings, descriptors pool }

// cost is the part of a budget that an object takes, or that a session holds.
type cost struct{ memory, mappings, descriptors int64 } // bytes; the others are numbers

func newBudget(have cost) *budget {
	b := &budget{}
	b.memory.left.Store(have.memory)
	b.mappings.left.Store(have.mappings)
	b.descriptors.left.Store(have.descriptors)
	return b
}

// machine is the budget of this process: half of the available resources.
var machine = sync.OnceValue(func() *budget {
	have := cost{memory: 1 << 30, mappings: 65530, descriptors: 1024} // the kernel's defaults
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		have.memory = int64(info.Totalram) * int64(info.Unit)
	}
	if b, err := os.ReadFile("/proc/sys/vm/max_map_count"); err == nil {
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil {
			have.mappings = n
		}
	}
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		have.descriptors = int64(min(files.Cur, 1<<30))
	}
	return newBudget(cost{have.memory / 2, have.mappings / 2, have.descriptors / 2})
})

// queuesOfOne returns how many queues with rings a program can have that holds none yet: each has a mapping
// here, and one in the program.
func (b *budget) queuesOfOne() int { return int(min(b.mappings.shareOfOne(), maxObjects)) }

// acquireCost takes c for a holder of *held; ENOMEM if that is too much.
func (b *budget) acquireCost(held *cost, c cost) error {
	what := ""
	switch {
	case !b.memory.acquireFor(&held.memory, c.memory):
		what = "memory"
	case !b.mappings.acquireFor(&held.mappings, c.mappings):
		what = "mappings (vm.max_map_count)"
		b.memory.releaseFor(&held.memory, c.memory)
	case !b.descriptors.acquireFor(&held.descriptors, c.descriptors):
		what = "descriptors (RLIMIT_NOFILE)"
		b.memory.releaseFor(&held.memory, c.memory)
		b.mappings.releaseFor(&held.mappings, c.mappings)
	default:
		return nil
	}
	return fmt.Errorf("%w: the lab has no more %s for one program", syscall.ENOMEM, what)
}

// releaseCost returns c.
func (b *budget) releaseCost(held *cost, c cost) {
	b.memory.releaseFor(&held.memory, c.memory)
	b.mappings.releaseFor(&held.mappings, c.mappings)
	b.descriptors.releaseFor(&held.descriptors, c.descriptors)
}

// Generous costs of objects: their structs and table entries, and for queues the work requests that
// fit.
const (
	objectBytes  = 1 << 10
	queueBytesOf = 8 << 10 // of a queue pair
	sendBytes    = 448     // of a work request, without its elements and the requested inline bytes
	recvBytes    = 64
	eventBytes   = 512
)

var (
	simple   = cost{memory: objectBytes}
	withPipe = cost{memory: objectBytes, descriptors: 1}
	withFile = cost{memory: objectBytes, descriptors: 1}
	withRing = cost{memory: objectBytes, mappings: 1}
	ofTarget = cost{memory: objectBytes + queueBytesOf}
	// ofSession is the socket, the process's memory and the bell; the doorbell page; a goroutine, its
	// channel and the buffer for requests.
	ofSession = cost{memory: 32 << 10, mappings: 1, descriptors: 3}
)

func costOfQP(q *createQP) cost {
	if q.Type == uint32(qp.XRCRecv) {
		return ofTarget
	}
	send := sendBytes + sgeLen*int64(q.MaxSendSGE) + int64(q.MaxInline)
	recv := recvBytes + sgeLen*int64(q.MaxRecvSGE)
	return cost{memory: objectBytes + queueBytesOf + multiplyCost(q.MaxSendWR, send) + multiplyCost(q.MaxRecvWR, recv), mappings: 1}
}

func costOfSRQ(q *createSRQ) cost {
	return cost{memory: objectBytes + multiplyCost(q.MaxWR, recvBytes+sgeLen*int64(q.MaxSGE)), mappings: 1}
}

// multiplyCost returns a times b, neither of which is beyond 2³⁸; impossible amounts stay impossible.
func multiplyCost(a uint32, b int64) int64 { return min(int64(a), 1<<20) * min(b, 1<<20) }
