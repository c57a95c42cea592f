package http_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/http"
	"signalbox/broker/bridges/mapping"
	"signalbox/broker/messaging"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) { suite.Main(m) }

// received is a request as the server received it.
type received struct {
	method, uri, body string
	header            nethttp.Header
}

// server records the requests that it receives.
type server struct {
	*httptest.Server
	mu   sync.Mutex
	seen []received
}

// serve starts a server with a handler, nil for status 204.
func serve(t *testing.T, answer func(w nethttp.ResponseWriter, r received)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(s.handler(answer))
	t.Cleanup(s.Close)
	return s
}

func (s *server) handler(answer func(w nethttp.ResponseWriter, r received)) nethttp.Handler {
	return nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		body, _ := io.ReadAll(r.Body)
		one := received{method: r.Method, uri: r.RequestURI, body: string(body), header: r.Header}
		s.mu.Lock()
		s.seen = append(s.seen, one)
		s.mu.Unlock()
		if answer == nil {
			w.WriteHeader(nethttp.StatusNoContent)
			return
		}
		answer(w, one)
	})
}

func (s *server) requests() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

func (s *server) bodies() (all []string) {
	for _, r := range s.requests() {
		all = append(all, r.body)
	}
	return all
}

// status returns a handler that responds with a status.
func status(code int, text string) func(nethttp.ResponseWriter, received) {
	return func(w nethttp.ResponseWriter, _ received) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

// compile creates a connector from the parts of a connection, each without its braces.
func compile(connection, options, topicMappings string, records map[string]*mapping.Mapping) (bridges.Connector, bridges.Problems) {
	document := fmt.Sprintf(`{"name":"c","connection":{%s},"options":{%s},"topicMappings":[%s]}`, connection, options, topicMappings)
	if !json.Valid([]byte(document)) {
		return nil, bridges.Problems{{Path: "", Msg: "the test is no JSON: " + document}}
	}
	if records == nil {
		records = map[string]*mapping.Mapping{"m": mapping.Default()}
	}
	return http.New().Compile(&bridges.Connection{Name: "c", Document: json.RawMessage(document), Records: records, Meter: &bridges.Meter{}})
}

// connected returns a connected connector with the topic mapping m.
func connected(t *testing.T, url, connection, options, topicMapping string) bridges.Connector {
	t.Helper()
	c := compiled(t, url, connection, options, topicMapping)
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// compiled returns a connector that is not connected.
func compiled(t *testing.T, url, connection, options, topicMapping string) bridges.Connector {
	t.Helper()
	quoted, _ := json.Marshal(url)
	c, problems := compile(joined(`"url":`+string(quoted), connection), options, "{"+joined(`"name":"m"`, topicMapping)+"}", nil)
	if len(problems) > 0 {
		t.Fatalf("got problems %v", problems)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func joined(parts ...string) string {
	var all []string
	for _, p := range parts {
		if p != "" {
			all = append(all, p)
		}
	}
	return strings.Join(all, ",")
}

// entry is an entry of the mapping m.
func entry(id uint64, topic, payload string) *bridges.Entry {
	return &bridges.Entry{ID: id, Mapping: "m", MessageID: fmt.Sprintf("store-%d", id),
		Message: messaging.Message{Topic: topic, Payload: []byte(payload), QoS: 1, At: 1_700_000_000_123, ClientID: "sensor"}}
}

// entries are the entries of one topic, one for each payload.
func entries(payloads ...string) (all []*bridges.Entry) {
	for i, p := range payloads {
		all = append(all, entry(uint64(i+1), "a/b", p))
	}
	return all
}

// deliver delivers with a timeout that no test should reach.
func deliver(t *testing.T, c bridges.Connector, batch []*bridges.Entry) ([]bridges.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), suite.HangLimit)
	defer cancel()
	results := make([]bridges.Result, len(batch))
	err := c.Deliver(ctx, batch, results)
	return results, err
}

// delivered delivers entries, all of which must be delivered.
func delivered(t *testing.T, c bridges.Connector, batch []*bridges.Entry) {
	t.Helper()
	results, err := deliver(t, c, batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.State != bridges.Delivered {
			t.Errorf("entry %d: got %v, want it delivered", i, r)
		}
	}
}

func isLost(err error) bool {
	_, ok := errors.AsType[*bridges.Lost](err)
	return ok
}

// raw starts a server that calls speak for each connection, in turn.
func raw(t *testing.T, speak func(n int, conn net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			speak(n, conn)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return "http://" + l.Addr().String()
}
