package http

import (
	"context"
	"errors"
	nethttp "net/http"
	"strconv"
	"sync"
	"time"
)

// retryDelay is the delay that the server has requested. It is safe for concurrent use.
type retryDelay struct {
	mu    sync.Mutex
	until time.Time
}

// update evaluates the Retry-After header (RFC 9110, section 10.2.3).
func (p *retryDelay) update(now time.Time, resp *nethttp.Response) {
	wait := parseRetryAfter(now, resp.Header.Get("Retry-After"))
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := now.Add(wait); wait > 0 && until.After(p.until) {
		p.until = until
	}
}

func parseRetryAfter(now time.Time, text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryDelay)
	}
	if at, err := nethttp.ParseTime(text); err == nil {
		return min(at.Sub(now), maxRetryDelay)
	}
	return 0
}

// left returns the rest of the delay.
func (p *retryDelay) left(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.until.Sub(now)
}

// wait waits for the end of the delay. It returns an error at once if the context would end too
// early.
func (p *retryDelay) wait(ctx context.Context, now time.Time) error {
	left := p.left(now)
	if left <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && left > deadline.Sub(now)/2 {
		return errors.New("the server asks to wait for " + left.Round(time.Second).String() + " (Retry-After)")
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errors.New("the server asks to wait (Retry-After)")
	}
}

// lastContact is the time of the server's last response. It is safe for concurrent use.
type lastContact struct {
	mu sync.Mutex
	at time.Time
}

func (s *lastContact) set(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = now
}

func (s *lastContact) clear() { s.set(time.Time{}) }

// within reports whether it was less than d ago.
func (s *lastContact) within(now time.Time, d time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.at.IsZero() && now.Sub(s.at) < d
}
