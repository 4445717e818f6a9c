package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"windlass"
	"windlass/blobs"
	"windlass/events"
	"windlass/memory"
	"windlass/node"
)

// Nodes beside those of the template, which use each function of the host that needs no grant.
func init() {
	node.Serve(about, windlass.Nodes{"bug": bug, "parts": parts, "wide": wide, "waits": waits})
}

var bug = windlass.Node[any, int]{
	Run: func(*windlass.Context, any) (int, error) {
		var counts map[string]int
		counts["a"]++ // the line of the panic
		return 0, nil
	},
}

type Parts struct {
	User    string   `json:"user"`
	Size    int64    `json:"size"`
	Read    string   `json:"read"`
	Refused string   `json:"refused"`
	Key     string   `json:"key"`
	Attempt int      `json:"attempt"`
	None    []string `json:"none"`
}

var parts = windlass.Node[any, Parts]{
	Run: func(ctx *windlass.Context, _ any) (made Parts, err error) {
		fmt.Println("to stdout")
		slog.Warn("3 orders", "user", "ada")
		ctx.Progress(0.5, "half")
		if made.User, _, err = memory.Get[string]("input.user"); err != nil {
			return made, err
		}
		writer, err := blobs.Create()
		if err != nil {
			return made, err
		}
		fmt.Fprint(writer, "0123456789")
		reference, err := writer.Finish()
		if err != nil {
			return made, err
		}
		reader, err := blobs.Open(reference)
		if err != nil {
			return made, err
		}
		part := make([]byte, 2)
		if _, err := reader.ReadAt(part, 3); err != nil {
			return made, err
		}
		var refused *windlass.Error
		errors.As(events.Send(events.Stimulus{Name: "paid", Match: 7, Input: "x"}), &refused)
		made.Size, made.Read, made.Refused = reader.Size(), string(part), refused.Code
		made.Key, made.Attempt = strings.Repeat("k", min(len(ctx.IdempotencyKey()), 1)), ctx.Attempt()
		return made, nil
	},
}

var wide = windlass.Node[json.RawMessage, json.RawMessage]{
	Run: func(_ *windlass.Context, any json.RawMessage) (json.RawMessage, error) { return any, nil },
}

type State struct {
	Polls int `json:"polls"`
}

type Waited struct {
	Reason   windlass.Reason `json:"reason"`
	Bookmark string          `json:"bookmark"`
	Phase    int             `json:"phase"`
	State    State           `json:"state"`
}

var waits = windlass.Node[any, Waited]{
	Suspends: true,
	Run: func(ctx *windlass.Context, _ any) (made Waited, err error) {
		call := ctx.Resumption()
		if call == nil {
			return made, windlass.Again(time.Millisecond, State{1})
		}
		if err := call.State(&made.State); err != nil {
			return made, err
		}
		switch {
		case call.Reason == windlass.ByAgain && made.State.Polls < 3:
			return made, windlass.Again(time.Millisecond, State{made.State.Polls + 1})
		case call.Reason == windlass.ByAgain:
			paid := windlass.Bookmark{Name: "paid", Match: 7, Metadata: "m", Expires: time.Now()}
			return made, windlass.Suspend(made.State, paid)
		}
		made.Reason, made.Bookmark, made.Phase = call.Reason, call.Bookmark, call.Phase
		return made, nil
	},
}
