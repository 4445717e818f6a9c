package windlass

import (
	"errors"
	"fmt"
	"time"

	"windlass/internal/host"
	"windlass/internal/value"
)

// Bookmark is an event that a node waits for. Only Name is needed.
type Bookmark struct {
	// Name is the name of the stimulus; compared exactly.
	Name string
	// Match is the value that the `match` of the stimulus has to equal.
	Match any
	// Correlation limits it to stimuli of this correlation.
	Correlation string
	// Private limits it to the token of Context.ResumeToken.
	Private bool
	// Keep keeps the bookmark when it is resumed.
	Keep bool
	// Metadata comes back unread with the resumption.
	Metadata any
	// Expires is when the wait ends by itself; zero means never.
	Expires time.Time
}

// wait is the error by which a node suspends or asks for another call.
type wait struct {
	ending    host.Ending
	after     time.Duration
	state     any
	bookmarks []Bookmark
}

func (w *wait) Error() string {
	if w.ending == host.Again {
		return fmt.Sprintf("the node asks to be called again after %s", w.after)
	}
	return fmt.Sprintf("the node waits for %d bookmarks", len(w.bookmarks))
}

// Suspend is the error by which a node waits until one of the bookmarks is resumed or expires. The
// host keeps the state, which may be nil, for the next call.
func Suspend(state any, bookmarks ...Bookmark) error {
	return &wait{ending: host.Suspend, state: state, bookmarks: bookmarks}
}

// Again is the error by which a node asks to be called again after a delay. The host keeps the state,
// which may be nil, for the next call.
func Again(after time.Duration, state any) error {
	return &wait{ending: host.Again, after: after, state: state}
}

// ended turns the error of a node into its outcome or failure.
func ended(err error) (*host.Outcome, *host.Failed) {
	var waits *wait
	if !errors.As(err, &waits) {
		return nil, failure(err)
	}
	outcome, err := waits.outcome()
	if err != nil {
		return nil, failure(Permanent("the wait of the node is not possible: %w", err))
	}
	return outcome, nil
}

func (w *wait) outcome() (*host.Outcome, error) {
	state, err := value.EncodeOptional(w.state)
	if err != nil {
		return nil, fmt.Errorf("the state has no JSON: %w", err)
	}
	outcome := &host.Outcome{Ending: w.ending, State: state}
	if w.ending == host.Again {
		outcome.AfterMs, err = milliseconds(w.after)
		return outcome, err
	}
	for _, it := range w.bookmarks {
		made := host.Bookmark{Name: it.Name, Correlation: it.Correlation, Private: it.Private, Keep: it.Keep}
		if made.Match, err = value.EncodeOptional(it.Match); err != nil {
			return nil, fmt.Errorf("Match of the bookmark %q has no JSON: %w", it.Name, err)
		}
		if made.Metadata, err = value.EncodeOptional(it.Metadata); err != nil {
			return nil, fmt.Errorf("Metadata of the bookmark %q has no JSON: %w", it.Name, err)
		}
		if !it.Expires.IsZero() {
			instant, err := host.Instant(it.Expires)
			if err != nil {
				return nil, err
			}
			made.ExpiresMs = &instant
		}
		outcome.Bookmarks = append(outcome.Bookmarks, made)
	}
	return outcome, nil
}

func milliseconds(after time.Duration) (uint64, error) {
	if after < 0 {
		return 0, fmt.Errorf("the delay %s is negative", after)
	}
	return uint64(after.Milliseconds()), nil
}
