package resolve

import (
	"math/rand/v2"
	"strconv"

	"github.com/weftlab/weft/emu/labfile"
	"github.com/weftlab/weft/emu/plan"
	"github.com/weftlab/weft/sim"
	"github.com/weftlab/weft/sim/units"
	"github.com/weftlab/weft/traffic/workload"
	"github.com/weftlab/weft/wire/roce"
)

// transfers resolves the RDMA transfers of the workload.
type transfers struct {
	*traffic
	permutations int         // so far
	queuePairs   int         // of the transfers so far, at either end
	pairsOf      map[int]int // likewise, by node
}

const (
	maxMessage units.Bytes = 1<<31 - 1

	// defaultDepth keeps a link busy between messages. It is also the greatest
	// number of outstanding READs on a ConnectX-5.
	defaultDepth = 16
)

// exchange is an entry of the workload that asks for transfers.
type exchange struct {
	verb  workload.Verb
	file  *labfile.Transfer
	pairs []hostPair // from is the host that posts
	place any        // where the file names the hosts
}

// addTransfers resolves one entry of the workload with RDMA transfers, and returns
// its name.
func (v *transfers) addTransfers(f *labfile.Workload) *string {
	e := v.resolveExchange(f)
	t := v.resolveTransfer(&e, f)
	if v.queuePairs += len(e.pairs) * t.QPs; v.queuePairs > labfile.MaxPairs {
		v.ReportFault(v.FirstSet(e.file.QPs, e.place), "", "the workload has more than %d queue pairs", labfile.MaxPairs)
		return nil
	}
	for _, p := range e.pairs {
		t := t
		t.From, t.FromPort, t.To, t.ToPort = p.from.host, p.from.port, p.to.host, p.to.port
		if v.endsOf(&t, &e) && v.pathsOf(&t, &e) {
			v.plan.Transfers = append(v.plan.Transfers, t)
		}
	}
	return e.file.Name
}

// resolveExchange resolves which hosts exchange data. It returns no pairs after a
// fault.
func (v *transfers) resolveExchange(f *labfile.Workload) exchange {
	switch {
	case f.Write != nil:
		return v.resolvePair(workload.Write, f.Write)
	case f.Read != nil:
		return v.resolvePair(workload.Read, f.Read)
	case f.Send != nil:
		return v.resolvePair(workload.Send, f.Send)
	case f.Incast != nil:
		return v.resolveIncast(f.Incast)
	case f.Permutation != nil:
		return v.resolvePermutation(f.Permutation)
	}
	return v.allToAll(f.AllToAll)
}

func (v *transfers) resolvePair(verb workload.Verb, f *labfile.Pair) exchange {
	e := exchange{verb: verb, file: &f.Transfer, place: &f.To}
	from, ok1 := v.ends(f.From, &f.From, true)
	to, ok2 := v.ends(f.To, &f.To, true)
	if ok1 && ok2 {
		e.pairs = v.pairHosts(from, to, &f.From, &f.To)
	}
	return e
}

func (v *transfers) resolveIncast(f *labfile.Incast) exchange {
	e := exchange{verb: f.Verb, file: &f.Transfer, place: &f.From}
	to, ok1 := v.hostEnd(&f.To)
	ok1 = ok1 && v.hasNIC(to.host, &f.To)
	from, ok2 := v.ends(f.From, &f.From, true)
	if ok1 && ok2 {
		e.pairs = v.pairHosts(from, []hostEnd{to}, &f.From, &f.To)
	}
	if f.Verb == workload.Read {
		for i, p := range e.pairs {
			e.pairs[i] = hostPair{p.to, p.from}
		}
	}
	return e
}

func (v *transfers) resolvePermutation(f *labfile.Mesh) exchange {
	e := exchange{verb: f.Verb, file: &f.Transfer, place: v.FirstSet(&f.Hosts, f)}
	v.permutations++
	name := strconv.Itoa(v.permutations)
	setFrom(&name, f.Name)
	hosts, ok := v.resolveMesh(f)
	if !ok || !v.checkRoom(len(hosts), e.place) {
		return e
	}
	for i, peer := range drawDerangement(sim.NewRand(v.plan.Seed, "permutation "+name), len(hosts)) {
		e.pairs = append(e.pairs, hostPair{hostEnd{host: hosts[i]}, hostEnd{host: hosts[peer]}})
	}
	return e
}

// drawDerangement draws a permutation of n, at least 2, without a fixed point. All
// are equally likely; about one permutation in e has no fixed point.
func drawDerangement(r *rand.Rand, n int) []int {
	for {
		p := r.Perm(n)
		fixed := false
		for i := range p {
			fixed = fixed || p[i] == i
		}
		if !fixed {
			return p
		}
	}
}

func (v *transfers) allToAll(f *labfile.Mesh) exchange {
	e := exchange{verb: f.Verb, file: &f.Transfer, place: v.FirstSet(&f.Hosts, f)}
	if hosts, ok := v.resolveMesh(f); ok {
		ends := make([]hostEnd, len(hosts))
		for i, h := range hosts {
			ends[i].host = h
		}
		e.pairs = v.pairHosts(ends, ends, e.place, e.place)
	}
	return e
}

// resolveMesh finds the hosts that take part, at least 2.
func (v *transfers) resolveMesh(f *labfile.Mesh) (hosts []int, ok bool) {
	if v.Place(&f.Hosts) != nil {
		hosts, ok = v.findHosts(f.Hosts, &f.Hosts, true)
	} else {
		ok = true
		for i := range v.plan.Nodes {
			if v.plan.Nodes[i].NIC != nil {
				hosts = append(hosts, i)
			}
		}
	}
	if ok && len(hosts) < 2 {
		v.ReportFault(v.FirstSet(&f.Hosts, f), "without hosts: all hosts with a NIC take part", "at least 2 hosts are needed, not %d", len(hosts))
		ok = false
	}
	return hosts, ok
}

// resolveTransfer resolves the settings of an entry's transfers, except for the hosts.
func (v *transfers) resolveTransfer(e *exchange, entry any) workload.Transfer {
	f := e.file
	t := workload.Transfer{Verb: e.verb, Size: f.Size, Count: 1, QPs: 1, At: f.At}
	setFrom(&t.For, f.For)
	if f.For != nil {
		t.Count = 0
	}
	setFrom((*labfile.Messages)(&t.Count), f.Count)
	setFrom((*labfile.PairCount)(&t.QPs), f.QPs)
	setFrom(&t.Every, f.Every)
	setFrom((*labfile.Service)(&t.Service), f.Service)
	if f.Name != nil {
		v.checkName(f.Name, "a transfer's name", *f.Name, maxNodeName)
	}
	v.checkTime(&f.At, "at", maxTime)
	v.checkTime(f.For, "for", maxTime)
	v.checkTime(f.Every, "every", maxTime)
	endless := f.For == nil && v.duration == nil
	switch {
	case f.Size > maxMessage:
		v.ReportFault(&f.Size, "", "the largest message is %dB", maxMessage)
	case f.For != nil && *f.For == 0:
		v.ReportFault(f.For, "leave for out to post until count is reached", "for must be above 0")
	case t.Count == 0 && endless:
		v.ReportFault(v.FirstSet(f.Count, entry), "write for: in the transfer, or duration: in the file", "the transfer continues until the run ends, and the run has no end")
	case t.Count == 1 && f.Every != nil:
		v.ReportFault(f.Every, "write count: or for: too", "every has no effect on a single message")
	case t.Count > 1 && endless && t.Every > (maxTime-f.At)/units.Time(t.Count-1):
		v.ReportFault(f.Every, "lower count or every, or write for:", "the last message would be posted after %v", maxTime)
	}
	const hint = "rc supports all verbs, uc write and send, ud send"
	switch {
	case t.Verb == workload.Read && t.Service != roce.RC:
		v.ReportFault(f.Service, hint, "the service %v has no READ", t.Service)
	case t.Verb == workload.Write && t.Service == roce.UD:
		v.ReportFault(f.Service, hint, "the service %v has no WRITE", t.Service)
	}
	return t
}

// endsOf resolves the settings of a transfer that depend on the NICs at its
// ends, and checks it against them.
func (v *transfers) endsOf(t *workload.Transfer, e *exchange) bool {
	f, from, to := e.file, &v.plan.Nodes[t.From], &v.plan.Nodes[t.To]
	mtu := min(from.NIC.MTU, to.NIC.MTU)
	setFrom((*labfile.PathMTU)(&mtu), f.MTU)
	t.MTU = units.Bytes(mtu.Bytes())
	t.DSCP = from.NIC.DSCP
	setFrom((*labfile.DSCP)(&t.DSCP), f.DSCP)
	t.Depth = min(defaultDepth, from.NIC.Limits.QPWR)
	setFrom((*labfile.MessageDepth)(&t.Depth), f.Depth)

	before := v.Faults()
	for _, n := range []*plan.Node{from, to} {
		if mtu > n.NIC.MTU {
			v.FailOnce(f.MTU, "", "the NIC of %s has an mtu of %d", n.Name, n.NIC.MTU.Bytes())
		}
	}
	if t.Service == roce.UD && t.Size > t.MTU {
		v.FailOnce(&f.Size, "a datagram is one packet", "a datagram of %dB is longer than the path MTU %d between %s and %s", t.Size, t.MTU, from.Name, to.Name)
	}
	if setFrom(&t.FlowPerMessage, f.Flows); t.FlowPerMessage {
		switch {
		case t.Verb == workload.Read:
			v.FailOnce(f.Flows, "use write, where the posting host sends the data", "flow-per-message is not for read: the other host sends the data")
		case f.Depth != nil && t.Depth > 1:
			v.FailOnce(f.Depth, "leave depth out, or write depth: 1", "with flow-per-message a queue pair has one outstanding message, not %d", t.Depth)
		}
		t.Depth = 1
	}
	if maxDepth := from.NIC.Limits.QPWR; t.Depth > maxDepth {
		v.FailOnce(f.Depth, "", "a queue of %s holds %d work requests: its max_qp_wr", from.Name, maxDepth)
	}
	if t.Verb == workload.Read && (from.NIC.Limits.QPInitRdAtom == 0 || to.NIC.Limits.QPRdAtom == 0) {
		v.FailOnce(e.place, "max_qp_init_rd_atom of the first and max_qp_rd_atom of the second must be above 0", "%s cannot read from %s", from.Name, to.Name)
	}
	for _, n := range []int{t.From, t.To} {
		nic := v.plan.Nodes[n].NIC
		if v.pairsOf[n] += t.QPs; v.pairsOf[n] > nic.Limits.QP {
			v.FailOnce(v.FirstSet(f.QPs, e.place), "", "%s has more than %d queue pairs: its max_qp", v.plan.Nodes[n].Name, nic.Limits.QP)
		}
	}
	return v.Faults() == before
}

// pathsOf resolves the version of IP of a transfer and checks that its packets arrive. With
// RC answers have to come back.
func (v *transfers) pathsOf(t *workload.Transfer, e *exchange) (ok bool) {
	if t.IPv6, ok = v.chooseIPVersion(transferPair(t), e.file.IP, e.place); ok {
		_, ok = v.findPath(transferPair(t), t.IPv6, t.Service == roce.RC, e.place)
	}
	return ok
}
