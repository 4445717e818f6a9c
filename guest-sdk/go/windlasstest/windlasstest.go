//go:build !wasip1

// Package windlasstest runs a node, a consumer or a check in an ordinary test, against a host in
// memory:
//
//	report := windlasstest.Call(t, greet, Person{Name: "Ada"})
//	if report.Output.Greeting != "Hello, Ada!" {
//		t.Error(report)
//	}
//
// Values take the way that they take in a component: as JSON. An undeclared port, a type without a
// schema, or a wait without Suspends fails the test. The host checks schemas, in
// `windlass plugin test`.
package windlasstest

import (
	"slices"
	"testing"
	"time"

	"windlass"
	"windlass/internal/host"
	"windlass/internal/plug"
	"windlass/internal/value"
)

// Line is a line of the log. Level is `trace`, `debug`, `info`, `warn` or `error`.
type Line struct {
	Level, Message string
	Fields         map[string]string
}

// Failure is a failure, as the host gets it.
type Failure struct {
	Class    windlass.Class
	Message  string
	Stack    string
	Details  any
	After    time.Duration
	Position *windlass.Position
}

// Effects are the effects of a call beside its result.
type Effects struct {
	Log       []Line
	Progress  []float64
	Requests  []Request
	Sent      []Sent
	Scheduled []Scheduled
	// Blobs has the written ones by their references.
	Blobs map[string][]byte
}

// Report is the result of a call of a node.
type Report[Output any] struct {
	// Outcome is `done`, `suspend`, `again` or `failed`.
	Outcome string
	Output  Output
	Ports   []string
	// State is the state that the host keeps for the next call, as JSON.
	State     any
	After     time.Duration
	Bookmarks []windlass.Bookmark
	Failure   *Failure
	Effects
}

// Call runs a node once.
func Call[Input, Output any](t testing.TB, node windlass.Node[Input, Output], input Input, in ...World) Report[Output] {
	t.Helper()
	return run[Output](t, node, struct{}{}, input, in)
}

// CallWith runs a node with a configuration once. The host adds the defaults of a configuration;
// here they are those of the given value.
func CallWith[Config, Input, Output any](t testing.TB, node windlass.NodeWith[Config, Input, Output], config Config, input Input, in ...World) Report[Output] {
	t.Helper()
	return run[Output](t, node, config, input, in)
}

func run[Output any](t testing.TB, runner windlass.Runner, config, input any, in []World) (report Report[Output]) {
	t.Helper()
	node := made(t, runner)
	with, given := encoded(t, config), encoded(t, input)
	var (
		outcome *host.Outcome
		failed  *host.Failed
	)
	report.Effects = within(t, in, func() { outcome, failed = node.Execute(with, given) })
	if failed != nil {
		report.Outcome, report.Failure = "failed", failure(t, failed)
		return report
	}
	report.State = decoded(t, outcome.State)
	if outcome.Ending != host.Done {
		if !node.Suspends {
			t.Fatal("the node returns Suspend or Again, and it has no `Suspends: true`")
		}
		report.Outcome, report.After = "again", time.Duration(outcome.AfterMs)*time.Millisecond
		if outcome.Ending == host.Suspend {
			report.Outcome = "suspend"
		}
		for _, it := range outcome.Bookmarks {
			report.Bookmarks = append(report.Bookmarks, bookmark(t, it))
		}
		return report
	}
	declared := node.Ports
	if len(declared) == 0 {
		declared = []string{"done"}
	}
	report.Outcome, report.Ports = "done", outcome.Ports
	if len(report.Ports) == 0 {
		report.Ports = []string{"done"}
	}
	for _, port := range report.Ports {
		if !slices.Contains(declared, port) {
			t.Fatalf("the node takes the port %q, and its Ports are %q", port, declared)
		}
	}
	if err := value.Decode(outcome.Output, &report.Output); err != nil {
		t.Fatalf("the output cannot be read back: %v", err)
	}
	return report
}

// Decision is the result of a call of a consumer.
type Decision struct {
	// Outcome is `execute`, `handled`, `later`, `reject` or `failed`.
	Outcome string
	// Vars is the object of Execute, as JSON.
	Vars    any
	After   time.Duration
	Reason  string
	Failure *Failure
	Effects
}

// Accept offers a trigger to a consumer.
func Accept(t testing.TB, consumer windlass.Consumer, trigger windlass.Trigger, in ...World) (report Decision) {
	t.Helper()
	var payload *host.Payload
	if trigger.Payload != nil {
		made := encoded(t, trigger.Payload)
		payload = &made
	}
	kind := trigger.Kind
	if kind == "" {
		kind = "manual"
	}
	var (
		decision *host.Decision
		failed   *host.Failed
	)
	report.Effects = within(t, in, func() {
		decision, failed = consumer.Made().Accept(kind, trigger.Node, payload)
	})
	if failed != nil {
		report.Outcome, report.Failure = "failed", failure(t, failed)
		return report
	}
	report.Outcome = []string{"execute", "handled", "later", "reject"}[decision.Verdict]
	report.Vars = decoded(t, decision.Vars)
	report.After = time.Duration(decision.AfterMs) * time.Millisecond
	report.Reason = decision.Reason.Message
	return report
}

// Check runs the check of a node. Unknown are the JSON pointers of members with expressions.
func Check(t testing.TB, node windlass.Runner, config map[string]any, unknown ...string) []windlass.Finding {
	t.Helper()
	checked := made(t, node)
	if checked.Check == nil {
		t.Fatal("the node has no Check")
	}
	var found []windlass.Finding
	for _, it := range checked.Check(encoded(t, config), unknown) {
		found = append(found, windlass.Finding{Message: it.Message, Pointer: it.Pointer, IsWarning: it.IsWarning, Position: position(it.Position)})
	}
	return found
}

func made(t testing.TB, runner windlass.Runner) *plug.Node {
	t.Helper()
	node := runner.Made("node")
	for _, mistake := range node.Mistakes {
		t.Error(mistake)
	}
	if t.Failed() {
		t.FailNow()
	}
	return node
}

func encoded(t testing.TB, of any) host.Payload {
	t.Helper()
	payload, err := value.Encode(of)
	if err != nil {
		t.Fatalf("a value of the test has no JSON: %v", err)
	}
	return payload
}

func decoded(t testing.TB, payload *host.Payload) (made any) {
	t.Helper()
	if payload != nil {
		if err := value.Decode(*payload, &made); err != nil {
			t.Fatalf("%q is no JSON: %v", payload.Bytes, err)
		}
	}
	return made
}

func failure(t testing.TB, failed *host.Failed) *Failure {
	t.Helper()
	classes := map[host.Class]windlass.Class{
		host.Invalid: windlass.ClassInvalid, host.Retryable: windlass.ClassRetryable,
		host.Permanent: windlass.ClassPermanent, host.Cancelled: windlass.ClassCancelled,
	}
	it := failed.Failure
	made := &Failure{
		Class: classes[failed.Class], Message: it.Message, Stack: it.Stack,
		Details: decoded(t, it.Details), Position: position(it.Position),
	}
	if failed.AfterMs != nil {
		made.After = time.Duration(*failed.AfterMs) * time.Millisecond
	}
	return made
}

func position(it *host.Position) *windlass.Position {
	if it == nil {
		return nil
	}
	return &windlass.Position{Source: it.Source, Line: it.Line, Column: it.Column}
}

func bookmark(t testing.TB, it host.Bookmark) windlass.Bookmark {
	t.Helper()
	made := windlass.Bookmark{
		Name: it.Name, Match: decoded(t, it.Match), Correlation: it.Correlation,
		Private: it.Private, Keep: it.Keep, Metadata: decoded(t, it.Metadata),
	}
	if it.ExpiresMs != nil {
		made.Expires = time.UnixMilli(int64(*it.ExpiresMs))
	}
	return made
}
