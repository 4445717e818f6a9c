// Package refused turns errors of the host into errors with a class and a code.
package refused

import (
	"windlass"
	"windlass/internal/host"
)

// class is the class of a case of the contract; of every other it is ClassOther.
var class = map[string]windlass.Class{
	"denied": windlass.ClassPermanent, "unavailable": windlass.ClassPermanent, "limit": windlass.ClassPermanent,
	"too-large": windlass.ClassPermanent, "no-secret": windlass.ClassPermanent, "not-found": windlass.ClassPermanent,
	"invalid": windlass.ClassInvalid, "invalid-path": windlass.ClassInvalid,
	"timeout": windlass.ClassRetryable, "unreachable": windlass.ClassRetryable,
}

// By returns the error of a refused call; nil if there is no refusal. The code is `area.case`, and
// the name of the call stands before the message.
func By(area, called string, refusal *host.Refusal) error {
	if refusal == nil {
		return nil
	}
	message := called + ": " + refusal.Error()
	return &windlass.Error{Class: class[refusal.Case], Code: area + "." + refusal.Case, Message: message}
}
