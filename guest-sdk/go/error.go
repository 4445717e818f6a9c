package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"windlass/internal/host"
	"windlass/internal/value"
)

// Class is the class of a failure, by which the retry policies of a workflow choose.
type Class int

// The classes. ClassOther is that of errors without a class; the host treats it as permanent.
const (
	ClassOther Class = iota
	ClassInvalid
	ClassRetryable
	ClassPermanent
	ClassCancelled
)

var classes = map[Class]host.Class{
	ClassInvalid: host.Invalid, ClassRetryable: host.Retryable,
	ClassPermanent: host.Permanent, ClassCancelled: host.Cancelled,
}

// Error is a failure with a class. Invalid, Retryable and Permanent make one.
type Error struct {
	Class Class
	// Code is for programs, such as `http.denied`; it becomes the member `code` of the details.
	Code string
	// Message is one sentence for people. The host keeps 4 KiB.
	Message string
	// Details are data for conditions and programs: JSON of at most 16 KiB.
	Details any
	// After is the delay after which a retry makes sense; zero means that the policy decides.
	After time.Duration
	// Position is a place in a text of the configuration.
	Position *Position

	cause error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the error that the message was made with.
func (e *Error) Unwrap() error { return e.cause }

// ErrCancelled says that the node noticed that it was cancelled.
var ErrCancelled = &Error{Class: ClassCancelled, Message: "cancelled"}

// Invalid is a failure by a wrong configuration or input: a retry is useless. The arguments are those
// of fmt.Errorf.
func Invalid(format string, arguments ...any) *Error {
	return classed(ClassInvalid, fmt.Errorf(format, arguments...))
}

// Retryable is a failure that a later attempt may repair.
func Retryable(format string, arguments ...any) *Error {
	return classed(ClassRetryable, fmt.Errorf(format, arguments...))
}

// Permanent is a failure that no retry repairs.
func Permanent(format string, arguments ...any) *Error {
	return classed(ClassPermanent, fmt.Errorf(format, arguments...))
}

func classed(class Class, err error) *Error {
	return &Error{Class: class, Message: err.Error(), cause: err}
}

// failure turns an error into a failure of the contract.
func failure(err error) *host.Failed {
	var own *Error
	if !errors.As(err, &own) {
		class := host.Other
		if errors.Is(err, context.Canceled) {
			class = host.Cancelled
		}
		return &host.Failed{Class: class, Failure: host.Failure{Message: message(err)}}
	}
	failed := &host.Failed{Class: host.Other, Failure: host.Failure{Message: message(err), Position: own.Position.made()}}
	if class, found := classes[own.Class]; found {
		failed.Class = class
	}
	if own.After > 0 {
		after := uint64(own.After.Milliseconds())
		failed.AfterMs = &after
	}
	details, err := own.details()
	if err != nil {
		failed.Failure.Message += " (and its details have no JSON: " + err.Error() + ")"
	}
	failed.Failure.Details = details
	return failed
}

func message(err error) string {
	if text := err.Error(); text != "" {
		return text
	}
	return fmt.Sprintf("an error of the type %T without a message", err)
}

// details are the details with the code, if they are an object or absent.
func (e *Error) details() (*host.Payload, error) {
	details, err := value.EncodeOptional(e.Details)
	if err != nil || e.Code == "" {
		return details, err
	}
	members := map[string]json.RawMessage{}
	if details != nil && json.Unmarshal(details.Bytes, &members) != nil {
		return details, nil
	}
	if _, found := members["code"]; found {
		return details, nil
	}
	code, err := value.Marshal(e.Code)
	if err != nil {
		return details, err
	}
	members["code"] = code
	return value.EncodeOptional(members)
}

func (p *Position) made() *host.Position {
	if p == nil {
		return nil
	}
	return &host.Position{Source: p.Source, Line: max(p.Line, 1), Column: max(p.Column, 1)}
}
