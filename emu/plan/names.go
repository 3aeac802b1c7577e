package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weftlab/weft/emu/suggest"
)

// NameError is the error for a name that does not exist, with a hint at names that do.
type NameError struct{ Msg, Hint string }

func (e *NameError) Error() string { return e.Msg + ": " + e.Hint }

// SplitEndpoint splits "s1:3" into the names of the node and of the port.
func SplitEndpoint(name string) (node, port string, err *NameError) {
	node, port, ok := strings.Cut(name, ":")
	if !ok || node == "" || port == "" {
		return "", "", &NameError{fmt.Sprintf("%q is not a port", name), "write node:port, such as h1:eth0 or s1:1"}
	}
	return node, port, nil
}

// endpoint is Endpoint with the error as a NameError.
func (p *Plan) endpoint(name string) (End, *NameError) {
	nodeName, portName, err := SplitEndpoint(name)
	if err != nil {
		return End{}, err
	}
	node, ok := p.Node(nodeName)
	if !ok {
		return End{}, p.NoNode(nodeName)
	}
	ports := p.Nodes[node].Ports
	port := slices.IndexFunc(ports, func(p Port) bool { return p.Name == portName })
	if port < 0 {
		return End{}, p.NoPort(node, portName)
	}
	return End{node, port}, nil
}

// NoNode returns the error for a node that does not exist.
func (p *Plan) NoNode(name string) *NameError {
	return &NameError{fmt.Sprintf("there is no node %q", name), suggest.Hint(name, "the nodes are", p.NodeNames())}
}

// NoPort returns the error for a port that a node does not have.
func (p *Plan) NoPort(node int, name string) *NameError {
	n := &p.Nodes[node]
	names := make([]string, len(n.Ports))
	for i, port := range n.Ports {
		names[i] = port.Name
	}
	return &NameError{fmt.Sprintf("%s has no port %q", n.Name, name), suggest.Hint(name, "its ports are", names)}
}

// NodeNames returns the names of all nodes, in order.
func (p *Plan) NodeNames() []string {
	names := make([]string, len(p.Nodes))
	for i, n := range p.Nodes {
		names[i] = n.Name
	}
	return names
}
