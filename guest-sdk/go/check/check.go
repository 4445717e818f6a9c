// Package check makes a component export the checks of configurations. A plugin whose node has a
// Check imports it.
package check

import (
	"windlass"
	"windlass/internal/plug"
)

func init() { plug.HasChecks = true }

// Func is a function that checks a configuration, for the member Check of a node.
type Func func(configuration windlass.Configuration) []windlass.Finding

// Check implements windlass.Checker.
func (f Func) Check(configuration windlass.Configuration) []windlass.Finding { return f(configuration) }
