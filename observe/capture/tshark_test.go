package capture

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weftlab/weft/internal/await"
	"github.com/weftlab/weft/sim/units"
)

// tshark finds names, exact times, directions, comments, FCS errors and where packets were
// lost.
func TestCapture_IsReadByTshark(t *testing.T) {
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is missing, nothing was judged: apt-get install tshark")
	}
	c, err := New(Options{
		Interfaces: ports(2), Epoch: epoch, SnapLen: 60, Ring: 1,
		Describe: func(port int32, dir Direction, fate uint8, queue units.Bytes) string {
			return fmt.Sprintf("port %d, direction %d, fate %d, %v queued", port, dir, fate, queue)
		},
	})
	must(t, err)
	tap, data := c.Tap(), make([]byte, 60)
	tap.PutPacket(Packet{At: 0, Port: 0, Dir: In, Data: data})
	tap.PutPacket(Packet{At: 1999, Port: 1, Dir: Out, Data: data, Length: 1500, Fate: 3, Queue: 12 * units.KB})
	for range 4 {
		tap.PutPacket(Packet{Port: 1, Data: data})
	}
	var out bytes.Buffer
	ended := make(chan Summary, 1)
	go func() {
		sum, err := c.Run(context.Background(), &out)
		if err != nil {
			t.Error(err)
		}
		ended <- sum
	}()
	await.True(t, "an empty ring", func() bool { return c.tap.ring.tail.Load() == c.tap.ring.head.Load() })
	tap.PutPacket(Packet{At: 3 * units.Hour, Port: 1, Dir: In, Data: data, FCSError: true})
	c.Close()
	if sum, want := <-ended, (Summary{Seen: 3, Written: 3, Overrun: 4}); sum != want {
		t.Errorf("%+v, want %+v", sum, want)
	}

	cmd := exec.Command("tshark", "-r", "-", "-T", "fields", "-E", "separator=|",
		"-e", "frame.interface_name", "-e", "frame.time_epoch", "-e", "frame.cap_len", "-e", "frame.len",
		"-e", "frame.packet_flags_direction", "-e", "frame.packet_flags_crc_error", "-e", "frame.comment", "-e", "frame.drop_count")
	cmd.Stdin = &out
	got, err := cmd.Output()
	must(t, err)
	want := []string{
		"s1:1|1700000000.123456789|60|60|0x00000001|0||",
		"s1:2|1700000000.123456790|60|1500|0x00000002|0|port 1, direction 2, fate 3, 12KB queued|",
		"s1:2|1700010800.123456789|60|60|0x00000001|1||4",
	}
	if d := cmp.Diff(want, strings.Split(strings.TrimSpace(string(got)), "\n")); d != "" {
		t.Error(d)
	}
}
