package http

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	nethttp "net/http"
	"net/url"
	"slices"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/webhook"
)

// request is a request before it is sent. It is signed with the time of sending.
type request struct {
	id     string // the same for each attempt to deliver the same messages
	method string
	url    *url.URL
	header nethttp.Header
	body   []byte
}

// requestForOne builds the request for one message. The error is the reason why the message is
// rejected.
func (c *connector) requestForOne(m *topicMapping, e *bridges.Entry) (*request, error) {
	msg := e.MappingMessage()
	r, err := c.newRequest(m, msg)
	if err != nil {
		return nil, err
	}
	r.id = e.MessageID
	r.header.Set(messageIDHeader, e.MessageID)
	r.header.Set(topicHeader, url.PathEscape(e.Topic))
	if m.hasBody {
		r.body, err = m.body.Of(msg)
	}
	return r, err
}

// maxHeaders bounds the headers that a message makes, in bytes: few servers accept more than
// a tenth of it.
const maxHeaders = 256 << 10

// newRequest builds a request without its body.
func (c *connector) newRequest(m *topicMapping, msg *mapping.Message) (*request, error) {
	added, err := m.target.Append(nil, msg)
	if err != nil {
		return nil, err
	}
	path, query, err := location(c.base.EscapedPath(), string(added))
	if err != nil {
		return nil, fmt.Errorf("the topic mapping %w", err)
	}
	r := &request{method: m.Method, header: c.header.Clone()}
	if r.url, err = resolve(c.base, path, query); err != nil {
		return nil, fmt.Errorf("the topic mapping %w", err)
	}
	if m.hasBody {
		r.header.Set("Content-Type", m.ContentType)
	}
	total := 0
	for _, h := range m.headers {
		value, err := h.value.Append(nil, msg)
		total += len(value)
		switch {
		case err != nil:
			return nil, err
		case total > maxHeaders:
			return nil, fmt.Errorf("the message makes headers of more than %d bytes, which servers refuse", maxHeaders)
		case !isHeaderValue(string(value)):
			return nil, errors.New("the message makes a value of the header " + h.name + " that no header has")
		case len(value) > 0:
			r.header.Set(h.name, string(value))
		}
	}
	return r, nil
}

// requestForBatch builds the request for messages from their bodies.
func (c *connector) requestForBatch(m *topicMapping, messages []*bridges.Entry, bodies [][]byte) (*request, error) {
	r, err := c.newRequest(m, messages[0].MappingMessage())
	if err != nil {
		return nil, err
	}
	ids := make([]string, 0, len(messages))
	for _, e := range messages {
		ids = append(ids, e.MessageID)
	}
	r.id = webhook.ID(ids...)
	r.body = append([]byte{'['}, bytes.Join(bodies, []byte{','})...)
	r.body = append(r.body, ']')
	return r, nil
}

// Preview returns the request for one message, without its signature and the headers of the
// connection, which are secrets or the same for all messages.
func (c *connector) Preview(e *bridges.Entry) (p bridges.Preview, err error) {
	m := c.mappings[e.Mapping]
	var r *request
	if m.Batch {
		var body []byte
		if body, err = m.body.Of(e.MappingMessage()); err == nil {
			r, err = c.requestForBatch(m, []*bridges.Entry{e}, [][]byte{body})
		}
	} else {
		r, err = c.requestForOne(m, e)
	}
	if err != nil {
		return p, err
	}
	p.Destination, p.Payload = r.method+" "+r.url.String(), r.body
	for _, name := range slices.Sorted(maps.Keys(r.header)) {
		if value := r.header.Get(name); !slices.Equal(r.header[name], c.header[name]) {
			p.AddAttribute(name, []byte(value))
		}
	}
	return p, nil
}

// largeBody is the size from which a request waits for 100 Continue, so that a refusal is
// received even if the server then closes the connection.
const largeBody = 1 << 20

// attempt sends a request and evaluates the response.
func (c *connector) attempt(ctx context.Context, r *request) outcome {
	requestCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	resp, err := c.send(requestCtx, r)
	if err != nil {
		return c.noResponse(ctx, err)
	}
	defer resp.Body.Close()
	defer time.AfterFunc(bodyTimeout, cancel).Stop()
	c.lastContact.set(c.now())
	o := c.evaluate(resp)
	_, _ = io.CopyN(io.Discard, resp.Body, maxBody) // the status alone decides
	return o
}

// send sends a request once.
func (c *connector) send(ctx context.Context, r *request) (*nethttp.Response, error) {
	req, err := nethttp.NewRequestWithContext(ctx, r.method, r.url.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	req.Header = r.header
	if len(r.body) >= largeBody {
		req.Header.Set("Expect", "100-continue")
	}
	if c.sign != nil {
		c.sign.sign(req.Header, r.id, c.now(), r.body)
	}
	return c.client.Do(req)
}
