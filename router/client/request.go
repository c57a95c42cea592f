package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// Options name a service and how to trust it.
type Options struct {
	URL   string
	Token string
	CAs   []byte // PEM; nil for those of the system
	// Certificate is the PEM of the only certificate that is accepted, whatever name it
	// was issued for; nil for any that CAs verify.
	Certificate []byte
}

// Connect returns a client of the service. It makes no connection yet.
func Connect(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not the URL of a service, such as https://signalbox.example:8080", redacted(o.URL))
	}
	conf, err := o.tls()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = transport.MaxIdleConns // there is one host
	if conf != nil {
		transport.TLSClientConfig = conf
	}
	c := newClient(o.URL, o.Token, transport)
	c.http.Timeout = 0 // a context bounds each call; a stream of events has no end
	return c, nil
}

// redacted returns a text in the place of a URL without what may be a password.
func redacted(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return "..." + text[i:]
	}
	return text
}

// tls returns the settings for TLS, nil for the usual ones.
func (o Options) tls() (*tls.Config, error) {
	switch {
	case o.Certificate != nil:
		return pinned(o.Certificate)
	case o.CAs == nil:
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(o.CAs) {
		return nil, errors.New("the file of certificate authorities contains no certificate")
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// pinned accepts one certificate.
func pinned(text []byte) (*tls.Config, error) {
	want, err := firstCertificate(text)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 || !bytes.Equal(s.PeerCertificates[0].Raw, want.Raw) {
				return errors.New("the service presents another certificate than the configured one")
			}
			return nil
		}}, nil
}

// Request is a call of an operation.
type Request struct {
	Method, Path string
	Query        url.Values
	Body         []byte // JSON, nil for none
}

// Response is a successful response. Its body must be closed.
type Response struct {
	Status int
	Total  int // entries of the whole list, -1 if the response is not a list
	Body   io.ReadCloser
}

// ConnectionError is a call without a response.
type ConnectionError struct {
	Sent bool // the request may have been processed
	Err  error
}

// Error returns what failed.
func (e *ConnectionError) Error() string {
	if e.Sent {
		return "the connection was lost before the response: " + e.Err.Error()
	}
	return "the service cannot be reached: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ConnectionError) Unwrap() error { return e.Err }

// Do calls an operation. A failure is an *Error if it is from the service, and a
// *ConnectionError if there was no response.
func (c *Client) Do(ctx context.Context, request Request) (*Response, error) {
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	r, err := c.newRequest(traced, request)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the URL, which may hold what only the log should
		}
		return nil, &ConnectionError{Sent: sent.Load(), Err: err}
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return &Response{Status: resp.StatusCode, Total: total(resp.Header), Body: resp.Body}, nil
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, &ConnectionError{Sent: true, Err: err}
	}
	return nil, failure(resp, answer)
}

func (c *Client) newRequest(ctx context.Context, request Request) (*http.Request, error) {
	address := c.base + request.Path
	if len(request.Query) > 0 {
		address += "?" + request.Query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, request.Method, address, bytes.NewReader(request.Body))
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if request.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// total returns the number of entries of a list, -1 if there is none.
func total(h http.Header) int {
	n, err := strconv.Atoi(h.Get("X-Total-Count"))
	if err != nil {
		return -1
	}
	return n
}
