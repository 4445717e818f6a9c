package windlass

import (
	"time"

	"windlass/internal/host"
	"windlass/internal/plug"
	"windlass/internal/value"
)

// Consumer decides about triggers.
type Consumer struct {
	// Types are the kinds of triggers that it takes; none means every kind.
	Types []string
	// Routes are the routes that it takes; none means triggers without a route.
	Routes []string
	// Accept decides about one trigger. After an error the host keeps the trigger, and offers it
	// again.
	Accept func(ctx *Context, trigger Trigger) (Decision, error)
}

// Trigger is a trigger that is due.
type Trigger struct {
	// Kind is `start`, `next`, `retry`, `loop`, `timer`, `cron`, `manual`, `event`, `resume` or
	// `child`.
	Kind string
	// Node is the node that it executes; empty if it starts the workflow.
	Node string
	// Payload has the data of the trigger; nil if it has none.
	Payload map[string]any
}

// Decision is a decision about a trigger. Execute, Handled, Later and Reject make one.
type Decision struct {
	verdict host.Verdict
	vars    any
	after   time.Duration
	reason  *Error
	isMade  bool
}

// Execute assigns the members of an object to `vars`, and then executes the node or starts the
// workflow. The object may be nil.
func Execute(vars any) Decision { return Decision{verdict: host.Execute, vars: vars, isMade: true} }

// Handled says that the trigger is finished.
func Handled() Decision { return Decision{verdict: host.Handled, isMade: true} }

// Later offers the trigger again after a delay.
func Later(after time.Duration) Decision {
	return Decision{verdict: host.Later, after: after, isMade: true}
}

// Reject makes the trigger a dead letter. The arguments are those of fmt.Errorf.
func Reject(format string, arguments ...any) Decision {
	return Decision{verdict: host.Reject, reason: Permanent(format, arguments...), isMade: true}
}

// Made returns the consumer for the exports of a component.
func (c Consumer) Made() *plug.Consumer {
	return &plug.Consumer{Types: c.Types, Routes: c.Routes, Accept: c.accept}
}

func (c Consumer) accept(kind, node string, payload *host.Payload) (made *host.Decision, failed *host.Failed) {
	defer func() {
		if reason := recover(); reason != nil {
			made, failed = nil, panicked(reason)
		}
	}()
	trigger := Trigger{Kind: kind, Node: node}
	if payload != nil {
		if err := value.Decode(*payload, &trigger.Payload); err != nil {
			return nil, failure(Invalid("the payload of the trigger is no object: %w", err))
		}
	}
	decision, err := c.Accept(&Context{}, trigger)
	if err != nil {
		return nil, failure(err)
	}
	made, err = decision.made()
	if err != nil {
		return nil, failure(Permanent("the decision of the consumer is not possible: %w", err))
	}
	return made, nil
}

func (d Decision) made() (*host.Decision, error) {
	if !d.isMade {
		return nil, Permanent("it is empty: return windlass.Execute, Handled, Later or Reject")
	}
	made := &host.Decision{Verdict: d.verdict}
	var err error
	switch d.verdict {
	case host.Execute:
		made.Vars, err = value.EncodeOptional(d.vars)
	case host.Later:
		made.AfterMs, err = milliseconds(d.after)
	case host.Reject:
		made.Reason = failure(d.reason).Failure
	}
	return made, err
}
