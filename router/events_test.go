package router

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/julienschmidt/httprouter"

	"signalbox/broker"
	"signalbox/handlers/auth"
)

// silent is a stream without events, which ends when its channel is closed.
type silent chan struct{}

func (silent) Ready() <-chan struct{}   { return nil }
func (silent) Take() []broker.Event     { return nil }
func (s silent) Ended() <-chan struct{} { return s }
func (silent) Close()                   {}

// firstBytes records where the parts of a response are in memory.
type firstBytes struct {
	*httptest.ResponseRecorder
	seen map[*byte]bool
}

func (w firstBytes) Write(b []byte) (int, error) {
	w.seen[&b[0]] = true
	return w.ResponseRecorder.Write(b)
}

func (firstBytes) SetWriteDeadline(time.Time) error { return nil }

// TestEventsAreShared writes the same events to two callers: their data is not copied.
func TestEventsAreShared(t *testing.T) {
	t.Parallel()
	events := []broker.Event{{Type: "metrics", Data: []byte(`{"at":1}`)}, {Type: "state", Data: []byte(`{}`)}}
	for range 2 {
		w := firstBytes{httptest.NewRecorder(), map[*byte]bool{}}
		out := &eventWriter{w: w, c: http.NewResponseController(w), time: time.Minute}
		must(t, out.send(events))
		if got, want := w.Body.String(), "event: metrics\ndata: {\"at\":1}\n\nevent: state\ndata: {}\n\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if !w.seen[&events[0].Data[0]] || !w.seen[&events[1].Data[0]] {
			t.Error("the data was copied")
		}
	}
}

// TestEventsOutliveTheirWrites keeps streams open that are silent for longer than a write, and
// than a response, may take.
func TestEventsOutliveTheirWrites(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]string{"HTTP": "", "HTTP/1 with TLS": "http/1.1", "HTTP/2": "h2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, _ := started(t, version != "", func(c *Config, _ *auth.Config) {
				c.ReadTimeout, c.WriteTimeout = time.Second, time.Second
			})
			f.router.times = eventTimes{write: time.Second, heartbeat: 1500 * time.Millisecond, admit: time.Hour}
			events := make(silent)
			f.http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				f.router.respondEvents(w, r, events, func() error { return errors.New("not asked") })
			})
			tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{version}}, ForceAttemptHTTP2: version == "h2"} // #nosec G402 -- it is the server of this test
			defer tr.CloseIdleConnections()
			r, err := http.NewRequestWithContext(t.Context(), "GET", f.URL(), nil)
			must(t, err)
			resp, err := tr.RoundTrip(r)
			must(t, err)
			defer resp.Body.Close()
			if want := version == "h2"; want != (resp.ProtoMajor == 2) {
				t.Fatalf("the protocol is %s", resp.Proto)
			}
			heartbeats := 0
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() {
				if lines.Text() != ":" {
					continue
				}
				if heartbeats++; heartbeats == 2 {
					close(events)
				}
			}
			if err := lines.Err(); err != nil || heartbeats < 2 {
				t.Errorf("the stream ended with %v after %d heartbeats", err, heartbeats)
			}
		})
	}
}

// lasting is a stream without events, which ends when the test's clock has been moved.
type lasting struct{ move func() }

func (l *lasting) Ready() <-chan struct{} { l.move(); return nil }
func (*lasting) Take() []broker.Event     { return nil }
func (*lasting) Close()                   {}
func (*lasting) Ended() <-chan struct{} {
	ended := make(chan struct{})
	close(ended)
	return ended
}

// TestEventsAreNoLongRequests counts the time until a stream begins, and not how long it lasts.
func TestEventsAreNoLongRequests(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := time.Unix(1_800_000_000, 0)
	f.router.now = func() time.Time { return now }
	row := &route{ID: "streamEvents", Method: "GET", Path: "/api/events", Role: auth.Public, Status: 200, Summary: "Test", Tag: "Brokers",
		Do: query(func(context.Context, *struct{}) (*lasting, error) {
			now = now.Add(time.Second)
			return &lasting{func() { now = now.Add(3 * time.Hour) }}, nil
		})}
	must(t, row.prepare(shapes{}))
	f.router.mux.Handle("GET", "/api/events", func(w http.ResponseWriter, r *http.Request, params httprouter.Params) {
		f.router.serve(w, r, row, params)
	})
	f.router.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/events", nil))
	scraped := httptest.NewRecorder()
	f.router.metrics.handler().ServeHTTP(scraped, httptest.NewRequest("GET", "/metrics", nil))
	if want := `signalbox_http_request_duration_seconds_sum{operation="streamEvents"} 1` + "\n"; !strings.Contains(scraped.Body.String(), want) {
		t.Errorf("%q is not in the metrics", want)
	}
}
