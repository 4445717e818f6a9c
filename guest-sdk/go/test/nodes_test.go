// Package test tests the SDK as its users see it.
package test

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"windlass"
	"windlass/blobs"
	"windlass/check"
	"windlass/events"
	"windlass/memory"
	"windlass/windlasstest"
)

func equal(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

// node is a node of any input that calls a function.
func node[O any](run func(ctx *windlass.Context) (O, error)) windlass.Node[any, O] {
	return windlass.Node[any, O]{
		Suspends: true, Ports: []string{"done", "large"},
		Run: func(ctx *windlass.Context, _ any) (O, error) { return run(ctx) },
	}
}

func call[O any](t *testing.T, run func(ctx *windlass.Context) (O, error), in ...windlasstest.World) windlasstest.Report[O] {
	t.Helper()
	return windlasstest.Call(t, node(run), nil, in...)
}

// failing is the failure of a node that returns an error.
func failing(t *testing.T, err error) windlasstest.Failure {
	t.Helper()
	report := call(t, func(*windlass.Context) (int, error) { return 0, err })
	if report.Failure == nil {
		t.Fatalf("%+v is no failure", report)
	}
	return *report.Failure
}

func TestAnErrorHasItsClassCodeDetailsAndDelay(t *testing.T) {
	broken := windlass.Retryable("the shop %s does not answer", "a")
	broken.Code, broken.Details, broken.After = "shop.down", map[string]any{"shop": "a"}, 2*time.Second
	got := failing(t, fmt.Errorf("order 7: %w", broken))
	equal(t, got, windlasstest.Failure{
		Class: windlass.ClassRetryable, Message: "order 7: the shop a does not answer", After: 2 * time.Second,
		Details: map[string]any{"shop": "a", "code": "shop.down"},
	})
	equal(t, failing(t, errors.New("odd")), windlasstest.Failure{Message: "odd"})
	equal(t, failing(t, windlass.ErrCancelled).Class, windlass.ClassCancelled)
	equal(t, failing(t, &windlass.Error{Class: windlass.ClassInvalid, Code: "a"}).Details, any(map[string]any{"code": "a"}))
	list := &windlass.Error{Message: "x", Code: "a", Details: []int{1}}
	equal(t, failing(t, list).Details, any([]any{1.0}))
	unwritable := &windlass.Error{Message: "x", Details: make(chan int)}
	equal(t, strings.Contains(failing(t, unwritable).Message, "its details have no JSON"), true)
}

func broken(orders map[string]int) int {
	orders["a"] = 1 // line of the panic
	return orders["a"]
}

func TestAPanicIsAFailureWithTheLineOfItsAuthor(t *testing.T) {
	report := call(t, func(*windlass.Context) (int, error) { return broken(nil), nil })
	failure := report.Failure
	equal(t, failure.Message, "panic: assignment to entry in nil map")
	if failure.Position == nil || !strings.HasSuffix(failure.Position.Source, "test/nodes_test.go") {
		t.Fatalf("the position is %+v", failure.Position)
	}
	if first, _, _ := strings.Cut(failure.Stack, "\n"); first != "windlass/test.broken" {
		t.Errorf("the stack begins with %q", first)
	}
}

func TestPortsAndWaits(t *testing.T) {
	done := call(t, func(ctx *windlass.Context) (string, error) { ctx.Take("large"); return "x", nil })
	equal(t, []any{done.Outcome, done.Output, done.Ports}, []any{"done", "x", []string{"large"}})
	again := call(t, func(*windlass.Context) (string, error) {
		return "", windlass.Again(1500*time.Millisecond, map[string]int{"polls": 3})
	})
	equal(t, []any{again.Outcome, again.After, again.State}, []any{"again", 1500 * time.Millisecond, map[string]any{"polls": 3.0}})
	expires := time.UnixMilli(1_900_000_000_000)
	waits := windlass.Bookmark{Name: "paid", Match: 7.0, Correlation: "c", Private: true, Keep: true, Metadata: "m", Expires: expires}
	suspend := call(t, func(*windlass.Context) (string, error) { return "", windlass.Suspend(nil, waits) })
	equal(t, []any{suspend.Outcome, suspend.Bookmarks}, []any{"suspend", []windlass.Bookmark{waits}})
	late := call(t, func(*windlass.Context) (string, error) { return "", windlass.Again(-time.Second, nil) })
	equal(t, late.Failure.Message, "the wait of the node is not possible: the delay -1s is negative")
}

func TestALaterCallHasItsReasonAndState(t *testing.T) {
	run := func(ctx *windlass.Context) ([]any, error) {
		it := ctx.Resumption()
		var state struct{ Polls int }
		var input, metadata string
		err := errors.Join(it.State(&state), it.Input(&input), it.Metadata(&metadata))
		return []any{it.Reason, it.Phase, it.Bookmark, state.Polls, input, metadata}, err
	}
	resumed := windlasstest.Resumption{
		Reason: windlass.ByResumed, Phase: 2, Bookmark: "paid", Input: "yes", Metadata: "m",
		State: map[string]any{"polls": 3},
	}
	report := call(t, run, windlasstest.World{Resumption: &resumed})
	equal(t, report.Output, []any{"resumed", 2.0, "paid", 3.0, "yes", "m"})
	later := windlasstest.Resumption{Reason: "moved"}
	report = call(t, run, windlasstest.World{Resumption: &later})
	equal(t, report.Output, []any{"moved", 1.0, "", 0.0, "", ""})
	resumed.State = []int{}
	equal(t, call(t, run, windlasstest.World{Resumption: &resumed}).Outcome, "failed")
}

func TestTheContextIsThatOfTheCall(t *testing.T) {
	deadline := time.UnixMilli(1_900_000_000_000)
	world := windlasstest.World{
		RunID: "r", Workflow: "w", NodeID: "n", TriggerID: "t", IdempotencyKey: "k", CorrelationID: "c",
		TraceParent: "p", Attempt: 3, Deadline: deadline, Cancelled: true,
	}
	report := call(t, func(ctx *windlass.Context) ([]any, error) {
		ctx.Progress(0.5, "half")
		end, _ := ctx.Deadline()
		return []any{
			ctx.RunID(), ctx.Workflow(), ctx.NodeID(), ctx.TriggerID(), ctx.IdempotencyKey(), ctx.CorrelationID(),
			ctx.TraceParent(), ctx.Attempt(), end.UnixMilli(), ctx.ResumeToken("paid"), ctx.Resumption() == nil,
		}, nil
	}, world)
	equal(t, report.Output, []any{"r", "w", "n", "t", "k", "c", "p", 3.0, 1.9e12, "token-paid", true})
	equal(t, report.Progress, []float64{0.5})
	report = call(t, func(ctx *windlass.Context) ([]any, error) { return nil, ctx.Err() }, world)
	equal(t, report.Failure.Class, windlass.ClassCancelled)
}

func TestSlogWritesIntoTheLog(t *testing.T) {
	before := slog.Default()
	report := call(t, func(ctx *windlass.Context) (int, error) {
		slog.With("shop", "a").WithGroup("order").Warn("late", "id", 7, slog.Group("item", "name", "tea"))
		slog.Log(ctx, slog.LevelDebug-4, "fine")
		return 0, nil
	})
	equal(t, report.Log, []windlasstest.Line{
		{Level: "warn", Message: "late", Fields: map[string]string{"shop": "a", "order.id": "7", "order.item.name": "tea"}},
		{Level: "trace", Message: "fine", Fields: map[string]string{}},
	})
	equal(t, slog.Default() == before, true)
}

func TestTheHostAnswersMemoryBlobsAndEvents(t *testing.T) {
	due := time.UnixMilli(1_900_000_000_000)
	world := windlasstest.World{
		Memory: map[string]any{"vars.user": "ada"},
		Blobs:  map[string][]byte{"large": []byte("0123456789")},
	}
	report := call(t, func(*windlass.Context) ([]any, error) {
		user, exists, err := memory.Get[string]("vars.user")
		_, absent, failed := memory.Get[int]("vars.none")
		reader, err2 := blobs.Open("large")
		part := make([]byte, 4)
		_, err3 := reader.ReadAt(part, 8)
		writer, err4 := blobs.Create()
		fmt.Fprint(writer, strings.Repeat("x", blobs.MaxPart+1))
		reference, err5 := writer.Finish()
		sent := events.Send(events.Stimulus{Name: "paid", Match: 7, Correlation: "c", Run: "r", Input: "i"})
		scheduled := events.Schedule("next", due, map[string]any{"a": 1})
		return []any{user, exists, absent, string(part), fmt.Sprint(err3), reference},
			errors.Join(err, failed, err2, err4, err5, sent, scheduled)
	}, world)
	equal(t, report.Output, []any{"ada", true, false, "89\x00\x00", "EOF", "blob-0"})
	equal(t, len(report.Blobs["blob-0"]), blobs.MaxPart+1)
	equal(t, report.Sent, []windlasstest.Sent{{Name: "paid", Correlation: "c", Run: "r", Match: 7.0, Input: "i"}})
	equal(t, report.Scheduled, []windlasstest.Scheduled{{Node: "next", At: due, Vars: map[string]any{"a": 1.0}}})
}

func TestErrorsOfTheHostHaveClassAndCode(t *testing.T) {
	refused := func(code string, class windlass.Class, ask func() error) {
		t.Helper()
		report := call(t, func(*windlass.Context) (int, error) { return 0, ask() }, windlasstest.World{RefuseEvents: true})
		if report.Failure == nil {
			t.Fatalf("%s: no failure", code)
		}
		equal(t, []any{report.Failure.Class, report.Failure.Details}, []any{class, map[string]any{"code": code}})
	}
	refused("memory.invalid-path", windlass.ClassInvalid, func() error { _, _, err := memory.Get[int]("x"); return err })
	refused("blobs.not-found", windlass.ClassPermanent, func() error { _, err := blobs.Open("x"); return err })
	refused("events.unavailable", windlass.ClassPermanent, func() error { return events.Send(events.Stimulus{Name: "x"}) })
}

func TestAConsumerDecides(t *testing.T) {
	gate := windlass.Consumer{Accept: func(_ *windlass.Context, trigger windlass.Trigger) (windlass.Decision, error) {
		switch trigger.Kind {
		case "start":
			return windlass.Execute(trigger.Payload), nil
		case "timer":
			return windlass.Later(time.Hour), nil
		case "event":
			return windlass.Handled(), nil
		case "cron":
			return windlass.Decision{}, windlass.Retryable("later")
		case "retry":
			panic("odd")
		case "loop":
			return windlass.Decision{}, nil
		}
		return windlass.Reject("no %s", trigger.Kind), nil
	}}
	accept := func(kind string) windlasstest.Decision {
		return windlasstest.Accept(t, gate, windlass.Trigger{Kind: kind, Payload: map[string]any{"a": "b"}})
	}
	equal(t, accept("start").Vars, any(map[string]any{"a": "b"}))
	equal(t, accept("timer").After, time.Hour)
	equal(t, accept("event").Outcome, "handled")
	equal(t, accept("child").Reason, "no child")
	equal(t, accept("cron").Failure.Class, windlass.ClassRetryable)
	equal(t, accept("retry").Failure.Message, "panic: odd")
	equal(t, accept("loop").Outcome, "failed")
}

func TestAConfigurationIsCheckedBeforeARun(t *testing.T) {
	type pattern struct {
		Pattern string `json:"pattern"`
	}
	match := windlass.NodeWith[pattern, string, bool]{
		Check: check.Func(func(c windlass.Configuration) (found []windlass.Finding) {
			if _, given := c.Members["pattern"]; given && c.Text("pattern") == "" {
				found = append(found, windlass.Finding{Message: "the pattern is empty", Pointer: "/pattern"})
			}
			return found
		}),
		Run: func(_ *windlass.Context, with pattern, text string) (bool, error) {
			return strings.Contains(text, with.Pattern), nil
		},
	}
	found := windlasstest.Check(t, match, map[string]any{"pattern": ""})
	equal(t, found, []windlass.Finding{{Message: "the pattern is empty", Pointer: "/pattern"}})
	equal(t, len(windlasstest.Check(t, match, map[string]any{}, "/pattern")), 0)
	equal(t, windlasstest.CallWith(t, match, pattern{"b"}, "abc").Output, true)
}
