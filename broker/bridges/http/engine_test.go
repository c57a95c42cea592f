package http_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	nethttp "net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/http"
	"signalbox/broker/bridges/store"
	"signalbox/broker/brokertest"
	"signalbox/broker/messaging"
	"signalbox/scripts/suite"
)

// fakeBroker is a broker with one publisher. The HTTP bridge does not use the methods that it lacks.
type fakeBroker struct {
	messaging.Broker
	mu   sync.Mutex
	taps map[string]messaging.Tap
}

func (l *fakeBroker) Subscribe(filter string, in messaging.Tap) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taps[filter] = in
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.taps, filter)
	}
}

func (l *fakeBroker) Refused(string) bool { return false }
func (l *fakeBroker) Reached() error      { return nil }

// publish sends a message to all subscribers.
func (l *fakeBroker) publish(m messaging.Message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, in := range l.taps {
		in.Take(m, nil)
	}
}

// plainSealer leaves configurations in plain text.
type plainSealer struct{}

func (plainSealer) Seal(plain, _ []byte) []byte             { return bytes.Clone(plain) }
func (plainSealer) Unseal(sealed, _ []byte) ([]byte, error) { return bytes.Clone(sealed), nil }

// engine starts the bridges of a broker with a real store.
func engine(t *testing.T) (*bridges.Engine, *fakeBroker) {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "bridges.db"), store.Options{Seal: plainSealer{}})
	if err != nil {
		t.Fatal(err)
	}
	l := &fakeBroker{taps: map[string]messaging.Tap{}}
	e := bridges.NewHost(s, []bridges.Kind{http.New()}, slog.New(slog.DiscardHandler)).Open("1", "identity", l)
	t.Cleanup(func() {
		if err := errors.Join(e.Close(context.Background()), s.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	if err := e.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, l
}

// fullDocument is a document with every member.
const fullDocument = `{"version":"v1","connections":[{"name":"c1","connection":{"url":"URL/in","credentials":{"username":"u","password":"pass-secret"},
	"headers":{"X-Plant":"north"},"secretHeaders":{"X-Api-Key":"key-secret"},"tls":{"enabled":false},"hmac":{"secret":"sign-secret","header":"X-Sign","algorithm":"sha512"}},
	"options":{"concurrency":4,"successStatus":[409],"retryStatus":[404],"retryMinInsertDelay":1,"retryMaxInsertDelay":20},
	"topicMappings":[{"name":"m","mqttTopics":["a/#"],"schemaMapping":"s","method":"PUT","target":"/${topic|path}","headers":{"X-Q":"${qos}"},"contentType":"application/json"},
		{"name":"many","mqttTopics":["many/#"],"batch":true,"body":"{\"v\":${payload|raw}}"}]}],
	"schemaMappings":[{"name":"s","mapping":[{"source":"jsonPayload.n","target":"n","type":"integer","required":true}]}]}`

func TestDocument(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	e, _ := engine(t)
	document := json.RawMessage(strings.ReplaceAll(fullDocument, "URL", s.URL))
	if err := e.SetBridgeConfig(t.Context(), http.ID, document); err != nil {
		t.Fatalf("%+v", err)
	}
	masked, err := e.GetBridgeConfig(t.Context(), http.ID)
	if err != nil || bytes.Contains(masked, []byte("-secret")) {
		t.Fatalf("got %s, %v, want no secrets", masked, err)
	}
	if err := e.SetBridgeConfig(t.Context(), http.ID, masked); err != nil {
		t.Errorf("what was read cannot be sent back: %v", err)
	}
	elsewhere := bytes.Replace(masked, []byte("http://127"), []byte("https://127"), 1)
	var invalid *broker.Error
	if err := e.SetBridgeConfig(t.Context(), http.ID, elsewhere); !errors.As(err, &invalid) || len(invalid.Fields) != 3 {
		t.Errorf("got %v, want all three secrets to be asked for", err)
	}
	trials, err := e.TestBridge(t.Context(), http.ID, masked)
	if want := []broker.BridgeTest{{ConnectionName: "c1", IsConnected: true}}; err != nil || !cmp.Equal(trials, want) {
		t.Errorf("got %v, %v, want %v", trials, err, want)
	}
	for _, wrong := range []string{`"method":"TRACE"`, `"batch":1`, `"nonsense":1`, `"headers":{"A":1}`} {
		bad := strings.Replace(string(document), `"method":"PUT"`, wrong, 1)
		if err := e.SetBridgeConfig(t.Context(), http.ID, json.RawMessage(bad)); !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want it refused", wrong, err)
		}
	}
	if got := len(s.requests()); got != 0 {
		t.Errorf("got %d requests, want none", got)
	}
}

// deadLetters returns the dead letters of the connection.
func deadLetters(t *testing.T, e *bridges.Engine) (all []broker.DeadLetter) {
	t.Helper()
	page, err := e.ListDeadLetters(t.Context(), http.ID, "c1", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	for d, err := range page.Items {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// countingServer is a server that counts the messages of each topic, and fails now and then.
type countingServer struct {
	mu    sync.Mutex
	next  map[string]int
	taken int
	wrong []string
	asked int
	done  chan struct{} // closed when every message has arrived

	repeated int // messages that arrived twice
}

const all, topics = 600, 6

func (y *countingServer) answer(w nethttp.ResponseWriter, r received) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.asked++; y.asked%7 == 0 {
		w.WriteHeader(nethttp.StatusBadGateway)
		return
	}
	var record struct{ N int }
	if err := json.Unmarshal([]byte(r.body), &record); err != nil || record.N > y.next[r.uri] {
		y.wrong = append(y.wrong, fmt.Sprintf("%s: got %s, want %d", r.uri, r.body, y.next[r.uri]))
	}
	if record.N < y.next[r.uri] {
		y.repeated++ // its connection was closed before the response was sent
		return
	}
	y.next[r.uri]++
	if y.taken++; y.taken == all {
		close(y.done)
	}
}

// TestNothingIsLost publishes to a server that fails, stops and starts again.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	y := &countingServer{next: map[string]int{}, done: make(chan struct{})}
	s := serve(t, y.answer)
	e, l := engine(t)
	if err := e.SetBridgeConfig(t.Context(), http.ID, json.RawMessage(strings.ReplaceAll(fullDocument, "URL", s.URL))); err != nil {
		t.Fatal(err)
	}
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			l.publish(messaging.Message{Topic: fmt.Sprint("a/", i%topics), Payload: fmt.Appendf(nil, `{"n":%d}`, i/topics), At: time.Now().UnixMilli()})
		}
	}
	publish(0, all/2)
	l.publish(messaging.Message{Topic: "a/0", Payload: []byte(`{"n":"poison"}`), At: time.Now().UnixMilli()})
	s.CloseClientConnections()
	publish(all/2, all)
	select {
	case <-y.done:
	case <-time.After(suite.HangLimit):
		y.mu.Lock()
		defer y.mu.Unlock()
		t.Fatalf("got %d of %d messages", y.taken, all)
	}
	if len(y.wrong) > 0 {
		t.Errorf("got out of order: %q", y.wrong)
	}
	if y.repeated > 4 { // requests in flight when connections were closed
		t.Errorf("%d messages came twice", y.repeated)
	}
	var dead []broker.DeadLetter
	brokertest.WaitFor(t, "there is a dead letter", func() bool { // at the end of its batch
		dead = deadLetters(t, e)
		return len(dead) > 0
	})
	if len(dead) != 1 || dead[0].Payload != `{"n":"poison"}` || !strings.Contains(dead[0].Reason, "integer") {
		t.Errorf("got %+v, want the message that has no number", dead)
	}
}

// TestSecretsOfAServerThatEchoes checks that a dead letter does not show secrets that the server
// echoes.
func TestSecretsOfAServerThatEchoes(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	s := serve(t, func(w nethttp.ResponseWriter, r received) {
		w.WriteHeader(nethttp.StatusBadRequest)
		_, _ = io.WriteString(w, r.header.Get("Authorization")+" "+r.header.Get("X-Api-Key"))
		asked <- struct{}{}
	})
	e, l := engine(t)
	if err := e.SetBridgeConfig(t.Context(), http.ID, json.RawMessage(strings.ReplaceAll(fullDocument, "URL", s.URL))); err != nil {
		t.Fatal(err)
	}
	l.publish(messaging.Message{Topic: "a/1", Payload: []byte(`{"n":1}`), At: time.Now().UnixMilli()})
	<-asked
	for range time.Tick(5 * time.Millisecond) {
		dead := deadLetters(t, e)
		if len(dead) == 0 {
			continue
		}
		if got, want := dead[0].Reason+": "+dead[0].Answer, "the server answered 400 Bad Request: Basic ******** ********"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		return
	}
}
