package host

import (
	"strings"
	"unsafe"
)

//go:wasmimport windlass:log/log@0.1.0 write
func logWrite(level uint32, message string, fields unsafe.Pointer, count uint32)

// Log writes a line of a level from 0 (trace) to 4 (error).
func Log(level uint32, message string, fields [][2]string) {
	list := newArea(len(fields) * 16)
	for i, field := range fields {
		list.text(i*16, field[0])
		list.text(i*16+8, field[1])
	}
	logWrite(level, valid(message), list.pointer(), uint32(len(fields)))
	list.keep()
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

//go:wasmimport windlass:context/context@0.1.0 run-id
func runID(result unsafe.Pointer)

//go:wasmimport windlass:context/context@0.1.0 workflow
func workflow(result unsafe.Pointer)

//go:wasmimport windlass:context/context@0.1.0 node-id
func nodeID(result unsafe.Pointer)

//go:wasmimport windlass:context/context@0.1.0 trigger-id
func triggerID(result unsafe.Pointer)

//go:wasmimport windlass:context/context@0.1.0 idempotency-key
func idempotencyKey(result unsafe.Pointer)

//go:wasmimport windlass:context/context@0.1.0 correlation-id
func correlationID(result unsafe.Pointer)

//go:wasmimport windlass:context/context@0.1.0 trace-parent
func traceParent(result unsafe.Pointer)

//go:wasmimport windlass:context/context@0.1.0 resumption
func resumption(result unsafe.Pointer)

//go:wasmimport windlass:context/context@0.1.0 resume-token
func resumeToken(bookmark string, result unsafe.Pointer)

//go:wasmimport windlass:context/context@0.1.0 attempt
func attempt() uint32

//go:wasmimport windlass:context/context@0.1.0 deadline
func deadline() uint64

//go:wasmimport windlass:context/context@0.1.0 cancelled
func cancelled() uint32

//go:wasmimport windlass:context/context@0.1.0 progress
func progress(fraction float64, note string)

// textOf calls a function that returns a text.
func textOf(call func(unsafe.Pointer)) string {
	Lift()
	defer Lifted()
	result := newArea(8)
	call(result.pointer())
	return result.takeText(0)
}

// optionalTextOf calls a function that returns a text or none, which is an empty text.
func optionalTextOf(call func(unsafe.Pointer)) string {
	Lift()
	defer Lifted()
	result := newArea(12)
	call(result.pointer())
	if !result.has(0) {
		return ""
	}
	return result.takeText(4)
}

// The members of the context, as windlass:context has them. Absent texts are empty.

func RunID() string                          { return textOf(runID) }
func Workflow() string                       { return textOf(workflow) }
func NodeID() string                         { return optionalTextOf(nodeID) }
func TriggerID() string                      { return textOf(triggerID) }
func IdempotencyKey() string                 { return textOf(idempotencyKey) }
func CorrelationID() string                  { return optionalTextOf(correlationID) }
func TraceParent() string                    { return optionalTextOf(traceParent) }
func Attempt() uint32                        { return attempt() }
func DeadlineMs() uint64                     { return deadline() }
func IsCancelled() bool                      { return cancelled() != 0 }
func Progress(fraction float64, note string) { progress(fraction, valid(note)) }

// ResumeToken returns the token of a bookmark; empty if the host has none.
func ResumeToken(bookmark string) string {
	return optionalTextOf(func(result unsafe.Pointer) { resumeToken(valid(bookmark), result) })
}

// Resumed returns the reason of a later call; nil in the first call.
func Resumed() *Resumption {
	Lift()
	defer Lifted()
	result := newArea(100)
	resumption(result.pointer())
	if !result.has(0) {
		return nil
	}
	found := &Resumption{Reason: Reason(result.bytes[4]), Phase: result.readWord(68)}
	switch found.Reason {
	case ByResumed:
		found.Name = result.takeText(8)
		found.Input = result.takePayload(16)
		found.Metadata = result.takeOptionalPayload(40)
	case ByExpired, ByOther:
		found.Name = result.takeText(8)
	}
	found.State = result.takeOptionalPayload(72)
	return found
}

//go:wasmimport windlass:memory/memory@0.1.0 get
func memoryGet(path string, result unsafe.Pointer)

// Memory returns the value at a path; nil if there is none.
func Memory(path string) (*Payload, *Refusal) {
	Lift()
	defer Lifted()
	result := newArea(40)
	memoryGet(valid(path), result.pointer())
	if refusal := result.refusal(8, 16, memoryCases, "too-large"); refusal != nil {
		return nil, refusal
	}
	return result.takeOptionalPayload(8), nil
}

//go:wasmimport windlass:blobs/blobs@0.1.0 size
func blobSize(blob string, result unsafe.Pointer)

//go:wasmimport windlass:blobs/blobs@0.1.0 read
func blobRead(blob string, offset uint64, length uint32, result unsafe.Pointer)

//go:wasmimport windlass:blobs/blobs@0.1.0 begin
func blobBegin(result unsafe.Pointer)

//go:wasmimport windlass:blobs/blobs@0.1.0 append
func blobAppend(writer uint32, bytes *byte, length uint32, result unsafe.Pointer)

//go:wasmimport windlass:blobs/blobs@0.1.0 finish
func blobFinish(writer uint32, result unsafe.Pointer)

// BlobSize returns the length of a blob in bytes.
func BlobSize(blob string) (uint64, *Refusal) {
	Lift()
	defer Lifted()
	result := newArea(24)
	blobSize(valid(blob), result.pointer())
	if refusal := result.refusal(8, 12, blobCases, ""); refusal != nil {
		return 0, refusal
	}
	return result.readLong(8), nil
}

// BlobRead returns at most length bytes from an offset; fewer at the end.
func BlobRead(blob string, offset uint64, length uint32) ([]byte, *Refusal) {
	Lift()
	defer Lifted()
	result := newArea(16)
	blobRead(valid(blob), offset, length, result.pointer())
	if refusal := result.refusal(4, 8, blobCases, ""); refusal != nil {
		return nil, refusal
	}
	return result.takeBytes(4), nil
}

// BlobBegin begins a blob, and returns its writer.
func BlobBegin() (uint32, *Refusal) {
	Lift()
	defer Lifted()
	result := newArea(16)
	blobBegin(result.pointer())
	if refusal := result.refusal(4, 8, blobCases, ""); refusal != nil {
		return 0, refusal
	}
	return result.readWord(4), nil
}

// BlobAppend adds bytes to a blob.
func BlobAppend(writer uint32, bytes []byte) *Refusal {
	Lift()
	defer Lifted()
	result := newArea(16)
	blobAppend(writer, unsafe.SliceData(bytes), uint32(len(bytes)), result.pointer())
	return result.refusal(4, 8, blobCases, "")
}

// BlobFinish ends a blob, and returns its reference.
func BlobFinish(writer uint32) (string, *Refusal) {
	Lift()
	defer Lifted()
	result := newArea(16)
	blobFinish(writer, result.pointer())
	if refusal := result.refusal(4, 8, blobCases, ""); refusal != nil {
		return "", refusal
	}
	return result.takeText(4), nil
}

//go:wasmimport windlass:events/events@0.1.0 send
func eventsSend(stimulus, result unsafe.Pointer)

//go:wasmimport windlass:events/events@0.1.0 schedule
func eventsSchedule(node string, at uint64, has, typed uint32, contentType string, form uint32, body *byte, length uint32, result unsafe.Pointer)

// Send sends a stimulus.
func Send(stimulus Stimulus) *Refusal {
	Lift()
	defer Lifted()
	argument, result := newArea(88), newArea(16)
	argument.text(0, stimulus.Name)
	argument.optionalPayload(8, stimulus.Match)
	argument.optionalText(36, stimulus.Correlation)
	argument.optionalText(48, stimulus.Run)
	argument.optionalPayload(60, stimulus.Input)
	eventsSend(argument.pointer(), result.pointer())
	argument.keep()
	return result.refusal(4, 8, eventCases, "")
}

// Schedule schedules a trigger of the own run, for an instant in milliseconds since 1970. Its
// payload is JSON or nil.
func Schedule(node string, atMs uint64, payload *Payload) *Refusal {
	Lift()
	defer Lifted()
	result := newArea(16)
	if payload == nil {
		eventsSchedule(valid(node), atMs, 0, 0, "", 0, nil, 0, result.pointer())
	} else {
		at, length := unsafe.SliceData(payload.Bytes), uint32(len(payload.Bytes))
		eventsSchedule(valid(node), atMs, 1, 0, "", uint32(payload.Form), at, length, result.pointer())
	}
	return result.refusal(4, 8, eventCases, "")
}

//go:wasmimport windlass:http/http@0.1.0 fetch
func httpFetch(method, url string, headers unsafe.Pointer, headerCount, hasBody, isText uint32, body *byte, bodyLength uint32, hasTimeout uint32, timeout uint64, hasMax uint32, max uint64, hasRedirects, redirects uint32, result unsafe.Pointer)

// Fetch sends a request, and waits for its response.
func Fetch(request Request) (Response, *Refusal) {
	Lift()
	defer Lifted()
	headers, result := newArea(8), newArea(32)
	list := headers.list(0, len(request.Headers), 20)
	for i, header := range request.Headers {
		list.text(i*20, header.Name)
		if header.IsSecret {
			list.byte(i*20+8, 1)
		}
		list.text(i*20+12, header.Value)
	}
	hasTimeout, timeout := option(request.TimeoutMs)
	hasMax, max := option(request.MaxBytes)
	hasBody := uint32(0)
	if request.Body != nil {
		hasBody = 1
	}
	httpFetch(valid(request.Method), valid(request.URL), list.pointer(), uint32(len(request.Headers)), hasBody, 0, unsafe.SliceData(request.Body), uint32(len(request.Body)), hasTimeout, timeout, hasMax, max, 0, 0, result.pointer())
	headers.keep()
	if refusal := result.refusal(8, 16, httpCases, "too-large"); refusal != nil {
		return Response{}, refusal
	}
	response := Response{Status: uint16(result.readWord(8)), Body: result.takeBytes(24)}
	count := result.readWord(16)
	received := &area{bytes: Take(result.readWord(12), count*16)}
	for i := range int(count) {
		response.Headers = append(response.Headers, [2]string{received.takeText(i * 16), received.takeText(i*16 + 8)})
	}
	return response, nil
}

func option(value *uint64) (uint32, uint64) {
	if value == nil {
		return 0, 0
	}
	return 1, *value
}
