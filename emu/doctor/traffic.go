package doctor

import (
	"context"
	"net"
	"sync"

	"golang.org/x/net/ipv4"
)

// traffic sends from one host to another until stop is called. stop waits for
// its end.
type traffic func(ctx context.Context, from, to *host) (stop func(), err error)

// sendUDP sends datagrams of size bytes as fast as it can to a socket whose buffer
// is full: the receiver's kernel has work, but no program.
func sendUDP(size int) traffic {
	return func(_ context.Context, from, to *host) (func(), error) {
		var receiver, sender *net.UDPConn
		err := to.ns.runInside(func() (err error) {
			receiver, err = net.ListenUDP("udp4", &net.UDPAddr{IP: to.address})
			return err
		})
		if err != nil {
			return nil, err
		}
		err = from.ns.runInside(func() (err error) {
			sender, err = net.DialUDP("udp4", nil, receiver.LocalAddr().(*net.UDPAddr))
			return err
		})
		if err != nil {
			receiver.Close()
			return nil, err
		}
		batch := make([]ipv4.Message, 64)
		for i := range batch {
			batch[i].Buffers = [][]byte{make([]byte, size)}
		}
		var ended sync.WaitGroup
		ended.Go(func() {
			for p := ipv4.NewPacketConn(sender); ; {
				if _, err := p.WriteBatch(batch, 0); err != nil { // sendmmsg; closed
					return
				}
			}
		})
		return func() {
			sender.Close()
			ended.Wait()
			receiver.Close()
		}, nil
	}
}

// sendTCP sends a stream as fast as it can.
func sendTCP(ctx context.Context, from, to *host) (stop func(), err error) {
	var listener net.Listener
	err = to.ns.runInside(func() (err error) {
		listener, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: to.address})
		return err
	})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	var sender, receiver net.Conn
	err = from.ns.runInside(func() (err error) {
		var d net.Dialer
		sender, err = d.DialContext(ctx, "tcp4", listener.Addr().String())
		return err
	})
	if err != nil {
		return nil, err
	}
	if receiver, err = listener.Accept(); err != nil {
		sender.Close()
		return nil, err
	}
	// Discard unsent data on close: a socket that still has data to send would
	// keep its namespace for minutes.
	for _, c := range []net.Conn{sender, receiver} {
		_ = c.(*net.TCPConn).SetLinger(0)
	}
	var ended sync.WaitGroup
	pump := func(f func([]byte) (int, error)) {
		ended.Go(func() {
			for b := make([]byte, 256<<10); ; {
				if _, err := f(b); err != nil { // closed
					return
				}
			}
		})
	}
	pump(sender.Write)
	pump(receiver.Read)
	return func() {
		sender.Close()
		receiver.Close()
		ended.Wait()
	}, nil
}
