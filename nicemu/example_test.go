package nicemu_test

import (
	"context"

	"github.com/weftlab/weft/emu/fabric"
	"github.com/weftlab/weft/emu/resolve"
	"github.com/weftlab/weft/nicemu"
	"github.com/weftlab/weft/sim/units"
)

// star is a lab of five hosts with NICs at one switch.
const star = `
name: star
topology:
  generate: {star: {hosts: 5, rate: 100Gbps, delay: 1us, mtu: 9000}}
  kinds: {host: {attach: none, nic: roce}}
`

// build makes the fabric of a lab file. (resolve.File reads one from disk.)
func build(lab string) *fabric.Fabric {
	return fabric.New(must(resolve.Parse("lab.yaml", []byte(lab))))
}

// run runs a fabric in virtual time until no event is left.
func run(f *fabric.Fabric) {
	check(f.Run(context.Background(), units.Never))
	f.StopProcesses()
}

// must is for examples, where nothing can fail.
func must[T any](x T, err error) T {
	check(err)
	return x
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// everything is the set of all access rights.
const everything = nicemu.LocalWrite | nicemu.RemoteWrite | nicemu.RemoteRead | nicemu.RemoteAtomic | nicemu.MWBind

// ends are the objects that most examples need: a queue pair that completes into one queue, and
// memory.
type ends struct {
	pd     *nicemu.PD
	cq     *nicemu.CQ
	qp     *nicemu.QP
	buffer []byte
	mr     *nicemu.MR
}

// open makes them.
func open(d *nicemu.Device, t nicemu.QPType) (e ends) {
	e.pd = must(d.AllocPD())
	e.cq = must(d.CreateCQ(64, nil))
	e.qp = must(e.pd.CreateQP(nicemu.QPConfig{
		Type: t, SendCQ: e.cq, RecvCQ: e.cq, SignalAll: true,
		Cap: nicemu.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1},
	}))
	e.buffer = make([]byte, 4096)
	e.mr = must(e.pd.Register(e.buffer, everything))
	return e
}
