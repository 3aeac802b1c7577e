package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// inside holds the findings from network namespaces.
type inside struct {
	Features []feature `json:"features"`
	Devices  *Devices  `json:"devices,omitempty"`
	LeftOut  []LeftOut `json:"left_out,omitempty"`
}

// examineInside examines namespaces in this process if it may create them,
// otherwise in a child in a user namespace.
func examineInside(ctx context.Context, o Options) (*inside, error) {
	in, err := lookInside(ctx, o)
	if !errors.Is(err, unix.EPERM) || len(o.Self) == 0 {
		return in, err
	}
	return inUserNamespace(ctx, o)
}

func lookInside(ctx context.Context, o Options) (*inside, error) {
	in := &inside{}
	var err error
	if in.Features, err = tryFeatures(); err != nil {
		return nil, err
	}
	if tap := in.Features[0]; tap.Error != "" {
		in.LeftOut = []LeftOut{{"packets through two TAPs", "a " + tap.Name + " cannot be made: " + tap.Error + " (see above)"}}
		return in, nil
	}
	in.Devices, in.LeftOut = measureDevices(ctx, effortOf(o))
	return in, nil
}

// RunInside is the part of Run that needs namespaces. If its own process may not
// create them, Run starts a child for it, which writes the result to w.
func RunInside(ctx context.Context, o Options, w io.Writer) error {
	in, err := lookInside(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(in)
}

// inUserNamespace runs o.Self as root of a user namespace.
func inUserNamespace(ctx context.Context, o Options) (*inside, error) {
	c := exec.CommandContext(ctx, o.Self[0], o.Self[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   unix.SIGKILL,
	}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	// The signal is sent when the thread that started the child ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	out, err := c.Output()
	if err != nil {
		text := strings.TrimPrefix(strings.TrimSpace(stderr.String()), "weft: ")
		if text == "" {
			text = reasonOf(err)
		}
		return nil, fmt.Errorf("a user namespace did not help: %s (sudo weft doctor)", text)
	}
	in := &inside{}
	return in, json.Unmarshal(out, in)
}
