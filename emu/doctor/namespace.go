package doctor

import (
	"fmt"
	"runtime"

	"github.com/vishvananda/netns"
)

// namespace is a network namespace without a name. It ends with the last
// descriptor of anything in it.
type namespace struct{ handle netns.NsHandle }

func newNamespace() (*namespace, error) {
	n := &namespace{netns.None()}
	return n, onSpentThread(func() (err error) {
		if n.handle, err = netns.New(); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		return nil
	})
}

// runInside runs f on a thread inside n. Sockets made by f stay inside.
func (n *namespace) runInside(f func() error) error {
	return onSpentThread(func() error {
		if err := netns.Set(n.handle); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

func (n *namespace) closeNamespace() { n.handle.Close() }

// onSpentThread runs f on a thread that ends when f does.
func onSpentThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}
