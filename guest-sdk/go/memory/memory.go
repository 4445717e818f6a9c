// Package memory reads data of the run beyond the input of the node.
package memory

import (
	"windlass"
	"windlass/internal/host"
	"windlass/internal/refused"
	"windlass/internal/value"
)

// Get returns the value at `input`, `vars.NAME` or `nodes.NAME.output`, or at a member (`.name`) or
// position (`.0`) of it, and whether there is one.
func Get[T any](path string) (found T, exists bool, err error) {
	payload, refusal := host.Memory(path)
	if refusal != nil || payload == nil {
		return found, false, refused.By("memory", "memory "+path, refusal)
	}
	if err := value.Decode(*payload, &found); err != nil {
		return found, true, windlass.Invalid("memory %s does not fit its type: %w", path, err)
	}
	return found, true, nil
}
