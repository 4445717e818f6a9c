package host

import "unsafe"

// answer is the last result of an export: the host reads it after the export has returned.
var answer *area

func answered(result *area) unsafe.Pointer {
	answer = result
	return result.pointer()
}

// Describe returns the description, which is JSON, to the host.
func Describe(document []byte) unsafe.Pointer {
	result := newArea(24)
	result.payload(0, Payload{Form: Text, Bytes: document})
	return answered(result)
}

// Executed returns the result of a node to the host. One of the two is nil.
func Executed(outcome *Outcome, failed *Failed) unsafe.Pointer {
	result := newArea(104)
	if failed != nil {
		result.byte(0, 1)
		result.byte(8, uint32(failed.Class))
		switch failed.Class {
		case Cancelled:
		case Retryable:
			result.failure(16, failed.Failure)
			result.optionalLong(88, failed.AfterMs)
		default:
			result.failure(16, failed.Failure)
		}
		return answered(result)
	}
	result.byte(8, uint32(outcome.Ending))
	switch outcome.Ending {
	case Done:
		result.payload(16, outcome.Output)
		result.texts(40, outcome.Ports)
	case Suspend:
		list := result.list(16, len(outcome.Bookmarks), 96)
		for i, bookmark := range outcome.Bookmarks {
			list.bookmark(i*96, bookmark)
		}
		result.optionalPayload(24, outcome.State)
	case Again:
		result.long(16, outcome.AfterMs)
		result.optionalPayload(24, outcome.State)
	}
	return answered(result)
}

func (a *area) bookmark(at int, bookmark Bookmark) {
	a.text(at, bookmark.Name)
	a.optionalPayload(at+8, bookmark.Match)
	a.optionalText(at+36, bookmark.Correlation)
	if bookmark.Private {
		a.byte(at+48, 1)
		a.byte(at+49, 1)
	}
	if bookmark.Keep {
		// Present, and false: resuming does not delete it.
		a.byte(at+50, 1)
	}
	a.optionalPayload(at+52, bookmark.Metadata)
	a.optionalLong(at+80, bookmark.ExpiresMs)
}

// Accepted returns the result of a consumer to the host. One of the two is nil.
func Accepted(decision *Decision, failed *Failed) unsafe.Pointer {
	result := newArea(88)
	if failed != nil {
		result.byte(0, 1)
		if failed.Class != Retryable {
			result.byte(8, 1)
		}
		result.failure(12, failed.Failure)
		return answered(result)
	}
	result.byte(8, uint32(decision.Verdict))
	switch decision.Verdict {
	case Execute:
		result.optionalPayload(16, decision.Vars)
	case Later:
		result.long(16, decision.AfterMs)
	case Reject:
		result.failure(16, decision.Reason)
	}
	return answered(result)
}

// Checked returns the findings of a check to the host.
func Checked(findings []Finding) unsafe.Pointer {
	result := newArea(8)
	list := result.list(0, len(findings), 48)
	for i, finding := range findings {
		at := i * 48
		if finding.IsWarning {
			list.byte(at, 1)
		}
		list.text(at+4, finding.Message)
		list.optionalText(at+12, finding.Pointer)
		list.position(at+24, finding.Position)
	}
	return answered(result)
}
