// Package client calls the HTTP API of a running service, for the commands of the
// command line: those of package cli call any operation with Do.
//
// It must not import the server's packages: it knows only what every caller knows of
// the API. Of this module it shares only the types in package broker.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client calls one service. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
}

const (
	timeout      = 10 * time.Minute // of a whole call: an import may be large
	probeTimeout = 10 * time.Second // of a health check
	maxAnswer    = 1 << 28          // bytes
)

// New returns a client of the service at base, as in "http://127.0.0.1:8080", that
// authenticates with a session token or a project token.
func New(base, token string) *Client {
	return newClient(base, token, http.DefaultTransport)
}

// Local returns a client without credentials of the service that listens on this
// machine at listen. With TLS it accepts any certificate: certificates are not issued
// for the address that it uses.
func Local(listen string, secure bool) *Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	return newClient(LocalURL(listen, secure), "", transport)
}

// LocalURL returns the URL of a service that listens on this machine at listen.
func LocalURL(listen string, secure bool) string {
	if secure {
		return "https://" + reachable(listen)
	}
	return "http://" + reachable(listen)
}

func newClient(base, token string, transport http.RoundTripper) *Client {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: strings.TrimRight(base, "/"), token: token,
		http: &http.Client{Timeout: timeout, Transport: transport, CheckRedirect: stay}}
}

// reachable returns an address to dial for an address to listen on.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port)
}

// Healthcheck returns an error if the service is not ready.
func (c *Client) Healthcheck(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := c.call(ctx, http.MethodGet, "/readyz", nil)
	return err
}

// Error is the error object of the service.
type Error struct {
	Raw []byte `json:"-"` // as it was received

	Message string `json:"message"`
	Code    string `json:"code"`
	Status  int    `json:"status"`
	Info    struct {
		Errors []struct {
			Field   string `json:"field"`
			Message string `json:"message"`
		} `json:"errors"`
		RequestID string `json:"requestId"`
	} `json:"info"`
}

// Error returns the message, the code, and what else helps to find the cause.
func (e *Error) Error() string {
	s := fmt.Sprintf("%s (%s)", e.Message, e.Code)
	if len(e.Info.Errors) > 1 {
		for _, f := range e.Info.Errors {
			s += "\n  " + f.Field + ": " + f.Message
		}
	}
	if e.Info.RequestID != "" {
		s += ", request id " + e.Info.RequestID
	}
	return s
}

// call sends a request and returns the body of a successful response; a failure is an
// *Error if it is from the service.
func (c *Client) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	r, err := c.newRequest(ctx, Request{Method: method, Path: path, Body: body})
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("read answer of %s %s: %w", method, path, err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return answer, nil
	}
	return nil, failure(resp, answer)
}

// failure decodes the error object; another body is not from the service.
func failure(resp *http.Response, answer []byte) error {
	e := &Error{}
	if err := json.Unmarshal(answer, e); err != nil || e.Code == "" {
		return fmt.Errorf("%s does not answer as signalbox does: %s", resp.Request.URL.Redacted(), resp.Status)
	}
	e.Raw, e.Info.RequestID = answer, cmp.Or(e.Info.RequestID, resp.Header.Get("X-Request-Id"))
	return e
}

// get decodes a JSON response into v.
func (c *Client) get(ctx context.Context, path string, v any) error {
	answer, err := c.call(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return fmt.Errorf("read answer of %s: %w", path, err)
	}
	return nil
}

func brokersPath(projectID string) string {
	return "/api/projects/" + url.PathEscape(projectID) + "/brokers"
}
