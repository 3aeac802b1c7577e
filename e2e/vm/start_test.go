package vm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weftlab/weft/e2e/testlab"
	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/netns-lab/vm"
)

// needVM skips a test that needs virtual machines if they cannot run here.
func needVM(t *testing.T, programs ...string) string {
	t.Helper()
	weft := testlab.Need(t, programs...)
	if _, err := vm.FindQEMU(); err != nil {
		t.Skipf("SKIPPED, NO VIRTUAL MACHINES WERE TESTED: %v", err)
	}
	if _, err := vm.FindImage(); err != nil {
		t.Skipf("SKIPPED, NO VIRTUAL MACHINES WERE TESTED: %v", err)
	}
	return weft
}

// ownKernel returns the settings of a node that boots the kernel of weft's image as a user's own,
// with the arguments that spare an emulated processor work.
func ownKernel(t *testing.T) string {
	t.Helper()
	image, err := vm.FindImage()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("kernel: %q, initrd: %q, append: quiet no_timer_check tsc=reliable nokaslr mitigations=off audit=0 apparmor=0 cryptomgr.notests",
		filepath.Join(image, "vmlinux"), filepath.Join(image, "initramfs"))
}

// up starts a lab detached. Its guests may take as long to boot as the lab file says: an emulated
// processor on a busy machine needs minutes.
func up(l *testlab.Lab) {
	l.T.Helper()
	if out, err := l.Command("up", "-d", l.File).CombinedOutput(); err != nil {
		l.T.Fatalf("weft up: %v\n%s", err, out)
	}
}

// machine returns the lab's status of a virtual machine.
func machine(l *testlab.Lab, name string) lab.Machine {
	l.T.Helper()
	for _, h := range l.Status().Hosts {
		if h.Name == name && h.VM != nil {
			return *h.VM
		}
	}
	l.T.Fatalf("%s is no virtual machine of the lab", name)
	return lab.Machine{}
}

// waitGone waits until a QEMU has ended.
func waitGone(l *testlab.Lab, pid int) {
	l.T.Helper()
	l.WaitFor(fmt.Sprintf("the end of the QEMU %d", pid), func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || !bytes.Contains(b, []byte("qemu"))
	})
}

// TestMachine_ThatDoesNotStart_IsReported: the error says why, and nothing is left behind.
func TestMachine_ThatDoesNotStart_IsReported(t *testing.T) {
	t.Parallel()
	weft := needVM(t)
	type test struct {
		name string
		node string
		want []string
		env  []string
	}
	cases := []test{
		{
			name: "MissingFiles",
			node: "{kind: vm, kernel: vmlinuz, disk: /tmp}",
			want: []string{"lab.yaml:2: v1: the kernel ", "no such file", "the disk /tmp is a directory"},
		},
		{name: "MissingImage", node: "{kind: vm, image: nowhere}", want: []string{"has no vmlinux", "scripts/vm-image.sh"}},
		{name: "ImageThatIsNotBuilt", node: "{kind: vm}", want: []string{"build it with scripts/vm-image.sh"}, env: []string{"WEFT_VM=" + t.TempDir()}},
		{name: "KernelThatPanics", node: "{kind: vm, append: rdinit=/nothing root=/dev/none, ready-limit: 10min}", want: []string{"v1 did not start", "panic"}},
		{
			name: "ConsoleWithoutTheText",
			node: "{kind: vm, ready: nothing says this, ready-limit: 1s}",
			want: []string{`after 1s its console has not shown "nothing says this"`},
		},
		{
			name: "CommandThatFails",
			node: `{kind: vm, ready-limit: 10min, exec: [{run: "echo is broken; exit 3", ready: {exit: true}}]}`,
			want: []string{"v1: the command \"echo is broken; exit 3\" ended before it was ready: exit code 3; its output:\n  is broken"},
		},
	}
	testlab.Beside(t, 3, cases, func(c test) string { return c.name }, func(t *testing.T, c test) {
		l := testlab.New(t, weft, t.TempDir(), "topology: {nodes: {v1: "+c.node+", s1: {kind: switch}}, links: [{endpoints: [\"v1:eth0\", \"s1:1\"]}]}\n")
		start := l.Command("up", "-d", l.File)
		start.Env = append(os.Environ(), c.env...)
		out, err := start.CombinedOutput()
		if code := start.ProcessState.ExitCode(); code != testlab.ExitFailed {
			t.Errorf("%v, %s", err, out)
		}
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("it does not say %q: %s", want, out)
			}
		}
		testlab.CheckNothingLeft(t, l.Name)
	})
}

// output runs a command on this machine, and returns what it prints.
func output(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v\n%s", argv, err, out)
	}
	return string(out)
}
