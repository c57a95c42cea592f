package apitest_test

import (
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/router/apitest"
)

// httpTarget is an HTTP server to which bridges deliver. It can be stopped and started
// again at the same address.
type httpTarget struct {
	t      *testing.T
	URL    string
	addr   string
	status atomic.Int64 // of its responses
	server *http.Server

	mu     sync.Mutex // protects what follows
	bodies []string   // of the accepted requests
	tokens []string   // that came with them
}

func newHTTPTarget(t *testing.T) *httpTarget {
	t.Helper()
	c := &httpTarget{t: t, addr: brokertest.FreePort(t, "127.0.0.1")}
	c.status.Store(http.StatusNoContent)
	c.start()
	c.URL = "http://" + c.addr
	t.Cleanup(func() { c.server.Close() })
	return c
}

// start starts the server.
func (c *httpTarget) start() {
	c.t.Helper()
	l, err := net.Listen("tcp", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.server = &http.Server{Handler: http.HandlerFunc(c.take)}
	go c.server.Serve(l) //nolint:errcheck // it ends with Close
}

// stop stops the server.
func (c *httpTarget) stop() { c.server.Close() }

func (c *httpTarget) take(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	status := int(c.status.Load())
	if status < 300 && r.Method == http.MethodPost {
		c.mu.Lock()
		c.bodies, c.tokens = append(c.bodies, string(body)), append(c.tokens, r.Header.Get("Authorization"))
		c.mu.Unlock()
	}
	w.WriteHeader(status)
}

// received returns the bodies so far.
func (c *httpTarget) received() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.bodies)
}

// gotToken reports whether a message had an Authorization header.
func (c *httpTarget) gotToken(want string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.tokens, want)
}

// waitReceived waits for bodies, in order.
func (c *httpTarget) waitReceived(want ...string) {
	c.t.Helper()
	waitFor(c.t, "all messages to be delivered", func() bool { return len(c.received()) >= len(want) })
	if got := c.received(); !slices.Equal(got, want) {
		c.t.Fatalf("delivered %q, want %q", got, want)
	}
}

// bridgeSecret must never be shown.
const bridgeSecret = "qqSecretThatNobodyIsShown"

// mask is shown instead.
const mask = "********"

// toHTTPTarget is a configuration of the http-bridge with one connection, "c".
func toHTTPTarget(url, token string, options object) object {
	o := object{"retryMinInsertDelay": 20, "retryMaxInsertDelay": 50}
	for name, value := range options {
		o[name] = value
	}
	return object{"version": "v1", "connections": []object{{
		"name": "c", "connection": object{"url": url, "token": token}, "options": o,
		"topicMappings": []object{{"name": "m", "mqttTopics": []string{"in/#"}, "body": "${payload}", "contentType": "text/plain"}},
	}}}
}

// bridgeAt returns a path below the http-bridge of a broker.
func bridgeAt(api *apitest.API, id, path string) string {
	return api.BrokerAt(id, "/bridges/http-bridge"+path)
}

// statusOf returns the state of the connection "c".
func statusOf(t *testing.T, api *apitest.API, id string) broker.BridgeStatus {
	t.Helper()
	var all []broker.BridgeStatus
	api.Root.Get(bridgeAt(api, id, "/status")).Want(200).Decode(&all)
	if len(all) != 1 || all[0].ConnectionName != "c" || all[0].Stats == nil {
		t.Fatalf("status %+v", all)
	}
	return all[0]
}

// deadLetters returns those of the connection "c".
func deadLetters(api *apitest.API, id, query string) (list []broker.DeadLetter) {
	api.Root.Get(bridgeAt(api, id, "/connections/c/deadletters"+query)).Want(200).Decode(&list)
	return list
}

// isActive reports whether the http-bridge of a broker is active.
func isActive(t *testing.T, api *apitest.API, id string) bool {
	t.Helper()
	var list []broker.Bridge
	api.Root.Get(api.BrokerAt(id, "/bridges")).Want(200).Decode(&list)
	i := slices.IndexFunc(list, func(b broker.Bridge) bool { return b.ID == "http-bridge" })
	if i < 0 {
		t.Fatalf("no http-bridge in %+v", list)
	}
	return list[i].IsActive
}
