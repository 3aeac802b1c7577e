package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/observe/capture"
)

func newCapture() *cobra.Command {
	var out, in bool
	var q lab.CaptureRequest
	var file, filter string
	c := &cobra.Command{
		Use:   "capture PORT... -w FILE",
		Short: "Capture the packets of ports of a running lab as pcapng",
		Long: `Capture the packets that ports receive and send, in emulated time, with a comment on every
packet that was marked or dropped there. Ctrl-C ends the capture.

  weft capture s1:3 -w - | wireshark -k -i -
  weft capture s1:1 s1:2 -w trace.pcapng -f 'tcp port 5201' -s 96

A port may also be written lab/port.`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completePorts,
	}
	name := labFlag(c)
	c.Flags().StringVarP(&file, "write", "w", "", "file to write, - for standard output")
	c.Flags().StringVarP(&filter, "filter", "f", "", "capture only packets that match this tcpdump expression")
	numberFlag(c, &q.SnapLen, "snaplen", "s", "bytes to keep of each packet; 0 keeps all")
	numberFlag(c, &q.Count, "count", "c", "stop after this many packets; 0 means no limit")
	c.Flags().BoolVar(&out, "out", false, "only packets that leave the ports")
	c.Flags().BoolVar(&in, "in", false, "only packets that enter the ports")
	_ = c.MarkFlagRequired("write")
	c.RunE = func(c *cobra.Command, args []string) error {
		var err error
		if q.Direction, err = directionOf(out, in); err != nil {
			return err
		}
		for i := range args {
			labOf, port := splitLab(*name, args[i])
			if *name != "" && labOf != *name {
				return badInput(fmt.Errorf("a capture is of one lab, and %s is not in %s", args[i], *name))
			}
			*name, args[i] = labOf, port
		}
		q.Ports, q.Filter = args, filter
		if err := checkCaptureFile(file); err != nil {
			return err
		}
		client, err := connectLab(*name)
		if err != nil {
			return err
		}
		w := &captureFile{name: file}
		s, err := client.Capture(c.Context(), q, w)
		if cerr := w.Close(); err == nil {
			err = cerr
		}
		if errors.Is(err, unix.EPIPE) {
			return nil // the reader has closed its end
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, summarizeCapture(s))
		return nil
	}
	return c
}

// summarizeCapture summarizes a capture and points out packets that are missing.
func summarizeCapture(s capture.Summary) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d packets captured", s.Written)
	if s.Filtered > 0 {
		fmt.Fprintf(&b, ", %d not matched by the filter", s.Filtered)
	}
	if s.Overrun > 0 {
		fmt.Fprintf(&b, "\nweft: OVERRUN: %d packets are missing because they could not be written fast enough", s.Overrun)
	}
	return b.String()
}

// checkCaptureFile refuses to write pcapng to a terminal.
func checkCaptureFile(name string) error {
	if name == "-" && isTerminal(os.Stdout) {
		return badInput(errors.New("cannot write pcapng to a terminal: redirect standard output, or name a file with -w"))
	}
	return nil
}

// captureFile is the file that a capture goes to; "-" is standard output. It is created
// when the first bytes come, so that a capture that the lab refuses leaves an older file as
// it is.
type captureFile struct {
	name string
	file *os.File // nil until something is written
}

// Write implements io.Writer.
func (f *captureFile) Write(b []byte) (int, error) {
	if err := f.createFile(); err != nil {
		return 0, err
	}
	return f.file.Write(b)
}

// createFile creates the file unless that has been done.
func (f *captureFile) createFile() (err error) {
	switch {
	case f.file != nil:
	case f.name == "-":
		f.file = os.Stdout
	default:
		var file *os.File
		if file, err = os.Create(f.name); err == nil {
			f.file = file
		}
	}
	return err
}

// Close implements io.Closer.
func (f *captureFile) Close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
