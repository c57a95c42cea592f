package systemtest

import (
	"net/http"
	"sync"
	"syscall"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// hangingPeer is a server that does not respond while it hangs.
type hangingPeer struct {
	*httpPeer
	mu      sync.RWMutex  // protects what follows; held while a message is processed
	resumed chan struct{} // closed when it responds again
}

func (p *hangingPeer) hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resumed = make(chan struct{})
}

func (p *hangingPeer) answer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.resumed)
}

// ServeHTTP accepts a message. One that arrives while the server hangs is refused in
// the end.
func (p *hangingPeer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	goOn, done := p.tryServe(w, r)
	if done {
		return
	}
	select {
	case <-goOn:
	case <-r.Context().Done():
	}
	http.Error(w, "too late", http.StatusServiceUnavailable)
}

// tryServe accepts a message and responds, unless the server hangs.
func (p *hangingPeer) tryServe(w http.ResponseWriter, r *http.Request) (goOn chan struct{}, done bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	select {
	case <-p.resumed:
		p.serve(w, r)
		http.NewResponseController(w).Flush() //nolint:errcheck // the peer may have closed
		return nil, true
	default:
		return p.resumed, false
	}
}

// TestStopWithAHangingPeer stops a service while a peer accepts requests and does not
// respond, for the embedded broker and for another one, while messages arrive. It ends
// in time, and nothing is lost.
func TestStopWithAHangingPeer(t *testing.T) {
	t.Parallel()
	var server *hangingPeer
	c := newBridgeCampaign(t, func(t testing.TB, own endpoint) peer {
		server = &hangingPeer{httpPeer: startHTTPPeer(t), resumed: make(chan struct{})}
		server.answer()
		server.server.Handler = server
		return server
	})
	other := c.bridgeAtMosquitto(t)
	c.awaitDeliveries(t, 200)
	server.hang()
	c.api.must(t, "POST", other+"/messages", object{"topic": "else/1", "payload": `{"n":1}`, "qos": 1}, nil)
	suite.WaitFor(t, "messages are queued", func() bool {
		return c.status(t).QueuedMessages > 200 && c.statusAt(t, other).QueuedMessages > 0
	})
	c.service.Signal(syscall.SIGTERM)
	c.service.wantStopped(t)
	server.answer()
	c.service = serve(t, c.service.dir, c.settings)
	c.api.url = c.service.API
	c.last = c.publishers.finish(t, 2000)
	c.last["else/1"] = 1
	suite.WaitFor(t, "all messages are there", func() bool { return complete(c.peer.all(t), c.last) })
	suite.WaitFor(t, "nothing is queued", func() bool { return c.status(t).QueuedMessages == 0 })
	if found := c.compare(t); found.duplicates > 0 {
		t.Errorf("%d messages were delivered twice", found.duplicates)
	}
}

// bridgeAtMosquitto configures the bridge at another broker, too, and returns the path
// of that broker.
func (c *bridgeCampaign) bridgeAtMosquitto(t testing.TB) string {
	t.Helper()
	s := brokertest.Mosquitto(t)
	var id struct{ ID string }
	c.api.must(t, "POST", c.api.inProject("/brokers"), object{"name": "other", "url": s.URL,
		"username": s.AdminUsername, "password": string(s.AdminPassword)}, &id)
	at := c.api.inProject("/brokers/" + id.ID)
	suite.WaitFor(t, "the connection to the other broker", func() bool { return c.api.connected(t, id.ID) })
	_, document := c.peer.bridge()
	document["connections"].([]object)[0]["topicMappings"].([]object)[0]["mqttTopics"] = []string{"else/#"}
	c.api.must(t, "PUT", at+"/bridges/"+c.bridge+"/config", document, nil)
	return at
}
