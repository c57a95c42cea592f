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
	"signalbox/broker/bridges/reach"
)

const (
	maxExcerpt = 200       // maximum excerpt of a response in an error text, in bytes
	maxAnswer  = 256 << 10 // how much of a body is read so that the connection can be reused
	maxPause   = 5 * time.Minute

	answerTime = time.Second // how long a body is read after the status
)

// outcome is the result of an attempt.
type outcome struct {
	state  bridges.State
	reason string
	answer string // the beginning of the server's response
	status int    // 0 without a response
	err    error  // set if the message is to be sent again
	halt   bool   // send nothing else in this delivery
}

// attempt sends a request and evaluates the response.
func (c *connector) attempt(ctx context.Context, r *request) outcome {
	whole, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.send(whole, r)
	if err != nil {
		return c.unanswered(ctx, err)
	}
	defer resp.Body.Close()
	defer time.AfterFunc(answerTime, cancel).Stop()
	c.reached.note(c.now())
	o := c.judge(resp)
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // the status alone decides
	return o
}

// judge evaluates the status of a response. The body does not matter: a server that fails while
// it sends the body has accepted the message.
func (c *connector) judge(resp *nethttp.Response) outcome {
	o := outcome{status: resp.StatusCode}
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300 || slices.Contains(c.options.SuccessStatus, code):
		o.state = bridges.Delivered
	case code >= 500 || slices.Contains(transient, code) || slices.Contains(c.options.RetryStatus, code):
		o.reason, o.answer = answered(code)+advice[code], c.excerpt(resp)
		o.err = errors.New(o.reason)
		o.halt = slices.Contains(general, code)
		c.pause.ask(c.now(), resp)
	case code >= 300 && code < 400:
		o.state = bridges.Rejected
		o.reason = answered(code) + "; redirections are not followed: give the right URL"
		o.answer = "Location: " + c.clean(resp.Header.Get("Location"))
	default:
		o.state, o.reason, o.answer = bridges.Rejected, answered(code), c.excerpt(resp)
	}
	return o
}

var (
	// transient are the statuses below 500 that concern the moment or the client, not the
	// message.
	transient = []int{401, 407, 408, 425, 429}
	// general are the statuses that other requests would get too.
	general = []int{401, 407, 429, 503}
	// advice is added to the error text.
	advice = map[int]string{
		401: " (check credentials, token and secretHeaders)",
		407: " (a proxy wants credentials, which the bridge cannot give)",
	}
)

func status(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + nethttp.StatusText(code))
}

// answered returns the error text for a status.
func answered(code int) string { return "the server answered " + status(code) }

// excerpt returns the beginning of a response's body.
func (c *connector) excerpt(resp *nethttp.Response) string {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 2*maxExcerpt)) // as much as arrives
	return c.clean(string(text))
}

// clean returns the beginning of a server's text on one line, without secrets.
func (c *connector) clean(text string) string {
	return reach.Excerpt(c.scrub.Replace(text), maxExcerpt)
}

// unanswered returns the outcome of an attempt without a response.
func (c *connector) unanswered(ctx context.Context, err error) outcome {
	c.reached.forget()
	c.client.CloseIdleConnections()
	if ctx.Err() != nil {
		const reason = "the server did not answer in time; it may have taken the message"
		return outcome{reason: reason, err: errors.New(reason), halt: true}
	}
	reason := c.explain(err)
	return outcome{reason: reason, answer: c.scrub.Replace(reach.Answer(err)), err: &bridges.Lost{Err: reach.Explained(err, reason)}, halt: true}
}
