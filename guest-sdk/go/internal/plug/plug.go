// Package plug has the parts of a plugin as the exports of its component use them, and makes the
// description of them (wit/DESCRIBE.md).
package plug

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"windlass/internal/host"
	"windlass/internal/schema"
)

// About names a plugin.
type About struct {
	Name        string `json:"package"`
	Version     string `json:"version"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
}

// Node is a node: its entry in the description, and its functions.
type Node struct {
	Name         string        `json:"name"`
	Title        string        `json:"title,omitempty"`
	Description  string        `json:"description,omitempty"`
	Icon         string        `json:"icon,omitempty"`
	Config       schema.Schema `json:"config"`
	Input        schema.Schema `json:"input"`
	Output       schema.Schema `json:"output"`
	Ports        []string      `json:"ports,omitempty"`
	Capabilities []string      `json:"capabilities,omitempty"`
	ByReference  bool          `json:"by-reference,omitempty"`
	Suspends     bool          `json:"suspends,omitempty"`
	Resources    any           `json:"resources,omitempty"`

	// Mistakes are the types that have no schema, with their places.
	Mistakes []string `json:"-"`
	// Execute runs the node. One of the results is nil.
	Execute func(config, input host.Payload) (*host.Outcome, *host.Failed) `json:"-"`
	// Check finds mistakes in a configuration; nil if the node has no check.
	Check func(config host.Payload, unknown []string) []host.Finding `json:"-"`
}

// Consumer is a trigger consumer: its entry in the description, and its function.
type Consumer struct {
	Types  []string `json:"types,omitempty"`
	Routes []string `json:"routes,omitempty"`
	// Accept decides about a trigger. One of the results is nil.
	Accept func(kind, node string, payload *host.Payload) (*host.Decision, *host.Failed) `json:"-"`
}

// document is the description of the component.
type document struct {
	Windlass int `json:"windlass"`
	About
	Nodes    []*Node   `json:"nodes,omitempty"`
	Consumer *Consumer `json:"consumer,omitempty"`
}

var (
	served   = document{Windlass: 1}
	mistakes []string
	// HasChecks says that the component exports checks.
	HasChecks bool
)

// Serve makes nodes or a consumer a part of the component.
func Serve(about About, nodes []*Node, consumer *Consumer) {
	if served.Name != "" && served.About != about {
		mistakes = append(mistakes, fmt.Sprintf("the plugin is served as %q and as %q: give both the same windlass.Plugin", served.Name, about.Name))
	}
	if consumer != nil && served.Consumer != nil {
		mistakes = append(mistakes, "consumer.Serve is called twice, and a plugin has one consumer")
	}
	served.About = about
	served.Nodes = append(served.Nodes, nodes...)
	if consumer != nil {
		served.Consumer = consumer
	}
}

// Find returns the node of a type, which is `package/name`; nil if there is none.
func Find(nodeType string) *Node {
	_, name, _ := strings.Cut(nodeType, "/")
	at := slices.IndexFunc(served.Nodes, func(node *Node) bool { return node.Name == name })
	if at < 0 {
		return nil
	}
	return served.Nodes[at]
}

// Served returns the consumer; nil if there is none.
func Served() *Consumer { return served.Consumer }

// Describe returns the description as JSON. It prints the mistakes of the plugin and ends the
// program, if there are any: the host refuses the component with this text.
func Describe() []byte {
	for _, node := range served.Nodes {
		for _, mistake := range node.Mistakes {
			mistakes = append(mistakes, fmt.Sprintf("node %s: %s", node.Name, mistake))
		}
		if node.Check != nil && !HasChecks {
			mistakes = append(mistakes, fmt.Sprintf("node %s: it has a Check: import windlass/check, and make it by check.Func", node.Name))
		}
	}
	text, err := json.Marshal(served)
	if err != nil {
		mistakes = append(mistakes, err.Error())
	}
	for _, mistake := range mistakes {
		fmt.Fprintln(os.Stderr, mistake)
	}
	if len(mistakes) > 0 {
		os.Exit(1)
	}
	return text
}
