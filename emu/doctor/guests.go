package doctor

// checkGuests checks whether nodes with kind: vm can run.
func (m *machine) checkGuests() Check {
	c := Check{Group: groupTools, Name: "virtual machines", Verdict: OK}
	if _, err := m.qemu(); err != nil {
		c.Verdict, c.Found = Warn, "no QEMU"
		c.Means = "nodes with kind: vm do not run"
		c.Fix = "sudo apt-get install --no-install-recommends qemu-system-x86 (Debian, Ubuntu), then scripts/vm-image.sh"
		return c
	}
	image, err := m.image()
	if err != nil {
		c.Verdict, c.Found = Warn, "QEMU without weft's own image"
		c.Means = "nodes with kind: vm run only with a kernel or a disk of their own"
		c.Fix = "scripts/vm-image.sh"
		return c
	}
	c.Found = "QEMU with the image " + image
	return c
}
