package agent

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"syscall"
)

// Command is a program to run in a guest.
type Command struct {
	Argv []string
	Env  []string  // in addition to the guest's, as KEY=value
	Dir  string    // working directory; empty means the agent's
	TTY  *Terminal // output for Stdout and Stderr is then combined

	Stdin          io.Reader // nil means no input
	Stdout, Stderr io.Writer // nil discards it

	// Resize and Signals are forwarded. May be nil.
	Resize  <-chan Terminal
	Signals <-chan syscall.Signal
}

// Run runs a program over a stream that a Link relays, and waits for its end. It
// closes the stream. One read from Stdin may continue afterwards.
func Run(stream io.ReadWriteCloser, c Command) (Result, error) {
	defer stream.Close()
	var writes sync.Mutex
	send := func(f frame) error {
		writes.Lock()
		defer writes.Unlock()
		return writeFrame(stream, f)
	}
	b, err := json.Marshal(request{c.Argv, c.Env, c.Dir, c.TTY})
	if err == nil {
		err = send(frame{kind: open, payload: b})
	}
	if err != nil {
		return Result{}, err
	}
	input := newCredit()
	defer input.closeCredit()
	if c.Stdin == nil {
		c.Stdin = strings.NewReader("")
	}
	go pumpStream(c.Stdin, 0, stdin, input, send)
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			var f frame
			select {
			case <-over:
				return
			case t := <-c.Resize:
				f = frame{kind: resize, payload: binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, t.Rows), t.Columns)}
			case s := <-c.Signals:
				f = frame{kind: signal, payload: []byte{byte(s)}}
			}
			_ = send(f)
		}
	}()
	output := [stderr + 1]*queue{stdout: newQueue(window), stderr: newQueue(window)}
	var drains sync.WaitGroup
	for n, w := range map[byte]io.Writer{stdout: c.Stdout, stderr: c.Stderr} {
		if w == nil {
			w = io.Discard
		}
		drains.Go(func() { output[n].drainTo(w, 0, n, send) })
	}
	end := func() {
		output[stdout].putBytes(nil)
		output[stderr].putBytes(nil)
		drains.Wait()
	}
	for {
		f, err := readFrame(stream)
		if err != nil {
			end()
			return Result{}, ErrLost
		}
		switch f.kind {
		case data:
			if n, b, ok := f.splitStream(); ok && n != stdin && !output[n].putBytes(b) {
				end()
				return Result{}, errFrame
			}
		case more:
			if n, b, ok := f.splitStream(); ok && n == stdin {
				input.grantBytes(b)
			}
		case finish:
			end()
			return decodeResult(f.payload)
		}
	}
}
