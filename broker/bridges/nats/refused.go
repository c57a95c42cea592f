package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	natsgo "github.com/nats-io/nats.go"

	"signalbox/broker/bridges/reach"
)

// refusals collects the subjects that the user may not publish to, as the server reports on one
// connection. The server sends a report before it responds to later messages.
type refusals struct {
	news chan struct{} // buffered by one; receives when something was added

	mu       sync.Mutex // guards the fields below
	last     error      // the last error added
	subjects map[string]error
}

func newRefusals() *refusals {
	return &refusals{news: make(chan struct{}, 1), subjects: make(map[string]error)}
}

// note adds an error of the server. The client calls it in the order of the errors, but in
// another goroutine.
func (r *refusals) note(err error) {
	r.mu.Lock()
	r.last = err
	if subject, ok := quoted(err.Error()); ok && errors.Is(err, natsgo.ErrPermissionViolation) && len(r.subjects) < maxAnswers {
		r.subjects[subject] = reach.Explained(err, fmt.Sprintf("the user may not publish to %q: allow it at the server, or change the target", subject))
	}
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default: // a notification is pending already
	}
}

// await waits until the last error that the connection has received was added.
func (r *refusals) await(ctx context.Context, conn *natsgo.Conn) error {
	heard := conn.LastError()
	if !errors.Is(heard, natsgo.ErrPermissionViolation) {
		return nil
	}
	for r.latest() != heard { //nolint:errorlint // this very error, not an equal one
		select {
		case <-r.news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r *refusals) latest() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// take returns and removes what was added.
func (r *refusals) take() map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.subjects) == 0 {
		return nil
	}
	taken := r.subjects
	r.subjects = make(map[string]error)
	return taken
}

// quoted returns the subject in the server's error, which is only in its text, between the first
// quotation mark and the last.
func quoted(said string) (string, bool) {
	_, rest, ok := strings.Cut(said, `"`)
	end := strings.LastIndexByte(rest, '"')
	if !ok || end < 0 {
		return "", false
	}
	return rest[:end], true
}
