package windlass

import (
	"windlass/internal/host"
	"windlass/internal/value"
)

// Configuration is a configuration as a workflow file has it. Members with expressions are absent:
// Unknown has their JSON pointers.
type Configuration struct {
	Members map[string]any
	Unknown []string
}

// Text returns a member that is a text; empty if it is absent or no text.
func (c Configuration) Text(member string) string {
	text, _ := c.Members[member].(string)
	return text
}

// Finding is a mistake in a configuration: the mistake and its correction, in one sentence.
// Pointer is the JSON pointer of the member; empty means all of it. A warning refuses no workflow.
type Finding struct {
	Message, Pointer string
	IsWarning        bool
	Position         *Position
}

// Checker checks configurations that fit the schema.
type Checker interface {
	Check(configuration Configuration) []Finding
}

func (n NodeWith[Config, Input, Output]) check(config host.Payload, unknown []string) []host.Finding {
	configuration := Configuration{Unknown: unknown}
	if err := value.Decode(config, &configuration.Members); err != nil {
		return []host.Finding{{Message: "the configuration is no object: " + err.Error()}}
	}
	var found []host.Finding
	for _, it := range n.Check.Check(configuration) {
		found = append(found, host.Finding{IsWarning: it.IsWarning, Message: it.Message, Pointer: it.Pointer, Position: it.Position.made()})
	}
	return found
}
