package router

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"signalbox/handlers"
	"signalbox/handlers/auth"
)

// exchangeRaw sends text to the server and reads a response. It reports whether the
// server then closes the connection.
func exchangeRaw(t *testing.T, c net.Conn, text string) (resp *http.Response, body []byte, closed bool) {
	t.Helper()
	defer c.Close()            //nolint:errcheck // the test is over
	go io.WriteString(c, text) //nolint:errcheck // the server may end it before
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	must(t, err)
	body, err = io.ReadAll(resp.Body)
	must(t, err)
	if resp.Close {
		_, err = r.ReadByte()
		closed = err != nil
	}
	return resp, body, closed
}

// started returns a running server, with TLS or without, and a function that connects
// to it.
func started(t *testing.T, secure bool, change ...func(*Config, *auth.Config)) (f *fixture, dial func(t *testing.T) net.Conn) {
	t.Helper()
	if !secure {
		f = newFixture(t, change...)
	} else {
		files := tempTLS(t)
		f = newFixture(t, append(change, func(c *Config, _ *auth.Config) { c.TLS = files })...)
	}
	must(t, f.Start(t.Context()))
	t.Cleanup(func() { f.Close(context.Background()) }) //nolint:errcheck // the test is over
	return f, func(t *testing.T) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", f.Addr())
		must(t, err)
		t.Cleanup(func() { c.Close() }) //nolint:errcheck // the test is over
		if secure {
			c = tls.Client(c, &tls.Config{InsecureSkipVerify: true}) // #nosec G402 -- it is the server of this test
		}
		return c
	}
}

// TestMalformedRequests_are_answered_with_the_error_object sends requests to which
// net/http itself responds, before any handler.
func TestMalformedRequests_are_answered_with_the_error_object(t *testing.T) {
	t.Parallel()
	_, plain := started(t, false)
	_, secured := started(t, true)
	for name, c := range map[string]struct {
		text   string
		status int
		code   string
	}{
		"a bad escape":            {"GET /api/%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400, handlers.CodeInvalidRequest},
		"no Host":                 {"GET /healthz HTTP/1.1\r\n\r\n", 400, handlers.CodeInvalidRequest},
		"two Hosts":               {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, handlers.CodeInvalidRequest},
		"a bad Content-Length":    {"POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n", 400, handlers.CodeInvalidRequest},
		"two Content-Lengths":     {"POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, handlers.CodeInvalidRequest},
		"a bad header":            {"GET /healthz HTTP/1.1\r\nHost: x\r\nA B: c\r\n\r\n", 400, handlers.CodeInvalidRequest},
		"no HTTP":                 {"hello\r\n\r\n", 400, handlers.CodeInvalidRequest},
		"an expectation":          {"POST /api/auth/login HTTP/1.1\r\nHost: x\r\nExpect: gold\r\nContent-Length: 2\r\n\r\n{}", 417, handlers.CodeInvalidRequest},
		"a large header":          {"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", 2<<20) + "\r\n\r\n", 431, handlers.CodePayloadTooLarge},
		"another coding":          {"POST /api/auth/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, handlers.CodeInvalidRequest},
		"a version that is none":  {"GET /healthz HTTP/3.7\r\nHost: x\r\n\r\n", 505, handlers.CodeInvalidRequest},
		"an identity with length": {"POST /api/auth/login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n{}", 501, handlers.CodeInvalidRequest},
	} {
		for by, dial := range map[string]func(*testing.T) net.Conn{"": plain, " with TLS": secured} {
			t.Run(name+by, func(t *testing.T) {
				t.Parallel()
				resp, body, closed := exchangeRaw(t, dial(t), c.text)
				resp.Body = io.NopCloser(bytes.NewReader(body))
				wantError(t, resp, c.status, c.code)
				if !closed {
					t.Error("the connection stays open")
				}
			})
		}
	}
}

// TestLengthAndCoding_end_the_connection: a request with both may be smuggling another
// one [RFC 9112, 6.3].
func TestLengthAndCoding_end_the_connection(t *testing.T) {
	t.Parallel()
	_, dial := started(t, false)
	both := "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
	resp, body, closed := exchangeRaw(t, dial(t), both+"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp.StatusCode != 400 || !json.Valid(body) || !closed {
		t.Errorf("got %d %s, closed %v, want 400 and the end of the connection", resp.StatusCode, body, closed)
	}
}

// FuzzParseRefusal checks that nothing is recognised that a handler could have written.
func FuzzParseRefusal(f *testing.F) {
	f.Add("HTTP/1.1 400 Bad Request: missing required Host header" + refusalHeader + "400 Bad Request")
	f.Add("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{}")
	f.Add("HTTP/1.1 417 Expectation Failed\r\nConnection: close\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		status, reason, ok := parseRefusal([]byte(text))
		if !ok {
			return
		}
		if !strings.HasPrefix(text, refusalStart) || status < 400 || !strings.Contains(text, "Connection: close") && status != 417 {
			t.Errorf("%q was taken for a refusal", text)
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(refusal(min(status, 599), reason))), nil)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		resp.Body.Close() //nolint:errcheck // it is in memory
	})
}
