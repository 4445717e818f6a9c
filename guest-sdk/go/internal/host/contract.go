// Package host is the contract of the host (wit/) as Go types and functions.
//
// Under wasip1 the functions are imports of the component. The linker keeps an import only if the
// plugin reaches its function, so a plugin that sends no request does not import HTTP. In an
// ordinary test the functions ask a World.
package host

import (
	"fmt"
	"time"
)

// Form says how a payload holds its bytes.
type Form uint32

// The forms, in the order of the contract.
const (
	Inline Form = iota
	Text
	Blob
)

// Payload is a value between plugin and host. An empty ContentType means JSON. Bytes are the
// content in UTF-8 if Form is Text, and a reference if Form is Blob.
type Payload struct {
	ContentType string
	Form        Form
	Bytes       []byte
}

// Position is a place in a source text, from 1. Without a Source it is in the configuration.
type Position struct {
	Source       string
	Line, Column uint32
}

// Failure explains a failure. Details may be nil, Stack empty.
type Failure struct {
	Message  string
	Details  *Payload
	Stack    string
	Position *Position
}

// Class is the class of a failure.
type Class uint32

// The classes, in the order of the contract.
const (
	Invalid Class = iota
	Retryable
	Permanent
	Cancelled
	Other
)

// Failed is a failed call. AfterMs is the delay of a retry, if the class is Retryable.
type Failed struct {
	Class   Class
	Failure Failure
	AfterMs *uint64
}

// Ending says how a successful call of a node ends.
type Ending uint32

// The endings, in the order of the contract.
const (
	Done Ending = iota
	Suspend
	Again
)

// Outcome is the result of a node: of Done the Output and the Ports, of Suspend the Bookmarks and
// the State, of Again the delay and the State.
type Outcome struct {
	Ending    Ending
	Output    Payload
	Ports     []string
	Bookmarks []Bookmark
	State     *Payload
	AfterMs   uint64
}

// Bookmark is an event that a node waits for. ExpiresMs is an instant in milliseconds since 1970.
type Bookmark struct {
	Name, Correlation string
	Match, Metadata   *Payload
	Private, Keep     bool
	ExpiresMs         *uint64
}

// Verdict is the kind of a decision of a consumer.
type Verdict uint32

// The verdicts, in the order of the contract.
const (
	Execute Verdict = iota
	Handled
	Later
	Reject
)

// Decision is the result of a consumer.
type Decision struct {
	Verdict Verdict
	Vars    *Payload
	AfterMs uint64
	Reason  Failure
}

// Finding is a mistake in a configuration. An empty Pointer means all of it.
type Finding struct {
	IsWarning        bool
	Message, Pointer string
	Position         *Position
}

// Reason says why a node is called again.
type Reason uint32

// The reasons, in the order of the contract.
const (
	ByAgain Reason = iota
	ByResumed
	ByExpired
	ByCancelled
	ByOther
)

// Resumption is a later call of a node. Name is the bookmark, or the text of another reason.
type Resumption struct {
	Reason          Reason
	Name            string
	Input           Payload
	Metadata, State *Payload
	Phase           uint32
}

// Header is a header of a request. The value of a secret one is a handle.
type Header struct {
	Name, Value string
	IsSecret    bool
}

// Request is an HTTP request. A nil Body is none. The host follows no redirect.
type Request struct {
	Method, URL         string
	Headers             []Header
	Body                []byte
	TimeoutMs, MaxBytes *uint64
}

// Response is an HTTP response, with pairs of names and values as headers.
type Response struct {
	Status  uint16
	Headers [][2]string
	Body    []byte
}

// Stimulus is an event that a node sends. Empty and nil members are left out.
type Stimulus struct {
	Name, Correlation, Run string
	Match, Input           *Payload
}

// Refusal is an error of the host: the name of its case in the contract, and its text or number.
type Refusal struct {
	Case, Detail string
}

func (r *Refusal) Error() string {
	if r.Detail == "" {
		return r.Case
	}
	return fmt.Sprintf("%s: %s", r.Case, r.Detail)
}

// The cases of errors, in the order of the contract.
var (
	memoryCases = []string{"invalid-path", "too-large", "other"}
	blobCases   = []string{"not-found", "limit", "other"}
	eventCases  = []string{"unavailable", "invalid", "limit", "other"}
	httpCases   = []string{"denied", "invalid", "timeout", "too-large", "unreachable", "no-secret", "limit", "other"}
)

// Instant is a time in milliseconds since 1970.
func Instant(at time.Time) (uint64, error) {
	if ms := at.UnixMilli(); ms >= 0 {
		return uint64(ms), nil
	}
	return 0, fmt.Errorf("the time %s is before 1970", at.Format(time.RFC3339))
}
