package netnslab

import "testing"

func TestListens_FindsListeningPorts(t *testing.T) {
	const listing = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100000A:1F91 0200000A:C350 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 30 10 -1
  sl  local_address                         remote_address                        st tx_queue
   0: 00000000000000000000000000000000:1451 00000000000000000000000000000000:0000 0A 00000000:00000000
   1: short
`
	for port, want := range map[uint16]bool{8080: true, 5201: true, 8081: false, 80: false, 50000: false} {
		if IsListening(listing, port) != want {
			t.Errorf("port %d: %v", port, !want)
		}
	}
}
