package cli

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/lab"
	"github.com/weftlab/weft/emu/report"
	netnslab "github.com/weftlab/weft/netns-lab"
)

func newPs() *cobra.Command {
	var asJSON, ports bool
	var table string
	c := &cobra.Command{
		Use:               "ps [LAB]",
		Short:             "List labs; or a lab's hosts, ports or forwarding tables",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeLabs,
	}
	given := labFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		name, err := labOf(args, *given)
		switch {
		case err != nil:
			return err
		case table != "":
			return psTable(c, name, table, asJSON)
		case ports:
			return psPorts(c, name, asJSON)
		case name != "":
			return psLab(c, name, asJSON)
		}
		return psAll(asJSON)
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVarP(&ports, "ports", "p", false, "every port with its queue, link and counters")
	c.Flags().StringVarP(&table, "table", "t", "", "the forwarding table of this switch")
	return c
}

// labRow is a lab in the list of all.
type labRow struct {
	netnslab.Info
	Running bool   `json:"running"`
	Dir     string `json:"dir"` // its state directory
}

// psAll lists labs, running and crashed.
func psAll(asJSON bool) error {
	labs, err := netnslab.ListLabs()
	if err != nil {
		return err
	}
	if asJSON {
		rows := make([]labRow, len(labs))
		for i, l := range labs {
			rows[i] = labRow{l, l.Running, l.Dir}
		}
		return printJSON(rows)
	}
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LAB\tSTATE\tPID\tUP\tDILATION\tHOSTS\tFILE")
	for _, l := range labs {
		state := "running"
		switch {
		case !l.Running:
			state = "crashed"
		case lab.IsStopped(l.PID):
			state = "stopped"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%d\t%s\n", l.Name, state, l.PID, time.Since(l.Started).Round(time.Second), max(l.Dilation, 1), len(l.Hosts), l.File)
	}
	return t.Flush()
}

// psLab shows a lab's hosts and routers.
func psLab(c *cobra.Command, name string, asJSON bool) error {
	client, err := connectLab(name)
	if err != nil {
		return err
	}
	s, err := client.Status(c.Context())
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(s)
	}
	if s.Dilation > 1 {
		printf("dilation %d, %.6gs emulated\n", s.Dilation, s.Emulated.Seconds())
	}
	report.WriteNodeClocks(stdout, s.Clocks, true)
	if s.Trouble != "" {
		fmt.Fprintln(os.Stderr, "weft:", s.Trouble)
	}
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "INTERFACE\tPEER\tMAC\tADDRESSES\tNAMESPACE")
	for _, h := range s.Hosts {
		for _, i := range h.Interfaces {
			fmt.Fprintf(t, "%s:%s\t%s\t%s\t%s\t%s\n", h.Name, i.Name, i.Peer, i.MAC, joinList(i.Addresses), h.Namespace)
		}
	}
	for _, r := range s.Routers {
		fmt.Fprintf(t, "%s\t\t\t%s\t\n", r.Name, joinList(r.Addresses))
		for _, p := range r.Ports {
			fmt.Fprintf(t, "%s:%s\t%s\t%s\t%s\t\n", r.Name, p.Name, p.Peer, p.MAC, joinList(p.Addresses))
		}
	}
	return t.Flush()
}

func joinList(list []string) string {
	out := ""
	for i, s := range list {
		if i > 0 {
			out += " "
		}
		out += s
	}
	return out
}

// psPorts shows every port.
func psPorts(c *cobra.Command, name string, asJSON bool) error {
	client, err := connectLab(name)
	if err != nil {
		return err
	}
	ports, err := client.Ports(c.Context())
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(ports)
	}
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "PORT\tPEER\tSTATE\tRATE\tDELAY\tQUEUE\tMAX\tSENT\tRECEIVED\tMARKED\tDROPPED")
	for _, p := range ports {
		state, rate, delay := "-", "-", "-"
		if p.Link != nil {
			state, rate, delay = p.Link.State.String(), p.Link.Rate.String(), p.Link.Delay.String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\n", p.Name, p.Peer, state, rate, delay,
			report.Size(float64(p.QueueBytes)), report.Size(float64(p.QueueMax)), p.TxPackets, p.RxPackets, p.Marked, p.Dropped)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if s, err := client.Status(c.Context()); err == nil {
		report.WritePauses(stdout, ports, s.Emulated)
	}
	report.WritePoints(stdout, ports)
	report.WriteEdges(stdout, ports)
	return nil
}

// psTable shows a switch's forwarding table.
func psTable(c *cobra.Command, name, sw string, asJSON bool) error {
	client, err := connectLab(name)
	if err != nil {
		return err
	}
	table, err := client.Table(c.Context(), sw)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(table)
	}
	printTable(table)
	return nil
}

// formatNextHops formats the next hops of a route, with weights other than 1, such as
// "spine1*2 spine2 (static)".
func formatNextHops(names []string, weights []int, static bool) string {
	ports := slices.Clone(names)
	for i, w := range weights {
		if w != 1 {
			ports[i] += fmt.Sprintf("*%d", w)
		}
	}
	text := joinList(ports)
	if static {
		text += " (static)"
	}
	return text
}

func printTable(table lab.Table) {
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if table.Router {
		fmt.Fprintln(t, "TO\tPORTS\tVIA")
		for _, p := range table.Prefixes {
			via := joinList(p.Via)
			if p.Local {
				via = "itself"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", p.To, formatNextHops(p.Ports, p.Weights, p.Static), via)
		}
		t.Flush()
		return
	}
	fmt.Fprintln(t, "TO\tMAC\tADDRESSES\tPORTS")
	for _, r := range table.Routes {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Host, r.MAC, joinList(r.Addresses), formatNextHops(r.Ports, r.Weights, r.Static))
	}
	fmt.Fprintf(t, "all others\tbroadcast\tmulticast\t%s\n", joinList(table.Tree))
	t.Flush()
	printLearned(table)
}

// printLearned shows the Ethernet addresses that a switch has learned.
func printLearned(table lab.Table) {
	if len(table.Learned) > 0 {
		t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "\nLEARNED\tVLAN\tBEHIND\tAGE\tPORTS")
		for _, l := range table.Learned {
			vlan, moved := "-", ""
			if l.VLAN > 0 {
				vlan = fmt.Sprint(l.VLAN)
			}
			if l.Moved {
				moved = " (moved)"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s%s\n", l.MAC, vlan, l.Host, report.Span(l.Age), joinList(l.Ports), moved)
		}
		t.Flush()
	}
	if c := table.Counts; c != nil && !c.Idle() {
		printf("\n%d learned, %d moved, %d aged, %d flushed, %d not learned because the table was full; %d unknown unicast flooded\n",
			c.Learned, c.Moved, c.Aged, c.Flushed, c.Full, c.Unknown)
	}
}
