package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/weftlab/weft/emu/metrics"
)

// listen opens the socket of --metrics, or takes over the one that the process
// which started this one has opened. That one opens it even where it does not
// run the lab itself: whatever is wrong with the address is said before
// anything is made, and a lab without root has no network of its own.
func (f *upFlags) listen() error {
	var on net.Listener
	switch {
	case f.metricsFD >= 0:
		file := os.NewFile(uintptr(f.metricsFD), "metrics")
		defer file.Close()
		var err error
		if on, err = net.FileListener(file); err != nil {
			return fmt.Errorf("--metrics-fd %d: %w", f.metricsFD, err)
		}
	case f.metrics != "":
		address, err := metricsAddress(f.metrics)
		if err != nil {
			return badInput(err)
		}
		if on, err = net.Listen("tcp", address); err != nil {
			return fmt.Errorf("--metrics %s: %w; give another address, or port 0 for any that is free", f.metrics, err)
		}
	default:
		return nil
	}
	tcp, ok := on.(*net.TCPListener)
	if !ok {
		return errors.New("--metrics-fd is no TCP socket")
	}
	f.listener = tcp
	return nil
}

// metricsAddress checks host:port. Who names no host gets the loopback's
// address, so that nobody else sees the lab unless told to.
func metricsAddress(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("--metrics %q is not an address: write host:port, such as 127.0.0.1:9464", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("--metrics %q: %q is not a port: a number from 1 to 65535, or 0 for any that is free", s, port)
	} else if host == "" {
		host = "127.0.0.1"
		port = strconv.FormatUint(n, 10)
	}
	return net.JoinHostPort(host, port), nil
}

// metricsAt says where the metrics are, "" when nowhere.
func (f *upFlags) metricsAt() string {
	if f.listener == nil {
		return ""
	}
	return fmt.Sprintf("metrics: http://%s%s\n", f.listener.Addr(), metrics.Path)
}
