package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	natsgo "github.com/nats-io/nats.go"

	"signalbox/broker/bridges/target"
)

// refusals collects the subjects that the user may not publish to, as the server reports on one
// connection. The server sends a report before it responds to later messages.
type refusals struct {
	updated chan struct{} // buffered by one; receives when something was added

	mu       sync.Mutex // guards the fields below
	last     error      // the last error added
	subjects map[string]error
}

func newRefusals() *refusals {
	return &refusals{updated: make(chan struct{}, 1), subjects: make(map[string]error)}
}

// note adds an error of the server. The client calls it in the order of the errors, but in
// another goroutine.
func (r *refusals) note(err error) {
	r.mu.Lock()
	r.last = err
	if subject, ok := quotedSubject(err.Error()); ok && errors.Is(err, natsgo.ErrPermissionViolation) && len(r.subjects) < maxAcks {
		r.subjects[subject] = target.Explain(err, fmt.Sprintf("the user may not publish to %q: allow it at the server, or change the target", subject))
	}
	r.mu.Unlock()
	select {
	case r.updated <- struct{}{}:
	default: // a notification is pending already
	}
}

// await waits until the last error that the connection has received was added.
func (r *refusals) await(ctx context.Context, conn *natsgo.Conn) error {
	lastErr := conn.LastError()
	if !errors.Is(lastErr, natsgo.ErrPermissionViolation) {
		return nil
	}
	for r.latest() != lastErr { //nolint:errorlint // this very error, not an equal one
		select {
		case <-r.updated:
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

// quotedSubject returns the subject in the server's error, which is only in its text, between the
// first quotation mark and the last.
func quotedSubject(said string) (string, bool) {
	_, rest, ok := strings.Cut(said, `"`)
	end := strings.LastIndexByte(rest, '"')
	if !ok || end < 0 {
		return "", false
	}
	return rest[:end], true
}
