//go:build !wasip1

package host

import "sync"

// World answers the functions of the host in an ordinary test. Each member is one function of the
// contract, or a value that it returns.
type World struct {
	Run, Flow, Node, Trigger, Key, Correlation, Trace string
	AttemptNumber                                     uint32
	Deadline                                          uint64
	Cancel                                            bool
	Again                                             *Resumption

	Log      func(level uint32, message string, fields [][2]string)
	Token    func(bookmark string) string
	Progress func(fraction float64, note string)
	Memory   func(path string) (*Payload, *Refusal)
	Size     func(blob string) (uint64, *Refusal)
	Read     func(blob string, offset uint64, length uint32) ([]byte, *Refusal)
	Begin    func() (uint32, *Refusal)
	Append   func(writer uint32, bytes []byte) *Refusal
	Finish   func(writer uint32) (string, *Refusal)
	Send     func(stimulus Stimulus) *Refusal
	Schedule func(node string, atMs uint64, payload *Payload) *Refusal
	Fetch    func(request Request) (Response, *Refusal)
}

var (
	entered sync.Mutex
	current *World
)

// Within runs a call in a world. Other calls wait for its end.
func Within(world *World, call func()) {
	entered.Lock()
	current = world
	defer func() {
		current = nil
		entered.Unlock()
	}()
	call()
}

func world() *World {
	if current == nil {
		panic("windlass: there is no host here: call the node by windlasstest")
	}
	return current
}

// The functions of the contract; imports_wasip1.go has their documentation.

func RunID() string          { return world().Run }
func Workflow() string       { return world().Flow }
func NodeID() string         { return world().Node }
func TriggerID() string      { return world().Trigger }
func IdempotencyKey() string { return world().Key }
func CorrelationID() string  { return world().Correlation }
func TraceParent() string    { return world().Trace }
func Attempt() uint32        { return world().AttemptNumber }
func DeadlineMs() uint64     { return world().Deadline }
func IsCancelled() bool      { return world().Cancel }
func Resumed() *Resumption   { return world().Again }

func Log(level uint32, message string, fields [][2]string) { world().Log(level, message, fields) }
func ResumeToken(bookmark string) string                   { return world().Token(bookmark) }
func Progress(fraction float64, note string)               { world().Progress(fraction, note) }
func Memory(path string) (*Payload, *Refusal)              { return world().Memory(path) }
func BlobSize(blob string) (uint64, *Refusal)              { return world().Size(blob) }
func BlobBegin() (uint32, *Refusal)                        { return world().Begin() }
func BlobFinish(writer uint32) (string, *Refusal)          { return world().Finish(writer) }
func Send(stimulus Stimulus) *Refusal                      { return world().Send(stimulus) }
func Fetch(request Request) (Response, *Refusal)           { return world().Fetch(request) }
func BlobAppend(writer uint32, bytes []byte) *Refusal      { return world().Append(writer, bytes) }
func BlobRead(blob string, offset uint64, length uint32) ([]byte, *Refusal) {
	return world().Read(blob, offset, length)
}
func Schedule(node string, atMs uint64, payload *Payload) *Refusal {
	return world().Schedule(node, atMs, payload)
}
