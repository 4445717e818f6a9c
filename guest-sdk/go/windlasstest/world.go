//go:build !wasip1

package windlasstest

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"windlass"
	"windlass/internal/host"
	"windlass/internal/logs"
	"windlass/internal/value"
)

// World has the answers of the host. Members that are zero have defaults.
type World struct {
	RunID, Workflow, NodeID, TriggerID         string
	IdempotencyKey, CorrelationID, TraceParent string
	Attempt                                    int
	Deadline                                   time.Time
	Cancelled                                  bool
	// Resumption makes the call a later one.
	Resumption *Resumption
	// Memory has values by their paths, such as `vars.name`.
	Memory map[string]any
	// Blobs has blobs by their references.
	Blobs map[string][]byte
	// HTTP answers requests; without it they are denied. A handler that panics with
	// http.ErrAbortHandler breaks the connection.
	HTTP http.Handler
	// RefuseEvents lets the host refuse stimuli and triggers.
	RefuseEvents bool
}

// Resumption is the reason of a later call.
type Resumption struct {
	Reason                 windlass.Reason
	Phase                  int
	Bookmark               string
	State, Input, Metadata any
}

// Request is a sent request. The value of a header with a secret is `secret:` and its name.
type Request struct {
	Method, URL string
	Header      http.Header
	Body        string
}

// Sent is a sent stimulus, with its values as JSON.
type Sent struct {
	Name, Correlation, Run string
	Match, Input           any
}

// Scheduled is a scheduled trigger.
type Scheduled struct {
	Node string
	At   time.Time
	Vars any
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// within runs a call in the world of a test, with slog and log of the world.
func within(t testing.TB, in []World, call func()) (effects Effects) {
	t.Helper()
	var given World
	if len(in) > 1 {
		t.Fatal("a call has one World")
	}
	if len(in) == 1 {
		given = in[0]
	}
	deadline := given.Deadline
	if deadline.IsZero() {
		deadline = time.Now().Add(10 * time.Second)
	}
	effects.Blobs = map[string][]byte{}
	world := &host.World{
		Run: or(given.RunID, "test-run"), Flow: or(given.Workflow, "test"), Node: or(given.NodeID, "node"),
		Trigger: or(given.TriggerID, "test-trigger"), Key: or(given.IdempotencyKey, "test-key"),
		Correlation: given.CorrelationID, Trace: given.TraceParent, Cancel: given.Cancelled,
		AttemptNumber: uint32(max(given.Attempt, 1)), Deadline: uint64(deadline.UnixMilli()),
		Again: resumed(t, given.Resumption),
		Token: func(bookmark string) string { return "token-" + bookmark },
	}
	world.Log = func(level uint32, message string, fields [][2]string) {
		line := Line{Level: []string{"trace", "debug", "info", "warn", "error"}[level], Message: message, Fields: map[string]string{}}
		for _, field := range fields {
			line.Fields[field[0]] = field[1]
		}
		effects.Log = append(effects.Log, line)
	}
	world.Progress = func(fraction float64, _ string) { effects.Progress = append(effects.Progress, fraction) }
	given.remember(t, world)
	given.store(world, effects.Blobs)
	given.send(t, world, &effects)
	given.fetch(world, &effects)
	logger, flags, prefix, writer := slog.Default(), log.Flags(), log.Prefix(), log.Writer()
	host.Within(world, func() {
		defer func() {
			slog.SetDefault(logger)
			log.SetFlags(flags)
			log.SetPrefix(prefix)
			log.SetOutput(writer)
		}()
		slog.SetDefault(slog.New(logs.Handler{}))
		call()
	})
	return effects
}

func resumed(t testing.TB, it *Resumption) *host.Resumption {
	t.Helper()
	if it == nil {
		return nil
	}
	reasons := map[windlass.Reason]host.Reason{
		windlass.ByAgain: host.ByAgain, windlass.ByResumed: host.ByResumed,
		windlass.ByExpired: host.ByExpired, windlass.ByCancelled: host.ByCancelled,
	}
	reason, known := reasons[it.Reason]
	made := &host.Resumption{Reason: reason, Name: it.Bookmark, Phase: uint32(max(it.Phase, 1)), Input: encoded(t, it.Input)}
	if !known {
		made.Reason, made.Name = host.ByOther, string(it.Reason)
	}
	made.State, made.Metadata = optional(t, it.State), optional(t, it.Metadata)
	return made
}

func optional(t testing.TB, of any) *host.Payload {
	t.Helper()
	if of == nil {
		return nil
	}
	payload := encoded(t, of)
	return &payload
}

func (w World) remember(t testing.TB, world *host.World) {
	world.Memory = func(path string) (*host.Payload, *host.Refusal) {
		root, _, _ := strings.Cut(path, ".")
		if root != "input" && root != "vars" && root != "nodes" {
			return nil, &host.Refusal{Case: "invalid-path", Detail: path}
		}
		found, exists := w.Memory[path]
		if !exists {
			return nil, nil
		}
		payload, err := value.Encode(found)
		if err != nil {
			t.Fatalf("the value of %s has no JSON: %v", path, err)
		}
		return &payload, nil
	}
}

func (w World) store(world *host.World, written map[string][]byte) {
	read := maps.Clone(w.Blobs)
	var open [][]byte
	missing := func(name any) *host.Refusal { return &host.Refusal{Case: "not-found", Detail: fmt.Sprint(name)} }
	world.Size = func(blob string) (uint64, *host.Refusal) {
		if _, found := read[blob]; !found {
			return 0, missing(blob)
		}
		return uint64(len(read[blob])), nil
	}
	world.Read = func(blob string, offset uint64, length uint32) ([]byte, *host.Refusal) {
		bytes, found := read[blob]
		if !found {
			return nil, missing(blob)
		}
		from := min(offset, uint64(len(bytes)))
		return bytes[from:min(from+uint64(length), uint64(len(bytes)))], nil
	}
	world.Begin = func() (uint32, *host.Refusal) {
		open = append(open, []byte{})
		return uint32(len(open) - 1), nil
	}
	world.Append = func(writer uint32, bytes []byte) *host.Refusal {
		if int(writer) >= len(open) || open[writer] == nil {
			return missing(writer)
		}
		open[writer] = append(open[writer], bytes...)
		return nil
	}
	world.Finish = func(writer uint32) (string, *host.Refusal) {
		if int(writer) >= len(open) || open[writer] == nil {
			return "", missing(writer)
		}
		reference := fmt.Sprintf("blob-%d", writer)
		written[reference], open[writer] = open[writer], nil
		return reference, nil
	}
}

func (w World) send(t testing.TB, world *host.World, effects *Effects) {
	refusal := &host.Refusal{Case: "unavailable", Detail: "the test refuses it"}
	world.Send = func(it host.Stimulus) *host.Refusal {
		if w.RefuseEvents {
			return refusal
		}
		sent := Sent{Name: it.Name, Correlation: it.Correlation, Run: it.Run, Match: decoded(t, it.Match), Input: decoded(t, it.Input)}
		effects.Sent = append(effects.Sent, sent)
		return nil
	}
	world.Schedule = func(node string, atMs uint64, payload *host.Payload) *host.Refusal {
		if w.RefuseEvents {
			return refusal
		}
		effects.Scheduled = append(effects.Scheduled, Scheduled{node, time.UnixMilli(int64(atMs)), decoded(t, payload)})
		return nil
	}
}

func (w World) fetch(world *host.World, effects *Effects) {
	world.Fetch = func(asked host.Request) (answer host.Response, refusal *host.Refusal) {
		request, err := http.NewRequest(asked.Method, asked.URL, strings.NewReader(string(asked.Body)))
		if err != nil {
			return answer, &host.Refusal{Case: "invalid", Detail: err.Error()}
		}
		for _, header := range asked.Headers {
			value := header.Value
			if header.IsSecret {
				value = "secret:" + value
			}
			request.Header.Add(header.Name, value)
		}
		effects.Requests = append(effects.Requests, Request{asked.Method, asked.URL, request.Header, string(asked.Body)})
		if w.HTTP == nil {
			return answer, &host.Refusal{Case: "denied", Detail: "the World of the test has no HTTP"}
		}
		defer func() {
			if reason := recover(); reason == http.ErrAbortHandler {
				answer, refusal = host.Response{}, &host.Refusal{Case: "unreachable", Detail: "the connection broke"}
			} else if reason != nil {
				panic(reason)
			}
		}()
		recorder := httptest.NewRecorder()
		w.HTTP.ServeHTTP(recorder, request)
		result := recorder.Result()
		answer.Status = uint16(result.StatusCode)
		for name, values := range result.Header {
			for _, value := range values {
				answer.Headers = append(answer.Headers, [2]string{name, value})
			}
		}
		body, err := io.ReadAll(result.Body)
		if err != nil {
			return answer, &host.Refusal{Case: "unreachable", Detail: err.Error()}
		}
		if asked.MaxBytes != nil && uint64(len(body)) > *asked.MaxBytes {
			return answer, &host.Refusal{Case: "too-large", Detail: fmt.Sprint(*asked.MaxBytes)}
		}
		answer.Body = body
		return answer, nil
	}
}
