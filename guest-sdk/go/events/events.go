// Package events sends stimuli and schedules triggers. They take effect with the commit of the call;
// a call that fails sends none. The capability is windlass.Events.
package events

import (
	"time"

	"windlass"
	"windlass/internal/host"
	"windlass/internal/refused"
	"windlass/internal/value"
)

// Stimulus is an event that starts or resumes runs. Only Name is needed.
type Stimulus struct {
	// Name is compared exactly.
	Name string
	// Match is the value that bookmarks compare.
	Match any
	// Correlation limits it to runs of this correlation, and Run to one run.
	Correlation, Run string
	// Input is the data of the stimulus.
	Input any
}

// Send sends a stimulus.
func Send(stimulus Stimulus) error {
	made := host.Stimulus{Name: stimulus.Name, Correlation: stimulus.Correlation, Run: stimulus.Run}
	var err error
	if made.Match, err = value.EncodeOptional(stimulus.Match); err == nil {
		made.Input, err = value.EncodeOptional(stimulus.Input)
	}
	if err != nil {
		return windlass.Invalid("the stimulus %s has no JSON: %w", stimulus.Name, err)
	}
	return refused.By("events", "events.Send "+stimulus.Name, host.Send(made))
}

// Schedule schedules an execution of a node of the own run. The members of vars, an object or nil,
// are assigned before.
func Schedule(node string, at time.Time, vars any) error {
	instant, err := host.Instant(at)
	if err != nil {
		return windlass.Invalid("events.Schedule %s: %w", node, err)
	}
	payload, err := value.EncodeOptional(vars)
	if err != nil {
		return windlass.Invalid("events.Schedule %s: vars have no JSON: %w", node, err)
	}
	return refused.By("events", "events.Schedule "+node, host.Schedule(node, instant, payload))
}
