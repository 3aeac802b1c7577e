package doctor

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weftlab/weft/sim/units"
)

// Resources of a real host with one interface. Measured with a star of 256
// hosts: 1041 descriptors, and 123 MB less memory available than before,
// without the hosts' first processes; with a star of 128, these took 32 MB more.
const (
	hostFiles  = 4
	ownFiles   = 16              // of weft itself
	hostMemory = 768 * units.KiB // of the kernel and of weft; without the host's programs
)

// Below these values the limits restrict ordinary labs.
const (
	fewFiles  = 1024
	lowMemory = units.GiB
	lowDisk   = units.GiB
)

func (m *machine) checkLimits() []Check {
	return []Check{m.openFiles(), m.checkNamespaces(), m.checkProcesses(), m.checkMemory(), m.checkNeighbours(), m.checkDisk()}
}

// hostNamespaces are the namespaces of each real host, one of each kind.
var hostNamespaces = []string{"net", "pid", "mnt", "uts", "ipc"}

// room holds the limits on the number of hosts.
type room struct {
	files      int64
	memory     units.Bytes // available now
	namespaces int64
}

func (m *machine) measureRoom() room {
	r := room{files: math.MaxInt64, memory: math.MaxInt64, namespaces: math.MaxInt64}
	if n, err := strconv.ParseInt(m.readLimit("Max open files"), 10, 64); err == nil {
		r.files = n
	}
	if b, ok := m.readMeminfo("MemAvailable"); ok {
		r.memory = b
	}
	for _, kind := range hostNamespaces {
		if n, ok := m.readNumber("proc/sys/user/max_" + kind + "_namespaces"); ok {
			r.namespaces = min(r.namespaces, n)
		}
	}
	return r
}

// fittingHosts returns how many real hosts fit, and what the next one would lack.
func (r room) fittingHosts() (n int, lack string) {
	maxHosts := int64(math.MaxInt64)
	for _, l := range []struct {
		hosts int64
		what  string
	}{
		{(r.files - ownFiles) / hostFiles, "open files"},
		{int64(r.memory / hostMemory), "memory"},
		{r.namespaces, "namespaces"},
	} {
		if l.hosts < maxHosts {
			maxHosts, lack = l.hosts, l.what
		}
	}
	return int(max(maxHosts, 0)), lack
}

func (m *machine) openFiles() Check {
	soft := m.readLimit("Max open files")
	c := Check{Group: groupLimits, Name: "open files", Verdict: OK, Found: soft}
	switch n, err := strconv.ParseInt(soft, 10, 64); {
	case soft == "":
		c.Found = "unknown"
	case err != nil: // unlimited
	default:
		c.Means = fmt.Sprintf("enough for %d hosts", max(n-ownFiles, 0)/hostFiles)
		if n < fewFiles {
			c.Verdict, c.Fix = Warn, "ulimit -n 65536"
		}
	}
	return c
}

func (m *machine) checkNamespaces() Check {
	c := Check{Group: groupLimits, Name: "network namespaces", Verdict: OK, Found: "unknown"}
	if n, ok := m.readNumber("proc/sys/user/max_net_namespaces"); ok {
		c.Found = fmt.Sprint(n)
		if n == 0 {
			c.Verdict, c.Means, c.Fix = Bad, "every real host is one", "sysctl -w user.max_net_namespaces=10000"
		}
	}
	return c
}

func (m *machine) checkProcesses() Check {
	pids, _ := m.readNumber("proc/sys/kernel/pid_max")
	threads, _ := m.readNumber("proc/sys/kernel/threads-max")
	c := Check{Group: groupLimits, Name: "processes", Verdict: OK, Found: "unknown"}
	if n := min(pids, threads); n > 0 {
		c.Found = fmt.Sprintf("%d threads in all (pid_max %d, threads-max %d)", n, pids, threads)
		c.Means = "weft needs about twenty, and one for each host; the rest are for the programs in the hosts"
	}
	return c
}

// readMeminfo reads a line of /proc/meminfo, whose "kB" are KiB (proc(5)).
func (m *machine) readMeminfo(name string) (units.Bytes, bool) {
	n, err := strconv.ParseInt(strings.TrimSuffix(m.readField("proc/meminfo", name), " kB"), 10, 64)
	return units.Bytes(n) * units.KiB, err == nil
}

func (m *machine) checkMemory() Check {
	c := Check{Group: groupLimits, Name: "memory", Verdict: OK, Found: "unknown"}
	total, ok1 := m.readMeminfo("MemTotal")
	available, ok2 := m.readMeminfo("MemAvailable")
	if !ok1 || !ok2 {
		return c
	}
	c.Found = fmt.Sprintf("%s, of which %s available", formatAmount(total), formatAmount(available))
	c.Means = fmt.Sprintf("enough for %d hosts, not counting their programs", available/hostMemory)
	if available < lowMemory {
		c.Verdict, c.Fix = Warn, "end programs that use it (ps --sort -rss aux), or add memory"
	}
	return c
}

// checkNeighbours checks the size of the neighbour table, which all namespaces share
// (arp_tbl in net/ipv4/arp.c; Documentation/networking/ip-sysctl.rst: gc_thresh3).
func (m *machine) checkNeighbours() Check {
	const name = "net.ipv4.neigh.default.gc_thresh3"
	c := Check{Group: groupLimits, Name: "ARP entries", Verdict: OK, Found: "unknown"}
	if n, ok := m.readNumber("proc/sys/" + strings.ReplaceAll(name, ".", "/")); ok {
		c.Found = fmt.Sprintf("%d in all hosts together", n)
		c.Means = fmt.Sprintf("enough for %.0f hosts that all talk to each other", math.Sqrt(float64(n)))
		c.Fix = fmt.Sprintf("for more: sysctl -w %s=100000", name)
	}
	return c
}

func (m *machine) checkDisk() Check {
	c := Check{Group: groupLimits, Name: "disk", Verdict: OK}
	b, err := m.free(m.tempDir)
	if err != nil {
		c.Verdict, c.Found = Warn, fmt.Sprintf("%s: %s", m.tempDir, reasonOf(err))
		return c
	}
	c.Found = fmt.Sprintf("%s free in %s", formatAmount(b), m.tempDir)
	if b < lowDisk {
		c.Verdict, c.Means, c.Fix = Warn, "captures will soon fill it", "set TMPDIR to a larger file system, or make room"
	}
	return c
}
