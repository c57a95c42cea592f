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

// refusals are the subjects that a server does not let the user publish to, as it
// said on one connection. It says so before it answers what was sent after them.
type refusals struct {
	news chan struct{} // buffered by one; sent to when something was noted

	mu       sync.Mutex // guards the fields below
	last     error      // noted last
	subjects map[string]error
}

func newRefusals() *refusals {
	return &refusals{news: make(chan struct{}, 1), subjects: make(map[string]error)}
}

// note takes what a server said. The client calls it in the order of what was said,
// but from a goroutine of its own.
func (r *refusals) note(err error) {
	r.mu.Lock()
	r.last = err
	if subject, ok := quoted(err.Error()); ok && errors.Is(err, natsgo.ErrPermissionViolation) && len(r.subjects) < maxAnswers {
		r.subjects[subject] = reach.Explained(err, fmt.Sprintf("the user may not publish to %q: allow it at the server, or change the target", subject))
	}
	r.mu.Unlock()
	select {
	case r.news <- struct{}{}:
	default: // who waits has not looked yet
	}
}

// await waits until it knows what the connection has heard.
func (r *refusals) await(ctx context.Context, conn *natsgo.Conn) error {
	heard := conn.LastError()
	if !errors.Is(heard, natsgo.ErrPermissionViolation) {
		return nil
	}
	for r.latest() != heard { //nolint:errorlint // this one, and no other like it
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

// take gives what was noted, and begins anew.
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

// quoted finds the subject in what a server said of it: it has no other place than
// the text, between the first quotation mark and the last.
func quoted(said string) (string, bool) {
	_, rest, ok := strings.Cut(said, `"`)
	end := strings.LastIndexByte(rest, '"')
	if !ok || end < 0 {
		return "", false
	}
	return rest[:end], true
}
