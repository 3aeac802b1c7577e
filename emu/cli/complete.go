package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/plan"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// completeLabs offers the labs there are.
func completeLabs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	labs, err := netnslab.List()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, l := range labs {
		names = append(names, l.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeHosts offers the hosts of the lab meant.
func completeHosts(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	name, _ := c.Flags().GetString("lab")
	info, err := findLab(name)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, h := range info.Hosts {
		names = append(names, h.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completePorts offers the ports of the lab meant.
func completePorts(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	name, _ := c.Flags().GetString("lab")
	client, err := connect(name)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ports, err := client.Ports(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, p := range ports {
		names = append(names, p.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeEdges offers the hosts and interfaces that have an edge service.
func completeEdges(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	name, _ := c.Flags().GetString("lab")
	client, err := connect(name)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	ports, _ := client.Ports(ctx)
	var names []string
	for _, p := range ports {
		if p.Edge == nil {
			continue
		}
		if !slices.Contains(names, p.Node) {
			names = append(names, p.Node)
		}
		names = append(names, p.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeNICs offers the hosts and interfaces that have a NIC, then the numbers
// of queue pairs to weft qp.
func completeNICs(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	name, _ := c.Flags().GetString("lab")
	client, err := connect(name)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var names []string
	switch {
	case len(args) == 0:
		nics, err := client.NICs(ctx, "")
		if err != nil {
			break
		}
		for _, n := range nics {
			if !slices.Contains(names, n.Node) {
				names = append(names, n.Node)
			}
			names = append(names, n.Name)
		}
	case len(args) == 1 && c.Name() == "qp":
		pairs, err := client.QPs(ctx, args[0])
		if err != nil {
			break
		}
		for _, q := range pairs {
			names = append(names, fmt.Sprint(q.QPN))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeSettings offers a port, then the settings of a link.
func completeSettings(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return completePorts(c, args, typed)
	}
	var keys []string
	for _, k := range plan.LinkKeys() {
		keys = append(keys, k+"=")
	}
	return keys, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
