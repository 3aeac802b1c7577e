// Package lab runs a lab: real hosts in network namespaces, connected by a
// fabric that an engine drives in wall-clock time, and the control socket that
// the commands use.
//
// Shards (package fabric) are driven by one thread each (package wall). Lab.Do stops all
// of them, one inside the other, for code that reads or changes the fabric. Lab.Sample
// reads all counters in such a stop; weft top and the metrics use nothing else. Control
// requests and slow work, such as netlink (follow.go), run elsewhere.
//
// What programs of a real host send is always read promptly. If a class of it must pause,
// its queue at the host's port grows, and beyond a length a thread (holds.go), scheduled
// like the engines', holds the queue of the host's device, until the port's queue is half
// as long.
//
// Commands of the lab file are child processes that enter a host as weft exec does
// (program.go), so they see what every other program in the host sees; in a guest its
// agent runs them. A lab is up when they are ready, and its clock starts when its guests
// are up. The lab relays frames between a guest's agent and weft exec, and does not read
// them.
package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/emu/recording"
	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/wall"
	"github.com/weftlab/weft/hosts"
	"github.com/weftlab/weft/links/device/dgram"
	"github.com/weftlab/weft/links/device/tuntap"
	netnslab "github.com/weftlab/weft/netns-lab"
	"github.com/weftlab/weft/sim/units"
)

// Lab is one running lab, owned by this process.
type Lab struct {
	plan    *plan.Plan
	fabric  *fabric.Fabric
	engines []*engine // by shard
	hosts   *netnslab.Lab
	ports   []attached
	guests  []*guest
	nics    []*dgram.NIC // of guests
	monitor monitor
	shaper  *follower
	metrics net.Listener // nil if only the control socket serves them
	holder  *holder
	verbs   []verbsServer
	series  []*seriesFile
	flows   *flowSink // of patterns; nil if there is none

	stop    context.CancelFunc // ends Run
	stopped chan struct{}      // closed when Run is over

	mu       sync.Mutex
	captures map[int]func() // stop functions of the captures in progress, for the engine's thread
	nextID   int

	clock    *wall.Clock
	startCPU time.Duration // of the process when the clock started
	final    *report.Report

	events   happened // to hosts and their programs
	programs Programs // for the commands that the file runs in hosts
}

// attached is one interface of a real host.
type attached struct {
	iface    *hosts.Interface
	device   *netnslab.Device
	endpoint endpoint
	tun      *tuntap.TUN // nil for a TAP
	name     string      // "h1:eth0"
}

// endpoint is the common interface of TAP and TUN.
type endpoint interface {
	hosts.Device
	Queues() []*tuntap.Queue
	SetMTU(int)
	Flush(now units.Time)
	OffloadCounters() tuntap.Offloaded
	IgnoredFrames() uint64
}

// New creates the hosts of a plan and everything else that Run needs. On an
// error nothing is left behind.
func New(p *plan.Plan) (*Lab, error) {
	if err := netnslab.CheckPrivileges(); err != nil {
		return nil, err
	}
	if err := checkGuests(p); err != nil {
		return nil, err
	}
	f, err := fabric.NewSharded(p, max(1, p.Engine.Workers))
	if err != nil {
		return nil, err
	}
	l := &Lab{plan: p, fabric: f, clock: wall.NewClock(p.Dilation), stopped: make(chan struct{}), captures: map[int]func(){}}
	if err := l.makeEngines(); err != nil {
		return nil, err
	}
	if l.hosts, err = netnslab.Create(p.Name, netnslab.Info{File: p.File, Names: routersOf(p), Dilation: p.Dilation}, hostsOf(p)); err != nil {
		return nil, err
	}
	err = l.attachDevices()
	if err == nil {
		err = l.addGuests()
	}
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, closingReason(l.removeHosts()))
	}
	if err := l.offerVerbs(); err != nil {
		l.closeVerbs()
		return nil, fmt.Errorf("%w%s", err, closingReason(l.hosts.Close()))
	}
	return l, nil
}

// removeHosts removes the hosts and the programs in them.
func (l *Lab) removeHosts() error {
	l.stopGuests()
	return l.hosts.Close()
}

func closingReason(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("; and while removing what had been made: %v", err)
}

// isReal reports whether a node is a host with devices.
func isReal(n *plan.Node) bool { return n.Kind == plan.Host && n.Attach != plan.NoDevice }

// hostsOf returns the hosts that netns-lab has to create.
func hostsOf(p *plan.Plan) []netnslab.Host {
	var hosts []netnslab.Host
	reach := p.Reach()
	for n := range p.Nodes {
		node := &p.Nodes[n]
		if !isReal(node) {
			continue
		}
		if node.VM != nil {
			hosts = append(hosts, guestHost(node))
			continue
		}
		h := netnslab.Host{Name: node.Name, Private: node.Private, Dilation: p.Dilation, Prefer: preferredNames(p, reach, n)}
		for _, s := range node.Sysctls {
			h.Sysctls = append(h.Sysctls, netnslab.Sysctl{Key: s.Key, Value: s.Value})
		}
		for _, r := range node.Routes {
			h.Routes = append(h.Routes, netnslab.Route{To: r.To, Via: r.Via})
		}
		for i, port := range node.Ports {
			nic := netnslab.Interface{
				Name: port.Name, Offload: node.Offload == plan.OffloadOn, Addresses: port.Addresses,
				Classes: classesOf(node, &node.Ports[i]),
			}
			if node.Attach == plan.TUN {
				nic.Kind = netnslab.TUN
			} else {
				nic.MAC = port.MAC[:]
			}
			if port.Link >= 0 {
				s := p.Links[port.Link].Dir[port.End]
				nic.Rate, nic.MTU = node.Clock.TrueRate(s.Rate), int(node.DeviceMTU(i, s.MTU))
			}
			h.Interfaces = append(h.Interfaces, nic)
		}
		hosts = append(hosts, h)
	}
	return hosts
}

// preferredNames returns the addresses of other real hosts to which a host has a route,
// unlike to their first addresses: names should lead there.
func preferredNames(p *plan.Plan, reach *plan.Reach, from int) (names []netnslab.Name) {
	for to := range p.Nodes {
		node := &p.Nodes[to]
		if to == from || !isReal(node) {
			continue
		}
		x := netnslab.Name{Name: node.Name}
		for _, ipv6 := range []bool{false, true} {
			first, ok := firstOf(node.Ports, ipv6)
			if !ok || reach.Leads(from, first) {
				continue
			}
			if a, ok := firstThat(node.Ports, func(a netip.Addr) bool { return a.Is6() == ipv6 && reach.Leads(from, a) }); ok {
				x.Addresses = append(x.Addresses, a)
			}
		}
		if len(x.Addresses) > 0 {
			names = append(names, x)
		}
	}
	return names
}

// routersOf returns the names of routers, which hosts know in addition to those of hosts.
func routersOf(p *plan.Plan) (names []netnslab.Name) {
	for _, n := range p.Nodes {
		if n.Router != nil && len(n.Router.Addresses) > 0 {
			names = append(names, netnslab.Name{Name: n.Name, Addresses: n.Router.Addresses})
		}
	}
	return names
}

// attachDevices connects the devices to the fabric's interfaces. Both are in the order
// of the plan.
func (l *Lab) attachDevices() error {
	l.holder = newHolder()
	devices := l.hosts.Devices()
	byInterface := map[*hosts.Interface]endpoint{}
	kernel := map[*hosts.Interface]*netnslab.Device{}
	for _, iface := range l.fabric.Interfaces {
		node := &l.plan.Nodes[iface.Node]
		if !isReal(node) || node.VM != nil {
			continue
		}
		d := devices[0]
		devices = devices[1:]
		mtu := netnslab.DefaultMTU
		if k := iface.Port.Link(); k != nil {
			mtu = int(k.Settings().MTU)
		}
		a := attached{iface: iface, device: d, name: iface.Port.Name}
		shard := l.fabric.ShardOf(iface.Node)
		engine := l.engines[shard.Number]
		c := tuntap.Config{
			FD: d.FD, More: d.FDs[1:], MTU: mtu, Pool: shard.Pool, Entrance: iface, Delivered: engine.driver.RecordDelivery,
			Offload: d.Offload, Engine: shard.Engine, Window: node.Join,
		}
		if classes := classesOf(node, &node.Ports[iface.Index]); classes != nil {
			l.holder.addDevice(iface, a.name, d, classes)
			l.watchQueues(iface)
			c.Ignore = netnslab.Kick
		}
		var e endpoint
		if node.Attach == plan.TUN {
			a.tun = tuntap.NewTUN(c, iface.MAC, addressesOf(node.Ports[iface.Index].Addresses), l.fabric.Neighbours(iface))
			e = a.tun
		} else {
			e = tuntap.NewTAP(c)
		}
		a.endpoint = e
		iface.Attach(e)
		for _, q := range e.Queues() {
			if err := engine.driver.AttachDevice(q); err != nil {
				return fmt.Errorf("%s: %w", a.name, err)
			}
		}
		l.ports = append(l.ports, a)
		byInterface[iface], kernel[iface] = e, d
	}
	l.monitor.watch = wall.Watch{Dilation: l.plan.Dilation, Limit: l.plan.Fidelity.Limit, Allowed: l.plan.Fidelity.Share}
	l.shaper = newFollower()
	l.fabric.LinkChanged = func(link, direction int) {
		end := l.plan.Links[link].Ends[direction]
		iface := l.fabric.Interface(end.Node, end.Port)
		if iface == nil {
			return
		}
		settings := iface.Port.Link().Settings()
		settings.Rate, settings.MTU = iface.LineRate(), l.plan.Nodes[iface.Node].DeviceMTU(iface.Index, settings.MTU)
		if n := l.guestNICAt(iface); n != nil {
			l.followGuest(n, settings)
			return
		}
		if byInterface[iface] == nil {
			return
		}
		byInterface[iface].SetMTU(int(settings.MTU))
		l.watchQueues(iface)
		l.shaper.requestSettings(kernel[iface], settings)
	}
	return nil
}

func addressesOf(prefixes []netip.Prefix) []netip.Addr {
	out := make([]netip.Addr, len(prefixes))
	for i, p := range prefixes {
		out[i] = p.Addr()
	}
	return out
}

// Dir is the lab's state directory.
func (l *Lab) Dir() string { return l.hosts.Dir() }

// Fabric returns the fabric between the hosts. Before and after Run it may be used
// freely. During Run it belongs to the engines' threads and may be used only within
// Do, or by processes that were started there (fabric.Go).
func (l *Lab) Fabric() *fabric.Fabric { return l.fabric }

// Do runs f while the engines are stopped, at the current emulated time, and waits
// for it. f must be short and must not block, because the engines stand still
// meanwhile. Do must not be called from code that an engine runs. After the lab has
// stopped, Do returns wall.ErrStopped without running f.
func (l *Lab) Do(f func()) error { return l.doStopped(f) }

// Run drives the lab until ctx ends, Stop is called or the emulated time limit
// has passed; then it removes everything. ready is called when packets flow and
// the control socket answers. warn is called with errors that do not end the lab.
func (l *Lab) Run(ctx context.Context, limit units.Time, ready func(), warn func(error)) (*report.Report, error) {
	ctx, l.stop = context.WithCancel(ctx)
	defer l.stop()
	defer l.closeMetrics()
	defer l.closeVerbs()
	l.fabric.Failed = warn
	if err := l.awaitGuests(ctx); err != nil {
		return nil, fmt.Errorf("%w%s", err, closingReason(l.removeHosts()))
	}
	if err := l.holder.startHolder(l.plan.Engine.Realtime != plan.RealtimeOff, warn); err != nil {
		return nil, fmt.Errorf("%w%s", err, closingReason(l.removeHosts()))
	}
	if err := l.listenVerbs(); err != nil {
		l.holder.closeHolder()
		return nil, fmt.Errorf("%w%s", err, closingReason(l.hosts.Close()))
	}
	l.shaper.startFollower(warn)
	for _, s := range l.series {
		go s.warnOfEnd(warn)
	}
	server, err := l.listenControl()
	if err != nil {
		l.holder.closeHolder()
		return nil, fmt.Errorf("%w%s", err, closingReason(l.removeHosts()))
	}
	var begun atomic.Bool
	var failed error // of the hosts' programs
	up := make(chan struct{})
	err = l.runEngines(ctx, limit, func() {
		begun.Store(true)
		go server.serveRequests(warn)
		go l.serveMetrics(warn)
		l.serveVerbs(warn)
		l.watchGuests(warn)
		go l.watchHosts(warn)
		go l.watchDeadlocks(ctx, warn)
		if len(l.plan.Traffic) > 0 {
			go l.collectFlows(ctx, warn)
		}
		go func() {
			defer close(up)
			if failed = l.startPrograms(ctx, warn); failed != nil {
				l.stop()
				return
			}
			ready()
		}()
		l.monitor.watchLoad(ctx, l, warn)
	})
	l.stop() // in case the limit has passed
	if begun.Load() {
		<-up
		err = errors.Join(err, failed)
	}
	l.shaper.closeFollower()
	l.holder.closeHolder()
	if ferr := l.endFlows(); ferr != nil {
		warn(ferr)
	}
	if err == nil {
		l.final = l.makeReport()
		l.countHosts(l.final)
		l.countSockets(l.final)
	}
	close(l.stopped)
	server.closeServer()
	if cerr := l.removeHosts(); cerr != nil && err == nil {
		err = fmt.Errorf("removing the lab: %w", cerr)
	}
	return l.final, err
}

// watchHosts warns if a host ends before the lab does.
func (l *Lab) watchHosts(warn func(error)) {
	err := l.hosts.WatchHosts(l.stopped, func(host string) {
		warn(fmt.Errorf("host %s has ended, and its programs with it: its first process was killed; the lab goes on without them", host))
	})
	if err != nil {
		warn(err)
	}
}

// Stop ends Run but does not wait for it.
func (l *Lab) Stop() { l.stop() }

// Report returns the report of the run so far, or of the whole run when it is over.
func (l *Lab) Report() *report.Report {
	var r *report.Report
	if err := l.doStopped(func() { r = l.makeReport() }); err != nil {
		<-l.stopped
		return l.final
	}
	l.countHosts(r)
	l.countSockets(r)
	return r
}

// makeReport makes a report. It must be called on the engine's thread, or after the run.
func (l *Lab) makeReport() *report.Report {
	timing := l.timingReport()
	l.fabric.UpdateDeadlocks() // watchDeadlocks may not have seen yet that one has ended
	r := report.Of(report.Wall, l.plan, l.fabric, l.events.addTo(recording.Timeline(l.fabric)))
	r.Timing = &timing
	if l.flows != nil {
		l.flows.put(r)
	}
	for _, s := range l.series {
		if s.done {
			s.put(r, &s.of, s.Things)
		}
	}
	for _, a := range l.ports {
		h := report.Host{Name: a.name, Namespace: netnslab.NamespaceName(l.plan.Name, a.device.Host), Kicks: a.endpoint.IgnoredFrames()}
		if c := a.endpoint.OffloadCounters(); a.device.Offload {
			h.Offload = &report.Offload{
				Supers: c.Supers, Pieces: c.Pieces, Written: c.Written, Writes: c.Writes,
				Window: l.plan.Nodes[a.iface.Node].Join, HeldP50: c.HeldP50, HeldP99: c.HeldP99, HeldMax: c.HeldMax,
			}
		}
		if err := a.device.Unsteered; err != nil {
			h.Together = err.Error()
		}
		if a.tun != nil {
			h.Unroutable, h.Answered = a.tun.UnroutablePackets(), a.tun.AnsweredRequests()
		}
		r.Hosts = append(r.Hosts, h)
	}
	r.Hosts = append(r.Hosts, l.guestReports()...)
	return r
}

// countHosts adds the counters of the hosts' kernels. It makes system calls
// that the engine's thread does not wait for.
func (l *Lab) countHosts(r *report.Report) {
	for i, a := range l.ports {
		h := &r.Hosts[i]
		c, err := a.device.Counters()
		if err != nil {
			h.Error = err.Error()
			continue
		}
		h.TxPackets, h.TxDropped, h.NoCarrier = c.TxPackets, c.TxDropped, c.NoCarrier
		h.RxPackets, h.RxDropped = c.RxPackets, c.RxDropped
		h.QueueDropped, h.QueuePackets = c.QueueDrops, c.QueuePackets
		if dev := l.holder.devices[a.iface]; dev != nil {
			h.Classes = dev.reportClasses(&l.plan.Nodes[a.iface.Node].Ports[a.iface.Index], c, l.clock)
		}
	}
}

// processCPU returns the CPU time that this process has used on all cores.
func processCPU() time.Duration { return cpuTime(unix.RUSAGE_SELF) }

// threadCPU returns the CPU time that the calling thread has used.
func threadCPU() time.Duration { return cpuTime(unix.RUSAGE_THREAD) }

func cpuTime(who int) time.Duration {
	var u unix.Rusage
	if unix.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
