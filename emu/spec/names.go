package spec

import (
	"fmt"
	"slices"
	"strings"
)

// nameError is a name that leads to nothing, and what would.
type nameError struct{ msg, hint string }

func (e *nameError) Error() string { return e.msg + ": " + e.hint }

// splitEndpoint cuts "s1:3" into the names of the node and of the port.
func splitEndpoint(name string) (node, port string, err *nameError) {
	node, port, ok := strings.Cut(name, ":")
	if !ok || node == "" || port == "" {
		return "", "", &nameError{fmt.Sprintf("%q does not name a port", name), "write node:port, such as h1:eth0 or s1:1"}
	}
	return node, port, nil
}

// endpoint finds a port by its name in the file.
func (p *Plan) endpoint(name string) (End, *nameError) {
	nodeName, portName, err := splitEndpoint(name)
	if err != nil {
		return End{}, err
	}
	node, ok := p.Node(nodeName)
	if !ok {
		return End{}, p.noNode(nodeName)
	}
	ports := p.Nodes[node].Ports
	port := slices.IndexFunc(ports, func(p Port) bool { return p.Name == portName })
	if port < 0 {
		return End{}, p.noPort(node, portName)
	}
	return End{node, port}, nil
}

// noNode is the error of a node that is not there.
func (p *Plan) noNode(name string) *nameError {
	return &nameError{fmt.Sprintf("there is no node %q", name), suggest(name, "the nodes are", p.nodeNames())}
}

// noPort is the error of a port that a node does not have.
func (p *Plan) noPort(node int, name string) *nameError {
	n := &p.Nodes[node]
	names := make([]string, len(n.Ports))
	for i, port := range n.Ports {
		names[i] = port.Name
	}
	return &nameError{fmt.Sprintf("%s has no port %q", n.Name, name), suggest(name, "its ports are", names)}
}

func (p *Plan) nodeNames() []string {
	names := make([]string, len(p.Nodes))
	for i, n := range p.Nodes {
		names[i] = n.Name
	}
	return names
}
