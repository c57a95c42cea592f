package router

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"signalbox/handlers/auth"
)

// TestHTTP_at_a_port_for_HTTPS expects the error object, whatever the method.
func TestHTTP_at_a_port_for_HTTPS(t *testing.T) {
	t.Parallel()
	f, _ := started(t, true)
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"} {
		c, err := net.Dial("tcp", f.Addr())
		must(t, err)
		resp, body, closed := exchangeRaw(t, c, method+" /healthz HTTP/1.1\r\nHost: x\r\nX-A: "+strings.Repeat("a", 1<<16)+"\r\n\r\n")
		resp.Body = io.NopCloser(bytes.NewReader(body))
		if e := wantError(t, resp, 400, "INVALID_REQUEST"); !strings.Contains(e.Message, "https://") || !closed {
			t.Errorf("%s: got %q, closed %t, want to be led to https://", method, e.Message, closed)
		}
	}
}

// TestHandshakes_do_not_wait_for_each_other has a client that connects and sends
// nothing.
func TestHandshakes_do_not_wait_for_each_other(t *testing.T) {
	t.Parallel()
	f, dial := started(t, true)
	silent, err := net.Dial("tcp", f.Addr())
	must(t, err)
	defer silent.Close() //nolint:errcheck // the test is over
	resp, _, _ := exchangeRaw(t, dial(t), "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if resp.StatusCode != 200 {
		t.Errorf("got %d while another says nothing", resp.StatusCode)
	}
	must(t, f.Close(context.Background())) // the silent client does not delay the end
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the silent one was sent something")
	}
}

// TestHTTP1_with_TLS_is_known_to_be_secure: cookies are marked as secure, without a
// proxy's headers.
func TestHTTP1_with_TLS_is_known_to_be_secure(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{true, false} {
		f, dial := started(t, secure)
		f.login(t)
		body := `{"email":"` + ownerEmail + `","password":"` + ownerPassword + `"}`
		resp, _, _ := exchangeRaw(t, dial(t), "POST /api/auth/login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: "+
			strconv.Itoa(len(body))+"\r\n\r\n"+body)
		if resp.StatusCode != 200 || len(resp.Cookies()) != 1 || resp.Cookies()[0].Secure != secure {
			t.Errorf("TLS %t: got %d, cookies %v", secure, resp.StatusCode, resp.Cookies())
		}
	}
}

// TestLogin_through_nginx_as_it_comes is delayed: by default nginx forwards requests
// with HTTP/1.0, the address of the service as their host, and without the caller's
// address.
func TestLogin_through_nginx_as_it_comes(t *testing.T) {
	t.Parallel()
	f, dial := started(t, false)
	const body = `{"email":"x@example.org","password":"y"}`
	for range 20 {
		resp, _, _ := exchangeRaw(t, dial(t), "POST /api/auth/login HTTP/1.0\r\nHost: "+f.Addr()+"\r\nConnection: close\r\nContent-Length: "+
			strconv.Itoa(len(body))+"\r\n\r\n"+body)
		if resp.StatusCode == http.StatusTooManyRequests {
			return
		}
	}
	t.Error("20 failures were not slowed down")
}

// TestRequests_under_way_are_not_ended_for_others: a connection is closed in favour of
// another one only while it has no request in progress.
func TestRequests_under_way_are_not_ended_for_others(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]string{"HTTP": "", "HTTP/1 with TLS": "http/1.1", "HTTP/2": "h2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := started(t, version != "", func(c *Config, _ *auth.Config) { c.MaxConnections = 1 })
			arrived, proceed := make(chan struct{}), make(chan struct{})
			handler := f.http.Handler
			f.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					close(arrived)
					<-proceed
					r.URL.Path = "/healthz"
				}
				handler.ServeHTTP(w, r)
			})
			tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{version}}, ForceAttemptHTTP2: version == "h2"} // #nosec G402 -- it is the server of this test
			defer tr.CloseIdleConnections()
			slow, err := http.NewRequestWithContext(t.Context(), "GET", f.URL()+"/slow", nil)
			must(t, err)
			status := make(chan int, 1)
			go func() {
				defer close(status)
				resp, err := tr.RoundTrip(slow)
				if err != nil {
					t.Errorf("the request under way was ended: %v", err)
					return
				}
				resp.Body.Close() //nolint:errcheck // only the status counts
				status <- resp.StatusCode
			}()
			<-arrived
			newcomer, err := net.Dial("tcp", f.Addr())
			must(t, err)
			defer newcomer.Close() //nolint:errcheck // the test is over
			if _, err := newcomer.Read(make([]byte, 1)); err == nil {
				t.Error("the newcomer was sent something")
			}
			close(proceed)
			if got := <-status; got != 200 {
				t.Errorf("got status %d, want 200", got)
			}
		})
	}
}
