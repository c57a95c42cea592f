package http_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"strings"
	"testing"
	"time"

	"signalbox/broker/bridges"
	"signalbox/scripts/suite"
)

func TestStatuses(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]bridges.State{
		200: bridges.Delivered, 201: bridges.Delivered, 204: bridges.Delivered, 299: bridges.Delivered, 409: bridges.Delivered,
		300: bridges.Rejected, 301: bridges.Rejected, 304: bridges.Rejected, 307: bridges.Rejected, 308: bridges.Rejected,
		400: bridges.Rejected, 403: bridges.Rejected, 405: bridges.Rejected, 413: bridges.Rejected, 422: bridges.Rejected, 499: bridges.Rejected,
		401: bridges.Pending, 404: bridges.Pending, 407: bridges.Pending, 408: bridges.Pending, 425: bridges.Pending, 429: bridges.Pending,
		500: bridges.Pending, 502: bridges.Pending, 503: bridges.Pending, 504: bridges.Pending, 599: bridges.Pending,
	} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w nethttp.ResponseWriter, _ received) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(code)
				_, _ = io.WriteString(w, "because\r\n of this")
			})
			c := connected(t, s.URL, "", `"successStatus":[409],"retryStatus":[404]`, "")
			results, err := deliver(t, c, entries("1"))
			if results[0].State != want || (err != nil) != (want == bridges.Pending) || isLost(err) {
				t.Errorf("got %v, %v, want %v", results, err, want)
			}
			if got := len(s.requests()); got != 1 {
				t.Errorf("got %d requests, want 1", got)
			}
			reason, answer := results[0].Reason, results[0].Response
			switch {
			case want == bridges.Delivered && reason != "":
				t.Errorf("got %q, want no reason", reason)
			case code >= 400 && want != bridges.Delivered && (!strings.HasPrefix(reason, "the server answered "+strings.TrimSpace(fmt.Sprint(code, " ", nethttp.StatusText(code)))) || answer != "because of this"):
				t.Errorf("got %q and %q, want the status and the answer", reason, answer)
			case strings.Contains(fmt.Sprint(reason, err), "because"), strings.Contains(reason, "elsewhere"):
				t.Errorf("got %q, %v, want nothing of the answer", reason, err)
			case code == 401 && !strings.Contains(reason, "check credentials"):
				t.Errorf("got %q, want what to do", reason)
			case code >= 300 && code < 400 && !strings.Contains(answer, "/elsewhere"):
				t.Errorf("got %q, want the place that it leads to", answer)
			}
		})
	}
}

func TestLongAnswersAreCut(t *testing.T) {
	t.Parallel()
	s := serve(t, status(400, strings.Repeat("é\x00", 100_000)))
	results, err := deliver(t, connected(t, s.URL, "", "", ""), entries("1"))
	if err != nil || len(results[0].Response) > 300 || !strings.HasSuffix(results[0].Response, "é...") {
		t.Errorf("got %v, %v, want the beginning of the answer", results, err)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w nethttp.ResponseWriter, r received) {
		w.Header().Set("Location", r.header.Get("X-Api-Key"))
		code := nethttp.StatusBadRequest
		if r.method == "PUT" {
			code = nethttp.StatusFound
		}
		w.WriteHeader(code)
		for name := range r.header {
			_, _ = fmt.Fprintf(w, "%s: %s\n", name, r.header.Get(name))
		}
		_, _ = io.WriteString(w, "signed with sign-secret by pass-secret")
	})
	for _, connection := range []string{`"token":"bearer-secret"`, `"credentials":{"username":"u","password":"pass-secret"}`} {
		for _, method := range []string{"POST", "PUT"} {
			c := connected(t, s.URL, connection+`,"secretHeaders":{"X-Api-Key":"key-secret"},"hmac":{"secret":"sign-secret"}`, "", `"method":"`+method+`"`)
			results, err := deliver(t, c, entries("1"))
			text := fmt.Sprint(results, err)
			if strings.Contains(text, "-secret") && strings.Contains(text, "pass") || strings.Contains(text, "key-secret") || strings.Contains(text, "dTpwYXNzLXNlY3JldA") {
				t.Errorf("got %s, want no secret in it", text)
			}
			if results[0].State != bridges.Rejected {
				t.Errorf("got %v, want it rejected", results)
			}
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	came := make(chan time.Time, 3)
	s := serve(t, func(w nethttp.ResponseWriter, _ received) {
		if came <- time.Now(); len(came) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(nethttp.StatusTooManyRequests)
		}
	})
	c := connected(t, s.URL, "", "", "")
	if results, err := deliver(t, c, entries("1", "2")); err == nil || results[0].State != bridges.Pending || results[1].Reason != "" {
		t.Fatalf("got %v, %v, want nothing else to be sent after 429", results, err)
	}
	delivered(t, c, entries("1", "2"))
	if got := len(s.requests()); got != 3 {
		t.Errorf("got %d requests, want 3", got)
	}
	asked := <-came
	if waited := (<-came).Sub(asked); waited < 900*time.Millisecond {
		t.Errorf("got another request after %s, want it after a second", waited)
	}
}

func TestALongRetryAfterIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, after := range []string{"3600", time.Now().Add(time.Hour).UTC().Format(nethttp.TimeFormat)} {
		s := serve(t, func(w nethttp.ResponseWriter, _ received) {
			w.Header().Set("Retry-After", after)
			w.WriteHeader(nethttp.StatusServiceUnavailable)
		})
		c := connected(t, s.URL, "", "", "")
		for range 3 {
			if results, err := deliver(t, c, entries("1")); err == nil || isLost(err) || results[0].State != bridges.Pending {
				t.Errorf("got %v, %v, want it to be tried again", results, err)
			}
		}
		if got := len(s.requests()); got != 1 {
			t.Errorf("got %d requests, want 1", got)
		}
	}
}

// untilRequest is a context that ends when the server has received a request.
type untilRequest struct {
	context.Context
	asked <-chan struct{}
}

func (untilRequest) Deadline() (time.Time, bool) { return time.Now().Add(suite.HangLimit), true }
func (c untilRequest) Done() <-chan struct{}     { return c.asked }
func (c untilRequest) Err() error {
	select {
	case <-c.asked:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestAServerThatHangs(t *testing.T) {
	t.Parallel()
	release, asked := make(chan struct{}), make(chan struct{})
	s := serve(t, func(nethttp.ResponseWriter, received) {
		close(asked)
		<-release
	})
	t.Cleanup(func() { close(release) }) // before the server is closed
	c := connected(t, s.URL, "", "", "")
	results := make([]bridges.Result, 2)
	err := c.Deliver(untilRequest{t.Context(), asked}, entries("1", "2"), results)
	if err == nil || isLost(err) || !strings.Contains(err.Error(), "in time") {
		t.Errorf("got %v, want it to say that there was no answer in time", err)
	}
	if results[0].State != bridges.Pending || results[0].Reason == "" || results[1] != (bridges.Result{}) {
		t.Errorf("got %v, want the first pending with a reason, and the second not tried", results)
	}
}

// request reads a request up to the end of its body.
func request(conn net.Conn) {
	r, err := nethttp.ReadRequest(bufio.NewReader(conn))
	if err == nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
}

func TestAServerThatDies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer    string
		delivered bool
	}{
		"before it answers":     {"", false},
		"in its status":         {"HTTP/1.1 200 O", false},
		"in its headers":        {"HTTP/1.1 200 OK\r\nContent-", false},
		"in its answer":         {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nstored", true},
		"after another answer":  {"HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\nbroken", false},
		"and is no HTTP server": {"220 mail\r\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := raw(t, func(n int, conn net.Conn) {
				if n > 0 { // the first connection is Connect's
					request(conn)
					_, _ = io.WriteString(conn, c.answer)
				}
			})
			conn := connected(t, url, "", "", "")
			results, err := deliver(t, conn, entries("1"))
			if (results[0].State == bridges.Delivered) != c.delivered || (err == nil) != c.delivered {
				t.Errorf("got %v, %v, want it delivered: %t", results, err, c.delivered)
			}
			if !c.delivered && (results[0].State != bridges.Pending || isLost(err) == strings.Contains(c.answer, "500")) {
				t.Errorf("got %v, %v, want it pending, and the connection lost", results, err)
			}
		})
	}
}

func TestAServerThatAnswersSlowly(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := serve(t, func(w nethttp.ResponseWriter, _ received) {
		w.WriteHeader(nethttp.StatusOK)
		_, _ = io.WriteString(w, "a")
		_ = nethttp.NewResponseController(w).Flush()
		<-release
	})
	t.Cleanup(func() { close(release) })
	begun := time.Now()
	delivered(t, connected(t, s.URL, "", "", ""), entries("1"))
	if took := time.Since(begun); took > suite.HangLimit {
		t.Errorf("took %s, want it to be done with the status", took)
	}
}

func TestAServerThatComesBack(t *testing.T) {
	t.Parallel()
	url := raw(t, func(n int, conn net.Conn) {
		if n == 1 { // 0 and 2 are connections of Connect
			return
		}
		request(conn)
		_, _ = io.WriteString(conn, "HTTP/1.1 204 OK\r\nConnection: close\r\n\r\n")
	})
	c := connected(t, url, "", "", "")
	if _, err := deliver(t, c, entries("1")); !isLost(err) {
		t.Fatalf("got %v, want the connection to be lost", err)
	}
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	delivered(t, c, entries("1", "2"))
}
