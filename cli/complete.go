package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/weftlab/weft/emu/change"
	"github.com/weftlab/weft/emu/lab"
	netnslab "github.com/weftlab/weft/netns-lab"
)

// completeLabs offers the existing labs.
func completeLabs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	labs, err := netnslab.ListLabs()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, l := range labs {
		names = append(names, l.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeHosts offers the hosts of the selected lab.
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

// askLab returns the names that ask gets from the selected lab within a second; none if
// there is no such lab.
func askLab(c *cobra.Command, ask func(context.Context, *lab.Client) []string) ([]string, cobra.ShellCompDirective) {
	name, _ := c.Flags().GetString("lab")
	client, err := connectLab(name)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return ask(ctx, client), cobra.ShellCompDirectiveNoFileComp
}

// completePorts offers the ports of the selected lab.
func completePorts(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return askLab(c, func(ctx context.Context, client *lab.Client) (names []string) {
		ports, _ := client.Ports(ctx)
		for _, p := range ports {
			names = append(names, p.Name)
		}
		return names
	})
}

// addInterface adds an interface, preceded by its host if that is not in names yet.
func addInterface(names []string, host, name string) []string {
	if !slices.Contains(names, host) {
		names = append(names, host)
	}
	return append(names, name)
}

// completeEdges offers the hosts and interfaces that have an edge service.
func completeEdges(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return askLab(c, func(ctx context.Context, client *lab.Client) (names []string) {
		if len(args) > 0 {
			return nil
		}
		ports, _ := client.Ports(ctx)
		for _, p := range ports {
			if p.Edge != nil {
				names = addInterface(names, p.Node, p.Name)
			}
		}
		return names
	})
}

// completeNICs offers the hosts and interfaces that have a NIC, then for weft qp
// the numbers of queue pairs.
func completeNICs(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return askLab(c, func(ctx context.Context, client *lab.Client) (names []string) {
		switch {
		case len(args) == 0:
			nics, _ := client.NICs(ctx, "")
			for _, n := range nics {
				names = addInterface(names, n.Node, n.Name)
			}
		case len(args) == 1 && c.Name() == "qp":
			pairs, _ := client.QPs(ctx, args[0])
			for _, q := range pairs {
				names = append(names, fmt.Sprint(q.QPN))
			}
		}
		return names
	})
}

// completeSettings offers a port, then the settings of a link.
func completeSettings(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return completePorts(c, args, typed)
	}
	var keys []string
	for _, k := range change.LinkKeys() {
		keys = append(keys, k+"=")
	}
	for _, k := range change.QueueKeys() {
		keys = append(keys, k+"=")
	}
	return keys, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}
