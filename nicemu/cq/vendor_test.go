package cq

import "testing"

// Every error has a vendor's code, and the codes of ConnectX NICs that users report are theirs.
func TestVendorErr_NamesEveryError(t *testing.T) {
	q, err := New(64, 64, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for s := Success; s <= TMRndvIncomplete; s++ {
		q.Push(1, Completion{Status: s, Opcode: Send}, false)
	}
	q.Push(1, Completion{Status: LocProtErr, Opcode: Recv}, false)
	q.Push(1, Completion{Status: RetryExcErr, VendorErr: 7}, false)
	entries := make([]Completion, 64)
	n, err := q.Poll(entries)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint32]Status{}
	for _, c := range entries[:n-2] {
		if other, ok := seen[c.VendorErr]; ok || c.VendorErr == 0 != (c.Status == Success) {
			t.Errorf("%v has the vendor's code %#x, which %v has", c.Status, c.VendorErr, other)
		}
		seen[c.VendorErr] = c.Status
	}
	if got := entries[n-2].VendorErr; got != 0x52 {
		t.Errorf("a receive with LOC_PROT_ERR has %#x", got)
	}
	if got := entries[n-1].VendorErr; got != 7 {
		t.Errorf("a layer's code is %#x, not 7", got)
	}
	if seen[0x81] != RetryExcErr || seen[0x88] != RemAccessErr || seen[0x51] != LocProtErr {
		t.Errorf("codes of statuses: %v", seen)
	}
}
