package livefs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// mounted mounts files on a directory; without the right to mount, the test is skipped.
func mounted(t *testing.T, files Files) (dir string, f *FS) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: this test mounts a file system and needs root")
	}
	mount, device, err := MountFS("weft-test")
	if errors.Is(err, ErrUnavailable) {
		t.Skipf("SKIPPED: this test needs FUSE: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(mount)
	f = ServeFiles(device, files)
	dir = t.TempDir()
	if err := unix.MoveMount(mount, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.Close()
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	return dir, f
}

// readFile is os.ReadFile without the runtime's poller, which would wait for this very
// process to answer the kernel's request to watch the file.
func readFile(path string) (string, error) {
	fd, err := unix.Open(path, unix.O_RDONLY, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	b := make([]byte, 100)
	n, err := unix.Read(fd, b)
	return string(b[:max(n, 0)]), err
}

// Content is from the time of reading, even if the file stays open, and content
// read in pieces is from one point in time.
func TestRead_GivesTheContentOfThatMoment(t *testing.T) {
	var n atomic.Int64
	n.Store(7)
	broken := errors.New("broken")
	dir, _ := mounted(t, Files{
		"a/b/count": func() (string, error) { return fmt.Sprintln(n.Load()), nil },
		"a/empty":   func() (string, error) { return "", nil },
		"a/broken":  func() (string, error) { return "", broken },
	})
	count := filepath.Join(dir, "a/b/count")
	read := func(want string) {
		t.Helper()
		if got, err := readFile(count); err != nil || got != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	read("7\n")
	n.Store(12345)
	read("12345\n")

	open, err := unix.Open(count, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(open)
	piece := make([]byte, 3)
	for _, want := range []string{"123", "45\n", ""} {
		if k, err := unix.Read(open, piece); err != nil || string(piece[:k]) != want {
			t.Errorf("%q, %v; want %q", piece[:max(k, 0)], err, want)
		}
		n.Store(99) // not for the second piece
	}
	if k, err := unix.Pread(open, piece, 0); err != nil || string(piece[:k]) != "99\n" {
		t.Errorf("from the beginning %q, %v", piece[:max(k, 0)], err)
	}

	if got, err := readFile(filepath.Join(dir, "a/empty")); got != "" || err != nil {
		t.Errorf("an empty file has %q, %v", got, err)
	}
	if _, err := readFile(filepath.Join(dir, "a/broken")); err != unix.EIO {
		t.Errorf("a broken file: %v", err)
	}
	if _, err := readFile(filepath.Join(dir, "a/none")); err != unix.ENOENT {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := unix.Open(count, unix.O_WRONLY, 0); err != unix.EROFS {
		t.Errorf("to write: %v", err)
	}
	out, err := exec.Command("find", dir, "-type", "f", "-printf", "%P %m %s\n").CombinedOutput()
	if err != nil || len(out) != len("a/b/count 444 4096\na/empty 444 4096\na/broken 444 4096\n") {
		t.Errorf("find: %v\n%s", err, out)
	}
	// Other programs may poll the files that they read, as Go's do.
	out, err = exec.Command("python3", "-c", "import select,sys; f=open(sys.argv[1]); select.select([f],[],[],5); print(int(f.read()))", count).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return
	}
	if string(out) != "99\n" || err != nil {
		t.Errorf("a program that watches the file: %v\n%s", err, out)
	}
}

// Serving ends when the file system is no longer mounted anywhere.
func TestServe_EndsWhenUnmounted(t *testing.T) {
	dir, f := mounted(t, Files{"a": func() (string, error) { return "a", nil }})
	if _, err := readFile(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	<-f.Done()
}

// Readers of a file system that is no longer served do not block.
func TestClose_DoesNotBlockReaders(t *testing.T) {
	dir, f := mounted(t, Files{"a": func() (string, error) { return "a", nil }})
	f.Close()
	if _, err := readFile(filepath.Join(dir, "a")); err != unix.ENOTCONN {
		t.Errorf("after the end: %v", err)
	}
}
