package windlass

import (
	"context"
	"slices"
	"time"

	"windlass/internal/host"
	"windlass/internal/value"
)

// Context is the context of a call. Its methods ask the host; absent texts are empty. It is a
// context.Context, whose Done is nil: a call is synchronous, and asks Err or Cancelled.
type Context struct {
	ports []string
}

var _ context.Context = (*Context)(nil)

// RunID is the id of the run, a UUID.
func (*Context) RunID() string { return host.RunID() }

// Workflow is the name of the workflow.
func (*Context) Workflow() string { return host.Workflow() }

// NodeID is the node that executes; empty for a trigger that starts a workflow.
func (*Context) NodeID() string { return host.NodeID() }

// TriggerID is the trigger of this call.
func (*Context) TriggerID() string { return host.TriggerID() }

// Attempt is the number of this attempt, from 1.
func (*Context) Attempt() int { return int(host.Attempt()) }

// IdempotencyKey is the same over crashes and retries of one execution: send it with side effects.
func (*Context) IdempotencyKey() string { return host.IdempotencyKey() }

// CorrelationID is the correlation id of the run.
func (*Context) CorrelationID() string { return host.CorrelationID() }

// TraceParent is the W3C trace context of the run.
func (*Context) TraceParent() string { return host.TraceParent() }

// Cancelled tells whether the execution was cancelled. A long node asks now and then, and returns
// ErrCancelled.
func (*Context) Cancelled() bool { return host.IsCancelled() }

// Deadline is the instant at which the host ends this call.
func (*Context) Deadline() (time.Time, bool) { return time.UnixMilli(int64(host.DeadlineMs())), true }

// Done implements context.Context: it is nil.
func (*Context) Done() <-chan struct{} { return nil }

// Err is context.Canceled if the execution was cancelled.
func (c *Context) Err() error {
	if c.Cancelled() {
		return context.Canceled
	}
	return nil
}

// Value implements context.Context: it is nil.
func (*Context) Value(any) any { return nil }

// Progress reports the progress of a long execution, from 0 to 1.
func (*Context) Progress(fraction float64, note string) { host.Progress(fraction, note) }

// ResumeToken is the token that resumes the bookmark of this name; known before the node suspends.
func (*Context) ResumeToken(bookmark string) string { return host.ResumeToken(bookmark) }

// Take chooses the ports by which the output leaves the node. Without it, that is `done`.
func (c *Context) Take(ports ...string) { c.ports = slices.Clone(ports) }

// Reason says why a node is called again.
type Reason string

// The reasons. A later host may add others.
const (
	ByAgain     Reason = "again"
	ByResumed   Reason = "resumed"
	ByExpired   Reason = "expired"
	ByCancelled Reason = "cancelled"
)

// Resumption is a later call of a node that returned Suspend or Again.
type Resumption struct {
	Reason Reason
	// Phase is the number of the repeated call, from 1.
	Phase int
	// Bookmark is the name of the bookmark that was resumed or that expired.
	Bookmark string

	found *host.Resumption
}

// Resumption is nil in the first call of a node.
func (*Context) Resumption() *Resumption {
	found := host.Resumed()
	if found == nil {
		return nil
	}
	made := &Resumption{Phase: int(found.Phase), Bookmark: found.Name, found: found}
	switch found.Reason {
	case host.ByAgain:
		made.Reason = ByAgain
	case host.ByResumed:
		made.Reason = ByResumed
	case host.ByExpired:
		made.Reason = ByExpired
	case host.ByCancelled:
		made.Reason = ByCancelled
	default:
		made.Reason, made.Bookmark = Reason(found.Name), ""
	}
	return made
}

// State reads the state that the node returned last. Without one, `to` stays as it is.
func (r *Resumption) State(to any) error { return decode("state", r.found.State, to) }

// Metadata reads the metadata of the bookmark. Without it, `to` stays as it is.
func (r *Resumption) Metadata(to any) error { return decode("metadata", r.found.Metadata, to) }

// Input reads the input of the stimulus that resumed a bookmark. In other calls `to` stays as it is.
func (r *Resumption) Input(to any) error {
	if r.Reason != ByResumed {
		return nil
	}
	return decode("input", &r.found.Input, to)
}

func decode(name string, payload *host.Payload, to any) error {
	if payload == nil {
		return nil
	}
	if err := value.Decode(*payload, to); err != nil {
		return Invalid("the %s of the resumption does not fit its type: %w", name, err)
	}
	return nil
}
