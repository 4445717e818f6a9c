package windlass

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"windlass/internal/host"
)

// maxFrames bounds the stack of a panic: the host keeps 8 KiB of its text.
const maxFrames = 64

// panicked turns the reason of a panic into a failure, with the stack and the author's line. The
// deferred function of the call has recovered it.
func panicked(reason any) *host.Failed {
	counters := make([]uintptr, maxFrames)
	frames := runtime.CallersFrames(counters[:runtime.Callers(1, counters)])
	main := "main"
	if build, found := debug.ReadBuildInfo(); found && build.Main.Path != "" {
		main = build.Main.Path
	}
	var (
		stack    strings.Builder
		position *host.Position
		isInside bool
	)
	for {
		frame, more := frames.Next()
		file := strings.TrimPrefix(frame.File, main+"/")
		of := packageOf(frame.Function)
		switch {
		case frame.Function == "runtime.gopanic":
			// The frames before are those of the recovery.
			isInside = true
			stack.Reset()
		case isInside && of != "runtime" && !strings.HasPrefix(of, "internal/runtime/"):
			fmt.Fprintf(&stack, "%s\n\t%s:%d\n", frame.Function, file, frame.Line)
			isAuthor := of == "main" || of == main || strings.HasPrefix(of, main+"/")
			if position == nil && isAuthor {
				position = &host.Position{Source: file, Line: uint32(frame.Line), Column: 1}
			}
		}
		if !more {
			break
		}
	}
	text := fmt.Sprint(reason)
	if err, is := reason.(error); is {
		text = message(err)
	}
	return &host.Failed{Class: host.Other, Failure: host.Failure{Message: "panic: " + text, Stack: stack.String(), Position: position}}
}

// packageOf is the path of the package of a function, such as `a/b` of `a/b.(*T).M`.
func packageOf(function string) string {
	function, _, _ = strings.Cut(function, "[")
	slash := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[slash:], ".")
	return function[:slash] + name
}
