// Package registry holds the systems that a lab file can name: rate controls,
// congestion points, loss recoveries, edge services, path choices. Each of these extension points
// has a Registry, and a system adds itself in an init function of its package. A
// program that uses the system imports the package; nothing else refers to it.
package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Registry holds the systems of one extension point, by name. It is filled by init functions
// and only read afterwards.
type Registry[T any] struct {
	what    string // "rate control"
	systems map[string]T
}

// New makes the registry of an extension point. what names its systems in errors, such as "rate control".
func New[T any](what string) *Registry[T] {
	return &Registry[T]{what: what, systems: map[string]T{}}
}

// Register adds a system. The name is the one used in lab files; "none" is reserved.
// It panics if the name is empty or already registered by another package.
func (r *Registry[T]) Register(name string, system T) {
	if _, taken := r.systems[name]; taken || name == "" || name == "none" {
		panic(fmt.Sprintf("registry: the %s %q is registered twice, or its name is reserved", r.what, name))
	}
	r.systems[name] = system
}

// Find returns the system with a name. The error lists the existing names.
func (r *Registry[T]) Find(name string) (T, error) {
	system, ok := r.systems[name]
	if !ok {
		return system, fmt.Errorf("%q is not %s (there are %s)", name, r.OneOf(), strings.Join(r.Names(), ", "))
	}
	return system, nil
}

// Kind returns the system with a name, the zero T if there is none: the kind of a Choice, for
// which the lab file's reader has found one.
func (r *Registry[T]) Kind(name string) T { return r.systems[name] }

// Names returns the names of the systems, sorted.
func (r *Registry[T]) Names() []string { return slices.Sorted(maps.Keys(r.systems)) }

// OneOf returns the name of the systems with an article: "a rate control", "an edge service".
func (r *Registry[T]) OneOf() string {
	if strings.ContainsRune("aeiou", rune(r.what[0])) {
		return "an " + r.what
	}
	return "a " + r.what
}
