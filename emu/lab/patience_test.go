package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/status"
	"github.com/weftlab/weft/internal/await"
)

// Every request to a lab that accepts connections but never answers fails with a timeout.
func TestClient_GivesUpOnASilentLab(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mute")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := NewClient(dir)
	c.limit = 10 * time.Millisecond
	ctx := context.Background()
	for name, ask := range map[string]func() error{
		"status":  func() error { _, err := c.Status(ctx); return err },
		"sample":  func() error { _, err := c.Sample(ctx); return err },
		"capture": func() error { _, err := c.Capture(ctx, CaptureRequest{}, io.Discard); return err },
		"agent":   func() error { _, err := c.Agent(ctx, "h1"); return err },
	} {
		err := ask()
		var silent *NoAnswerError
		if !errors.As(err, &silent) || silent.PID != os.Getpid() || silent.Stopped || silent.Lab != "mute" {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The caller limits how long the end of a lab may take.
	short, cancel := context.WithTimeout(ctx, 20*c.limit)
	defer cancel()
	if _, err := c.Down(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("down: %v", err)
	}
}

func TestIsStopped_FollowsSignals(t *testing.T) {
	t.Parallel()
	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	for _, step := range []struct {
		signal unix.Signal
		want   bool
	}{{unix.SIGSTOP, true}, {unix.SIGCONT, false}, {unix.SIGSTOP, true}} {
		if err := c.Process.Signal(step.signal); err != nil {
			t.Fatal(err)
		}
		await.True(t, step.signal.String(), func() bool { return IsStopped(c.Process.Pid) == step.want })
	}
	if IsStopped(0) || IsStopped(os.Getpid()) {
		t.Error("nobody, or this process, is said to be stopped")
	}
}

// The error for a missing lab is one sentence.
func TestClient_SaysThatThereIsNoLab(t *testing.T) {
	dir := t.TempDir()
	_, missing := NewClient(dir).Status(context.Background())
	listener, err := net.Listen("unix", filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	_, refused := NewClient(dir).Status(context.Background())
	for _, err := range []error{missing, refused} {
		if !errors.Is(err, status.ErrEnded) || strings.Contains(err.Error(), "(") {
			t.Errorf("%v", err)
		}
	}
}
