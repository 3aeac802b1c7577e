package resolve

import "testing"

func TestIsInetAddress_ReadsWhatInetAtonReads(t *testing.T) {
	for name, want := range map[string]bool{
		"1": true, "0": true, "10.0.0.7": true, "10.7": true, "1.2.65535": true, "0x10": true, "0X1f": true,
		"017": true, "4294967295": true, "0xffffffff": true, "127.1": true, "1.0x2.3.4": true,
		"4294967296": false, "1.2.65536": false, "256.0.0.1": false, "10.0.0.256": false, "08": false, "0x": false,
		"1.2.3.4.5": false, "1.": false, "h1": false, "1h": false, "1-2": false, "1_0": false, "10.0.0.h": false, "0xh": false,
	} {
		if got := isInetAddress(name); got != want {
			t.Errorf("isInetAddress(%q) = %v, want %v", name, got, want)
		}
	}
}
