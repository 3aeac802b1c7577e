// Command guest is the agent that runs inside a guest: it runs programs for weft
// exec and weft shell. It is part of the image that scripts/vm-image.sh builds; in
// other images it must be started at boot, with access to /dev/vport*.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weftlab/weft/netns-lab/vm/agent"
)

func main() {
	if os.Getenv("PATH") == "" {
		os.Setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	}
	if os.Getenv("HOME") == "" {
		os.Setenv("HOME", "/root")
	}
	// No limit on locked memory, as RDMA programs need.
	_ = syscall.Setrlimit(8, &syscall.Rlimit{Cur: ^uint64(0), Max: ^uint64(0)}) // RLIMIT_MEMLOCK
	err := serveAgent()
	fmt.Fprintln(os.Stderr, "weft-agent:", err)
	time.Sleep(time.Second) // init restarts it
	os.Exit(1)
}

func serveAgent() error {
	path, err := findPort()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return agent.Serve(f)
}

// findPort finds the device of the agent's virtio-serial port.
func findPort() (string, error) {
	names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
	for _, n := range names {
		if b, err := os.ReadFile(n); err == nil && strings.TrimSpace(string(b)) == agent.PortName {
			return filepath.Join("/dev", filepath.Base(filepath.Dir(n))), nil
		}
	}
	return "", fmt.Errorf("there is no virtio-serial port %s: is the module virtio_console loaded?", agent.PortName)
}
