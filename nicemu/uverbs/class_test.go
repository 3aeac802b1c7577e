package uverbs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weftlab/weft/nicemu/memory"
)

// The files of the NIC, and the place of each counter among them.
func TestClass_HasTheFilesOfTheNIC(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	if err := w.server.WriteSys(dir, "h1"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"class/infiniband/roce0/node_desc": "h1 roce0\n", "class/infiniband/roce0/hca_type": "weft\n", "class/infiniband/roce0/board_id": "weft\n",
		"class/infiniband/roce0/ports/1/gid_attrs/ndevs/0": "eth0\n", "class/infiniband_verbs/uverbs0/ibdev": "roce0\n",
		"class/infiniband_verbs/abi_version": "6\n", "class/infiniband_verbs/uverbs0/device/infiniband/roce0/node_type": "1: CA\n",
	} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != want {
			t.Errorf("%s has %q, %v", name, b, err)
		}
	}
	for at, want := range map[string]string{
		"class/infiniband/roce0": "../../devices/weft/nic0/infiniband/roce0", "class/infiniband_verbs/uverbs0": "../../devices/weft/nic0/infiniband_verbs/uverbs0",
		"class/infiniband/roce0/device": "../../../nic0", "class/infiniband_verbs/uverbs0/device": "../../../nic0",
		"class/infiniband/roce0/subsystem": "../../../../../class/infiniband", "class/infiniband/roce0/device/net/eth0": "../../../virtual/net/eth0",
	} {
		if to, err := os.Readlink(filepath.Join(dir, at)); err != nil || to != want {
			t.Errorf("%s is a link to %q, not %q: %v", at, to, want, err)
		}
	}
	files := w.server.Counters()
	for name := range files {
		if info, err := os.Stat(filepath.Dir(filepath.Join(dir, "class/infiniband", name))); err != nil || !info.IsDir() {
			t.Errorf("there is no directory for %s", name)
		}
	}
	if files["roce0/ports/1/counters/qkey_viol_cntr"] != nil || files["roce0/ports/1/hw_counters/qkey_viol_cntr"] != nil {
		t.Error("an attribute of ibv_query_port(3) is a file")
	}
}

// A file has the NIC's current number, and returns an error once the engine has
// ended.
func TestCounters_AreCurrent(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	k := c.greet()
	files := w.server.Counters()
	read := func(name string) string {
		t.Helper()
		text, err := files["roce0/ports/1/hw_counters/"+name]()
		if err != nil {
			t.Error(err)
		}
		return text
	}
	if n := read("rx_write_requests"); n != "0\n" {
		t.Errorf("before the first WRITE %q", n)
	}
	for i := range uint64(12) {
		c.write(k.rc, k.mr.Key, base, base+100+i, 10)
		w.run()
	}
	if n, own := read("rx_write_requests"), read("received_payload"); n != "12\n" || own != "120\n" {
		t.Errorf("after 12 WRITEs of 10 bytes: %q, %q", n, own)
	}
	w.server.do = func(func()) error { return errors.ErrUnsupported }
	if _, err := files["roce0/ports/1/counters/port_xmit_data"](); err == nil {
		t.Error("without an engine there is a number")
	}
}

// Memory to be prefetched must belong to a region, and its place may differ from its
// address.
func TestLocate_FindsMemoryOfARegion(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	k := c.greet()
	const iova = 0x7000000
	mr := must[mrAnswer](c, opRegMR, regMR{PD: k.pd, Addr: base + 4096, Length: 8192, IOVA: iova})
	other := must[handleMsg](c, opAllocPD, handleMsg{Handle: k.context}).Handle
	if a := must[locateAnswer](c, opLocate, locateMsg{PD: k.pd, LKey: mr.Key, VA: iova + 100, Length: 8092}); a.Addr != base+4196 {
		t.Errorf("the bytes are at %#x", a.Addr)
	}
	for what, q := range map[string]struct {
		locateMsg
		want syscall.Errno
	}{
		"beyond the end":      {locateMsg{PD: k.pd, LKey: mr.Key, VA: iova + 100, Length: 8093}, syscall.EFAULT},
		"no region":           {locateMsg{PD: k.pd, LKey: 7, VA: iova, Length: 1}, syscall.ENOENT},
		"another's":           {locateMsg{PD: other, LKey: mr.Key, VA: iova, Length: 1}, syscall.EPERM},
		"not to be written":   {locateMsg{PD: k.pd, LKey: mr.Key, VA: iova, Length: 1, Write: 1}, syscall.EPERM},
		"no such domain":      {locateMsg{PD: 4711, LKey: mr.Key, VA: iova, Length: 1}, syscall.ENOENT},
		"of no domain at all": {locateMsg{PD: mr.Handle, LKey: mr.Key, VA: iova, Length: 1}, syscall.ENOENT},
	} {
		if a := c.ask(opLocate, q.locateMsg); a.err == nil || errnoOf(a.err) != q.want {
			t.Errorf("%s: %v, not %v", what, a.err, q.want)
		}
	}
}

// Memory registered on demand need not be there.
func TestOnDemand_MemoryNeedNotExist(t *testing.T) {
	w := newWorld(t)
	c := w.connect()
	k := c.greet()
	nowhere := regMR{PD: k.pd, Addr: 1 << 40, Length: 4096, IOVA: 1 << 40}
	if a := c.ask(opRegMR, nowhere); errnoOf(a.err) != syscall.EFAULT {
		t.Errorf("without the flag: %v", a.err)
	}
	nowhere.Access = memory.OnDemand
	must[mrAnswer](c, opRegMR, nowhere)
	all := must[mrAnswer](c, opRegMR, regMR{PD: k.pd, Length: 1<<64 - 1, Access: memory.OnDemand | 0xf})
	c.write(k.rc, all.Key, base, base+100, 10)
	w.run()
	if s := c.completed(k.cq.Handle); s != 0 {
		t.Errorf("a WRITE by a region of everything: status %d", s)
	}
	if a := c.ask(opRegMR, regMR{PD: k.pd, Addr: 4096, Length: 1<<64 - 1, Access: memory.OnDemand}); errnoOf(a.err) != syscall.EINVAL {
		t.Errorf("more than there is: %v", a.err)
	}
}
