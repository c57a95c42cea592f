package apitest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/scripts/suite"
)

// stream is a response with events, read line by line.
type stream struct {
	t     *testing.T
	res   *http.Response
	lines *bufio.Scanner
	end   context.CancelFunc
}

// followEvents opens a stream with a token.
func followEvents(t *testing.T, api *apitest.API, token, path string) *stream {
	t.Helper()
	return requestEvents(t, "GET", api, token, path)
}

func requestEvents(t *testing.T, method string, api *apitest.API, token, path string) *stream {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, api.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return &stream{t, res, bufio.NewScanner(res.Body), cancel}
}

// next returns the next event, "" at the end of the stream. Comments and the time to retry are
// not events.
func (s *stream) next() (name, data string) {
	s.t.Helper()
	for s.lines.Scan() {
		line := s.lines.Text()
		if text, ok := strings.CutPrefix(line, "event: "); ok {
			name = text
		}
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			return name, text
		}
	}
	return "", ""
}

// await reads events of a type until one is accepted, and returns the number of those read.
func (s *stream) await(kind, what string, accept func(data string) bool) (n int) {
	s.t.Helper()
	for {
		name, data := s.next()
		if name == "" {
			s.t.Fatalf("the stream ended before %s: %v", what, s.lines.Err())
		}
		if name == kind {
			n++
			if accept(data) {
				return n
			}
		}
	}
}

// wantEnd waits until the service ends the stream.
func (s *stream) wantEnd() {
	s.t.Helper()
	for name := "x"; name != ""; {
		name, _ = s.next()
	}
	if err := s.lines.Err(); err != nil {
		s.t.Errorf("the stream ended with %v", err)
	}
}

// TestEvents follows the embedded broker for longer than the server's deadlines.
func TestEvents(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, func(c *appliance.Config) {
		c.HTTP.ReadTimeout, c.HTTP.WriteTimeout = 2*time.Second, 2*time.Second
	})
	s := followEvents(t, api, api.TokenText("viewer"), api.At("/events?types=metrics,state,denials"))
	if ct := s.res.Header.Get("Content-Type"); s.res.StatusCode != 200 || ct != "text/event-stream" {
		t.Fatalf("status %d, type %q", s.res.StatusCode, ct)
	}
	if !s.lines.Scan() || s.lines.Text() != "retry: 3000" {
		t.Errorf("the first line is %q", s.lines.Text())
	}
	began := time.Now()
	var first broker.MetricSample
	s.await("metrics", "the first sample", func(data string) bool { return json.Unmarshal([]byte(data), &first) == nil })
	d := join(t, api, 5, "d", asAdmin)
	d.Publish("t", "x", 1)
	s.await("metrics", "a sample with the client", func(data string) bool {
		var now broker.MetricSample
		if err := json.Unmarshal([]byte(data), &now); err != nil {
			t.Fatal(err)
		}
		return *now.Connected == 1 && now.MessagesIn != nil && now.At > first.At
	})
	if mqtttest.Accepts(t, api.MQTT, "nobody", "wrong") {
		t.Fatal("a wrong password is accepted")
	}
	s.await("denials", "the refused log-in", func(data string) bool { return strings.Contains(data, `"username":"nobody"`) })
	s.await("metrics", "the deadlines of the server have passed", func(string) bool { return time.Since(began) > 5*time.Second })
	s.end()
}

// TestEventsState follows the connection to a broker that is stopped.
func TestEventsState(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addBroker(t, api, object{"name": "gone", "url": "mqtt://127.0.0.1:1"})
	s := followEvents(t, api, api.TokenText("viewer"), api.BrokerAt(id, "/events"))
	s.await("state", "the state", func(data string) bool {
		return strings.Contains(data, `"connected":false`) && strings.Contains(data, `"error":"`)
	})
	api.Root.Delete(api.BrokerAt(id, "")).Want(204)
	s.wantEnd()
}

// TestEventsEnd ends streams with the token, the role and the service.
func TestEventsEnd(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	var token struct{ ID, Token string }
	api.Root.Post("/api/projects/"+api.Project+"/tokens", object{"name": "t", "role": "viewer", "type": "unrestricted", "brokers": []string{}}).Want(200).Decode(&token)
	s := followEvents(t, api, token.Token, api.At("/events"))
	s.await("state", "the state", func(string) bool { return true })
	api.Root.Delete("/api/projects/" + api.Project + "/tokens/" + token.ID).Want(200)
	s.wantEnd()

	last := followEvents(t, api, api.TokenText("viewer"), api.At("/events"))
	last.await("state", "the state", func(string) bool { return true })
	api.Stop()
	last.wantEnd()
}

// TestEventsAreBounded refuses the streams of a caller beyond a number, until one ends.
func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	token := api.TokenText("viewer")
	var last *stream
	for range 16 {
		last = followEvents(t, api, token, api.At("/events"))
		last.await("state", "the state", func(string) bool { return true })
	}
	refused := api.Bearer(token).Get(api.At("/events"))
	refused.WantError(429, "TOO_MANY_STREAMS")
	if refused.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	other := followEvents(t, api, api.TokenText("viewer"), api.At("/events"))
	other.await("state", "the state of another caller", func(string) bool { return true })
	last.end()
	waitFor(t, "a stream to be available again", func() bool {
		again := followEvents(t, api, token, api.At("/events"))
		defer again.end()
		return again.res.StatusCode == 200
	})
}

// TestEventsInvalid names the parameter, and refuses denials of a broker that has none. HEAD
// ends at once.
func TestEventsInvalid(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for _, query := range []string{"?types=", "?types=load", "?types=state,", "?types=state&types=metrics"} {
		if got := api.Root.Get(api.At("/events"+query)).WantError(400, "INVALID_REQUEST").Fields(); len(got) != 1 || got[0] != "query.types" {
			t.Errorf("%s: fields %q", query, got)
		}
	}
	head := requestEvents(t, "HEAD", api, api.TokenText("viewer"), api.At("/events"))
	if head.res.StatusCode != 200 || head.lines.Scan() {
		t.Errorf("HEAD: status %d, body %q", head.res.StatusCode, head.lines.Text())
	}
	api.Anonymous().Get(api.At("/events")).WantError(401, "UNAUTHORIZED")
	id := addBroker(t, api, object{"name": "gone", "url": "mqtt://127.0.0.1:1"})
	api.Root.Get(api.BrokerAt(id, "/events?types=denials")).WantError(405, "NOT_SUPPORTED")
}
