// Package node makes a component export nodes. A plugin with nodes imports it.
package node

import (
	"maps"
	"slices"

	"windlass"
	"windlass/internal/plug"
)

// Serve makes nodes a part of the component. It is called in init functions: a component has
// no main.
func Serve(about windlass.Plugin, nodes windlass.Nodes) {
	var made []*plug.Node
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		made = append(made, nodes[name].Made(name))
	}
	plug.Serve(about, made, nil)
}
