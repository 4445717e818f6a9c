// Package windlass is the SDK for nodes and trigger consumers for Windlass in Go.
//
// A node is a variable of the type Node; node.Serve makes it a part of the component:
//
//	var greet = windlass.Node[Person, Greeting]{
//		Title: "Greet",
//		Run: func(ctx *windlass.Context, person Person) (Greeting, error) {
//			return Greeting{"Hello, " + person.Name + "!"}, nil
//		},
//	}
//
//	func init() {
//		about := windlass.Plugin{Name: "greeter", Version: "0.1.0"}
//		node.Serve(about, windlass.Nodes{"greet": greet})
//	}
//
// The functions of the host are in packages of their own, so that a component imports only
// those that its plugin uses: memory, blobs, events and fetch (HTTP). The time, random numbers and slog are those
// of the standard library, and ask the host.
package windlass

import (
	_ "windlass/internal/logs" // slog writes into the log of the run.
	"windlass/internal/plug"
	"windlass/internal/value"
)

// Plugin names a plugin: Name is the first half of each node type, with small letters, digits and
// hyphens; Version is a semantic version; Title and Description are for people.
type Plugin = plug.About

// Nodes are the nodes of a plugin by their names: the second half of each node type.
type Nodes map[string]Runner

// Runner is a Node or a NodeWith.
type Runner interface {
	// Made returns the node for the exports of a component.
	Made(name string) *plug.Node
}

// Raw is a value of another media type than JSON, or one that may be large: as the Input of a node
// it takes every value, and with ByReference also references, which package blobs reads.
type Raw = value.Raw

// Secret is a reference to a secret, as a member of a configuration: the host inserts its value into
// a header of a request (fetch.WithSecret), and the plugin never sees it.
type Secret struct {
	// Secret is the name in a workflow, and in a call a handle that is valid in this call alone.
	Secret string `json:"secret"`
}

// Capability is a right that an operator has to grant.
type Capability = string

// The capabilities.
const (
	HTTP    Capability = "http"
	Secrets Capability = "secrets"
	Events  Capability = "events"
)

// Resources are hints about the needs of a node; the limits of the operator take precedence.
type Resources struct {
	MemoryBytes uint64 `json:"memory-bytes,omitempty"`
	DeadlineMs  uint64 `json:"deadline-ms,omitempty"`
	// Instance is `warm`, `run` or `call`: how long memory may survive.
	Instance string `json:"instance,omitempty"`
}

// Position is a place in a source text, from 1. Without a Source it is in the configuration.
type Position struct {
	Source       string
	Line, Column uint32
}

// JSON reads the JSON of a Raw as a value of a type. The failure is Invalid.
func JSON[T any](raw Raw) (made T, err error) {
	payload, err := value.Encode(raw)
	if err == nil {
		err = value.Decode(payload, &made)
	}
	if err != nil {
		return made, Invalid("the value does not fit its type: %w", err)
	}
	return made, nil
}
