package influxdb

import (
	"context"
	"fmt"
	nethttp "net/http"

	"signalbox/broker/bridges"
)

// connector is a connection to InfluxDB.
type connector struct {
	*client
	plans map[string]*plan // by topic mapping
}

// Connect writes an empty body, for which the server checks the credentials and the database.
func (c *connector) Connect(ctx context.Context) error {
	a, err := c.do(ctx, nethttp.MethodPost, c.client.write, nil)
	switch {
	case err != nil:
		return err
	case a.status == nethttp.StatusBadRequest: // version 2 refuses an empty body, after these checks
		return nil
	}
	return c.refusal(a)
}

// Check pings the server.
func (c *connector) Check(ctx context.Context) error {
	a, err := c.do(ctx, nethttp.MethodGet, c.ping, nil)
	if err == nil && a.status >= 500 {
		err = c.refusal(a)
	}
	if err != nil {
		return &bridges.Lost{Err: err}
	}
	return nil
}

// Close closes idle connections.
func (c *connector) Close(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// refusal returns the error for a response, nil if the request succeeded.
func (c *connector) refusal(a response) error {
	switch {
	case a.status >= 200 && a.status < 300:
		return nil
	case a.status >= 300 && a.status < 400:
		return fmt.Errorf("the server redirects (%d): give the URL of the InfluxDB itself", a.status)
	case a.status == nethttp.StatusUnauthorized:
		return fmt.Errorf("the server refuses this client: check the credentials or the token (%s)", a)
	case a.status == nethttp.StatusForbidden:
		return fmt.Errorf("the user or token may not write to %s: allow it at the server (%s)", c.destination, a)
	case a.status == nethttp.StatusNotFound:
		return fmt.Errorf("the server has not found %s: create it, or check the names and the version (%s)", c.destination, a)
	case a.status == nethttp.StatusTooManyRequests:
		return fmt.Errorf("the server accepts no more requests for now (%s)", a)
	}
	return fmt.Errorf("the server did not write to %s (%s)", c.destination, a)
}

// String returns the status. The server's own text does not belong into an error: see
// [bridges.Result].
func (a response) String() string { return fmt.Sprintf("status %d", a.status) }

// Deliver writes a batch.
func (c *connector) Deliver(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error {
	lines := make([][]byte, len(batch))
	var all []int
	for i, e := range batch {
		line, err := c.plans[e.Mapping].line(e)
		if err != nil {
			results[i] = bridges.Result{State: bridges.Rejected, Reason: err.Error()}
			continue
		}
		lines[i] = line
		all = append(all, i)
	}
	return c.deliver(ctx, lines, all, results)
}

// deliver writes some of the lines. If the server refuses one of them, it refuses the request but
// may have written others; the lines are then written again in halves, recursively. A point that
// is written twice is one point.
func (c *connector) deliver(ctx context.Context, lines [][]byte, some []int, results []bridges.Result) error {
	if len(some) == 0 {
		return nil
	}
	part := make([][]byte, len(some))
	for k, i := range some {
		part[k] = lines[i]
	}
	body, err := c.pack(part)
	if err != nil {
		return fmt.Errorf("compress points: %w", err)
	}
	a, err := c.do(ctx, nethttp.MethodPost, c.client.write, body)
	if err != nil {
		return &bridges.Lost{Err: err}
	}
	switch a.status {
	case nethttp.StatusBadRequest, nethttp.StatusUnprocessableEntity, nethttp.StatusRequestEntityTooLarge:
		if len(some) == 1 {
			results[some[0]] = bridges.Result{State: bridges.Rejected, Reason: "InfluxDB does not accept the point (" + a.String() + ")", Response: a.text}
			return nil
		}
		half := len(some) / 2
		if err := c.deliver(ctx, lines, some[:half], results); err != nil {
			return err
		}
		return c.deliver(ctx, lines, some[half:], results)
	}
	if err := c.refusal(a); err != nil {
		return c.asLost(a, err)
	}
	for _, i := range some {
		results[i] = bridges.Result{State: bridges.Delivered}
	}
	return nil
}

// asLost returns an error that makes the engine connect again if a new connection shows whether
// the cause persists.
func (c *connector) asLost(a response, err error) error {
	switch a.status {
	case nethttp.StatusUnauthorized, nethttp.StatusForbidden, nethttp.StatusNotFound:
		return &bridges.Lost{Err: err}
	}
	return err
}
