package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/traffic/workload"
)

// recordFlags say where the records of flows and transfers go.
type recordFlags struct {
	streams, transfers string // files; "" means none. Streams are flows of packets
}

func (f *recordFlags) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&f.streams, "stream-records", "", "write a record of each flow of packets (cbr, poisson, on-off) to this file: .csv or .json")
	c.Flags().StringVar(&f.transfers, "transfer-records", "", "write a record of each RDMA transfer (write, read, send, incast, ...) to this file: .csv or .json")
	renamedFlag(c, "flows", "stream-records")
	renamedFlag(c, "transfers", "transfer-records")
}

// checkFiles validates the file names.
func (f *recordFlags) checkFiles() error {
	for _, n := range []struct{ flag, file string }{{"stream-records", f.streams}, {"transfer-records", f.transfers}} {
		if e := filepath.Ext(n.file); n.file != "" && e != ".csv" && e != ".json" {
			return badInput(fmt.Errorf("--%s %s: end the name in .csv or .json", n.flag, n.file))
		}
	}
	if f.streams != "" && filepath.Clean(f.streams) == filepath.Clean(f.transfers) {
		return badInput(fmt.Errorf("--stream-records and --transfer-records are both %s: their columns differ, so give each a file", f.streams))
	}
	return nil
}

// refuseMissing refuses records of a kind that the run of the lab file will not produce.
func (f *recordFlags) refuseMissing(lab string, flows, transfers int) error {
	switch {
	case f.streams != "" && flows == 0:
		return badInput(fmt.Errorf("--stream-records %s: the workload of %s has no flows of packets (cbr, poisson, on-off)", f.streams, lab))
	case f.transfers != "" && transfers == 0:
		return badInput(fmt.Errorf("--transfer-records %s: the workload of %s has no RDMA transfers", f.transfers, lab))
	}
	return nil
}

// writeRecords writes the records of a run.
func (f *recordFlags) writeRecords(r *report.Report) error {
	return errors.Join(
		writeRecords(f.streams, r.Flows, workload.WriteCSV, workload.WriteJSON),
		writeRecords(f.transfers, r.Transfers, workload.WriteTransfersCSV, workload.WriteTransfersJSON))
}

// writeRecords writes records in the format given by the extension of the name.
// Without a name it does nothing.
func writeRecords[T any](name string, records []T, asCSV, asJSON func(io.Writer, []T) error) error {
	if name == "" {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	write := asCSV
	if filepath.Ext(name) == ".json" {
		write = asJSON
	}
	return errors.Join(write(f, records), f.Close())
}
