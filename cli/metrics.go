package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/weftlab/weft/emu/metrics"
)

// listenForMetrics opens the socket of --metrics, or takes over the one that the parent
// process has opened. The parent opens it even if it does not run the lab
// itself: an error in the address is then reported before anything is created,
// and a rootless lab, in its own network namespace, could not be reached.
func (f *upFlags) listenForMetrics() error {
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
			return fmt.Errorf("--metrics %s: %w; use another address, or port 0 for any free port", f.metrics, err)
		}
	default:
		return nil
	}
	tcp, ok := on.(*net.TCPListener)
	if !ok {
		return errors.New("--metrics-fd is not a TCP socket")
	}
	f.listener = tcp
	return nil
}

// metricsAddress checks host:port. The default host is the loopback address, so
// that the lab is visible to other machines only on request.
func metricsAddress(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("--metrics %q is not an address: write host:port, such as 127.0.0.1:9464", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("--metrics %q: %q is not a port: a number from 1 to 65535, or 0 for any free port", s, port)
	} else if host == "" {
		host = "127.0.0.1"
		port = strconv.FormatUint(n, 10)
	}
	return net.JoinHostPort(host, port), nil
}

// metricsAt returns a line with the URL of the metrics, "" if there are none.
func (f *upFlags) metricsAt() string {
	if f.listener == nil {
		return ""
	}
	return fmt.Sprintf("metrics: http://%s%s\n", f.listener.Addr(), metrics.Path)
}
