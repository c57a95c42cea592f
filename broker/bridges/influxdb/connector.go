package influxdb

import (
	"context"
	"fmt"
	nethttp "net/http"

	"signalbox/broker/bridges"
)

// connector is one connection to InfluxDB.
type connector struct {
	*client
	plans map[string]*plan // by topic mapping
}

// Connect writes nothing to see whether something could be written: the server
// looks at the credentials and the database all the same.
func (c *connector) Connect(ctx context.Context) error {
	a, err := c.do(ctx, nethttp.MethodPost, c.client.write, nil)
	switch {
	case err != nil:
		return err
	case a.status == nethttp.StatusBadRequest: // version 2 does not like it when there is nothing
		return nil
	}
	return c.refusal(a)
}

// Check asks whether the server is there.
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

// Close ends the connection.
func (c *connector) Close(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// refusal says why a request was not carried out, nil if it was.
func (c *connector) refusal(a answer) error {
	switch {
	case a.status >= 200 && a.status < 300:
		return nil
	case a.status >= 300 && a.status < 400:
		return fmt.Errorf("the server answers that it is elsewhere (%d): give the URL of the InfluxDB itself", a.status)
	case a.status == nethttp.StatusUnauthorized:
		return fmt.Errorf("the server does not let this client in: check the credentials or the token (%s)", a)
	case a.status == nethttp.StatusForbidden:
		return fmt.Errorf("the user or token may not write to %s: allow it at the server (%s)", c.place, a)
	case a.status == nethttp.StatusNotFound:
		return fmt.Errorf("the server has not found %s: create it, or check the names and the version (%s)", c.place, a)
	case a.status == nethttp.StatusTooManyRequests:
		return fmt.Errorf("the server takes no more for now (%s)", a)
	}
	return fmt.Errorf("the server did not write to %s (%s)", c.place, a)
}

// String returns the status for a sentence, which does not hold what the server
// said: see [bridges.Result].
func (a answer) String() string { return fmt.Sprintf("status %d", a.status) }

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

// deliver writes some lines. Where the server does not like one of them it says so
// of all, and may have written others: halves are written anew, down to the one. A
// point that is written twice is one.
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
			results[some[0]] = bridges.Result{State: bridges.Rejected, Reason: "InfluxDB does not take the point (" + a.String() + ")", Answer: a.text}
			return nil
		}
		half := len(some) / 2
		if err := c.deliver(ctx, lines, some[:half], results); err != nil {
			return err
		}
		return c.deliver(ctx, lines, some[half:], results)
	}
	if err := c.refusal(a); err != nil {
		return c.lasting(a, err)
	}
	for _, i := range some {
		results[i] = bridges.Result{State: bridges.Delivered}
	}
	return nil
}

// lasting tells the engine to connect anew where that shows whether the cause is
// gone.
func (c *connector) lasting(a answer, err error) error {
	switch a.status {
	case nethttp.StatusUnauthorized, nethttp.StatusForbidden, nethttp.StatusNotFound:
		return &bridges.Lost{Err: err}
	}
	return err
}
