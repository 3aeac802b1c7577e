package nicemu

import (
	"fmt"
	"net/netip"
	"syscall"

	"github.com/weftlab/weft/nicemu/cmnic"
	msg "github.com/weftlab/weft/protocols/cm"
	"github.com/weftlab/weft/wire"
)

// Datagrams asks which queue pair takes datagrams for a service (IBTA §12.11; rdma_cm's
// RDMA_PS_UDP).
type Datagrams struct {
	From, To    netip.AddrPort
	PrivateData []byte // padded to the message's full length
}

// ResolveAnswer is the queue pair that takes them.
type ResolveAnswer struct {
	QPN, QKey   uint32
	PrivateData []byte // up to 136 bytes
}

// Resolved is the answer to a question.
type Resolved struct {
	Err         error // ECONNREFUSED: there is no such service; ETIMEDOUT: no answer came
	QPN, QKey   uint32
	PrivateData []byte // padded to the message's full length
}

// ListenDatagrams calls answer for every question about an address and port; addresses and errors
// are those of Listen. answer may use the NIC. false refuses.
func (d *Device) ListenDatagrams(at netip.AddrPort, answer func(Datagrams) (ResolveAnswer, bool)) (*Listener, error) {
	at, err := d.checkListenAddr(at)
	if err != nil {
		return nil, err
	}
	id, err := d.conns.cm.Listen(cmnic.Listen{Service: msg.IPService(wire.ProtoUDP, at.Port()), Address: at.Addr(), Datagram: true})
	if err != nil {
		return nil, cmError(err)
	}
	d.conns.answering[id] = answer
	return &Listener{device: d, id: id}, nil
}

// Resolve asks which queue pair takes datagrams at an address and port. Private data has up to 180
// bytes. notify, which may use the NIC, gets the answer. EINVAL: there is more private data;
// EADDRNOTAVAIL: the device has no address of the IP version.
func (d *Device) Resolve(to netip.AddrPort, privateData []byte, notify func(Resolved)) error {
	local, err := d.sourceFor(to.Addr())
	if err != nil {
		return err
	}
	id, err := d.conns.cm.Resolve(d.Now(), cmnic.Resolve{
		Service: msg.IPService(wire.ProtoUDP, to.Port()), Local: netip.AddrPortFrom(local, d.conns.nextPort()), Peer: to.Addr(),
		PKey: 0xffff, TrafficClass: d.settings.DSCP << 2, PrivateData: privateData,
	})
	if err != nil {
		return cmError(err)
	}
	d.conns.asking[id] = notify
	d.conns.flushManager()
	return nil
}

// passQuestion passes a question to the program.
func (c *connections) passQuestion(e *cmnic.Event) {
	a := cmnic.Answer{Status: msg.SIDRUnsupported}
	if f := c.answering[e.Listener]; f != nil {
		a.Status = msg.SIDRRejected
		if x, ok := f(Datagrams{From: e.Source, To: e.Destination, PrivateData: e.PrivateData}); ok {
			a = cmnic.Answer{Status: msg.SIDRValid, QPN: x.QPN, QKey: x.QKey, PrivateData: x.PrivateData}
		}
	}
	if c.cm.AnswerResolution(c.device.Now(), e.ID, a) != nil {
		// The program's answer does not fit into the message.
		_ = c.cm.AnswerResolution(c.device.Now(), e.ID, cmnic.Answer{Status: msg.SIDRRejected})
	}
}

func (c *connections) handleResolved(e *cmnic.Event) {
	f := c.asking[e.ID]
	delete(c.asking, e.ID)
	if f == nil {
		return
	}
	r := Resolved{QPN: e.QPN, QKey: e.QKey, PrivateData: e.PrivateData}
	switch {
	case e.Kind != cmnic.Resolved:
		r.Err = fmt.Errorf("%w: no answer about which queue pair takes the datagrams", syscall.ETIMEDOUT)
	case e.Status != msg.SIDRValid:
		r.Err = fmt.Errorf("%w: no queue pair takes the datagrams: %v", syscall.ECONNREFUSED, e.Status)
	}
	f(r)
}
