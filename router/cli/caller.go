package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"time"

	"signalbox/router/client"
	"signalbox/router/site"
)

// caller calls the operations that a plan needs, each within a time limit.
type caller struct {
	*session
	limit time.Duration

	// patience is how long a broker may be unavailable, since the time begun; it was just
	// created.
	patience time.Duration
	begun    time.Time
}

// The time that a broker has to connect, and between two attempts to compare it.
const (
	connectTime = 30 * time.Second
	retryAfter  = 200 * time.Millisecond
)

// maxList bounds a response, in bytes: a list may have a million entries.
const maxList = 1 << 30

// Call implements [site.API].
func (c *caller) Call(ctx context.Context, method, path string, query url.Values, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.limit, usualTime))
	defer cancel()
	request := client.Request{Method: method, Path: path, Query: query}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		request.Body = text
	}
	resp, err := c.Do(ctx, request)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	if result == nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxList))
	if err != nil {
		return &client.ConnectionError{Sent: true, Err: err}
	}
	return json.Unmarshal(text, result)
}

// compare makes a plan. A broker that was just created may take a moment to connect.
func (c *caller) compare(ctx context.Context, d *site.Document, o site.Options) (*site.Plan, error) {
	for {
		plan, err := site.Compare(ctx, c, d, o)
		answer, ok := errors.AsType[*client.Error](err)
		if !ok || answer.Code != "BROKER_UNAVAILABLE" || time.Since(c.begun) >= c.patience {
			return plan, explained(err)
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// explained returns the error of a comparison with its exit code.
func explained(err error) error {
	if _, ok := errors.AsType[*site.NotFoundError](err); ok {
		return &failure{code: CodeNotFound, err: err}
	}
	if errors.Is(err, site.ErrLockOut) {
		return &failure{code: CodeConflict, err: err}
	}
	return err
}
