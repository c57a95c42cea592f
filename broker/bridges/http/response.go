package http

import (
	"context"
	"errors"
	"io"
	nethttp "net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/target"
)

const (
	maxExcerpt    = 200       // maximum excerpt of a response in an error text, in bytes
	maxBody       = 256 << 10 // how much of a body is read so that the connection can be reused
	maxRetryDelay = 5 * time.Minute

	bodyTimeout = time.Second // how long a body is read after the status
)

// outcome is the result of an attempt.
type outcome struct {
	state    bridges.State
	reason   string
	response string // the beginning of the server's response
	status   int    // 0 without a response
	err      error  // set if the message is to be sent again
	stop     bool   // send nothing else in this delivery
}

// evaluate evaluates the status of a response. The body does not matter: a server that fails while
// it sends the body has accepted the message.
func (c *connector) evaluate(resp *nethttp.Response) outcome {
	o := outcome{status: resp.StatusCode}
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300 || slices.Contains(c.options.SuccessStatus, code):
		o.state = bridges.Delivered
	case code >= 500 || slices.Contains(transient, code) || slices.Contains(c.options.RetryStatus, code):
		o.reason, o.response = statusReason(code)+advice[code], c.excerpt(resp)
		o.err = errors.New(o.reason)
		o.stop = slices.Contains(connectionWide, code)
		c.retryDelay.update(c.now(), resp)
	case code >= 300 && code < 400:
		o.state = bridges.Rejected
		o.reason = statusReason(code) + "; redirections are not followed: give the right URL"
		o.response = "Location: " + c.redacted(resp.Header.Get("Location"))
	default:
		o.state, o.reason, o.response = bridges.Rejected, statusReason(code), c.excerpt(resp)
	}
	return o
}

var (
	// transient are the statuses below 500 that concern the moment or the client, not the
	// message.
	transient = []int{401, 407, 408, 425, 429}
	// connectionWide are the statuses that other requests would get too.
	connectionWide = []int{401, 407, 429, 503}
	// advice is added to the error text.
	advice = map[int]string{
		401: " (check credentials, token and secretHeaders)",
		407: " (a proxy requires credentials, which the bridge cannot send)",
	}
)

func status(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + nethttp.StatusText(code))
}

// statusReason returns the error text for a status.
func statusReason(code int) string { return "the server answered " + status(code) }

// excerpt returns the beginning of a response's body.
func (c *connector) excerpt(resp *nethttp.Response) string {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 2*maxExcerpt)) // as much as arrives
	return c.redacted(string(text))
}

// redacted returns the beginning of a server's text on one line, without secrets.
func (c *connector) redacted(text string) string {
	return target.Excerpt(c.redact.Replace(text), maxExcerpt)
}

// noResponse returns the outcome of an attempt without a response.
func (c *connector) noResponse(ctx context.Context, err error) outcome {
	c.lastContact.clear()
	c.client.CloseIdleConnections()
	if ctx.Err() != nil {
		const reason = "the server did not answer in time; it may have taken the message"
		return outcome{reason: reason, err: errors.New(reason), stop: true}
	}
	reason := c.explain(err)
	return outcome{reason: reason, response: c.redact.Replace(target.Response(err)), err: &bridges.Lost{Err: target.Explain(err, reason)}, stop: true}
}
