package cli

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/report"
	"github.com/weftlab/weft/emu/status"
)

func newNIC() *cobra.Command {
	var asJSON, counters, all bool
	c := &cobra.Command{
		Use:   "nic [HOST|HOST:PORT]",
		Short: "Show the emulated RDMA NICs of a running lab and their counters",
		Long: `Show the emulated RDMA NICs of a running lab, one line each. With a host or an
interface it shows all details of its NICs and their counters, under the names
that NVIDIA's driver gives them ("rdma statistic show link"). A host may also be
written lab/host.

  weft nic
  weft nic h1:eth0 --all`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNICs,
	}
	lab := labFlag(c)
	c.Flags().BoolVarP(&counters, "counters", "c", false, "show counters even without a name")
	c.Flags().BoolVarP(&all, "all", "a", false, "include counters that are 0")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		name := ""
		if len(args) == 1 {
			*lab, name = splitLab(*lab, args[0])
		}
		client, err := connectLab(*lab)
		if err != nil {
			return err
		}
		nics, err := client.NICs(c.Context(), name)
		if err != nil {
			return err
		}
		switch {
		case asJSON:
			return printJSON(nics)
		case name == "" && !counters && !all:
			report.WriteNICs(stdout, nics)
			return nil
		}
		for i := range nics {
			report.WriteNIC(stdout, &nics[i], all)
		}
		return nil
	}
	return c
}

// maxPairs is how many queue pairs, or flows, a text table shows by default.
const maxPairs = 40

func newQP() *cobra.Command {
	var asJSON, all bool
	c := &cobra.Command{
		Use:   "qp [HOST|HOST:PORT [QPN]]",
		Short: "Show the queue pairs of a running lab's emulated RDMA NICs",
		Long: `Show the queue pairs of the emulated RDMA NICs of a running lab, or of one host or
interface: type and state, the peer and its queue pair, the next PSN to send and
the expected one, outstanding work requests, bytes in flight, and the rate that
rate control allows. With the number of a queue pair it shows all its details. A
host may also be written lab/host.

  weft qp
  weft qp h1
  weft qp h1:eth0 17

In virtual time use: weft sim FILE --qp`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: completeNICs,
	}
	lab := labFlag(c)
	c.Flags().BoolVarP(&all, "all", "a", false, fmt.Sprintf("show all, not only the first %d", maxPairs))
	c.Flags().BoolVar(&asJSON, "json", false, "print all as JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		name, number := "", int64(-1)
		if len(args) > 0 {
			*lab, name = splitLab(*lab, args[0])
		}
		if len(args) == 2 {
			n, err := strconv.ParseUint(args[1], 0, 24)
			if err != nil {
				return badInput(fmt.Errorf("%q is not the number of a queue pair: it has up to 24 bits, such as 17 or 0x11", args[1]))
			}
			number = int64(n)
		}
		client, err := connectLab(*lab)
		if err != nil {
			return err
		}
		pairs, err := client.QPs(c.Context(), name)
		if err != nil {
			return err
		}
		if number >= 0 {
			pairs = slices.DeleteFunc(pairs, func(q status.QP) bool { return int64(q.QPN) != number })
			if len(pairs) == 0 {
				return badInput(fmt.Errorf("%s has no queue pair %d: see weft qp %s", name, number, name))
			}
		}
		switch {
		case asJSON:
			return printJSON(pairs)
		case number < 0:
			report.WriteQPs(stdout, pairs, limitOf(all))
			return nil
		}
		for i := range pairs {
			report.WriteQP(stdout, &pairs[i])
		}
		return nil
	}
	return c
}

// limitOf returns the maximum number of lines in a table; 0 means no limit.
func limitOf(all bool) int {
	if all {
		return 0
	}
	return maxPairs
}
