package remote

import (
	"bytes"
	"encoding/json"
	"sync"
)

// pending holds the calls of a session that wait for a response.
type pending struct {
	instance string // prefix of the correlation data of all calls

	mu    sync.Mutex // guards calls; never held during calls to other packages
	calls map[string]*call
}

func newPending(instance string) *pending {
	return &pending{instance: instance, calls: map[string]*call{}}
}

func (p *pending) add(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[c.correlation] = c
}

func (p *pending) remove(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, c.correlation)
}

// take removes and returns the call that waits for the correlation data on the topic, or nil:
// a second response is ignored.
func (p *pending) take(topic, correlation string) *call {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.calls[correlation]
	if c == nil || c.topic != topic {
		return nil
	}
	delete(p.calls, correlation)
	return c
}

// takeAll removes and returns the calls to a topic.
func (p *pending) takeAll(topic string) (taken []*call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for correlation, c := range p.calls {
		if c.topic == topic {
			taken = append(taken, c)
			delete(p.calls, correlation)
		}
	}
	return taken
}

// answer passes a message from a response topic to the calls that it answers. Responses to
// other clients arrive as well and are ignored.
func (p *pending) answer(topic string, payload []byte) {
	if !bytes.Contains(payload, []byte(p.instance)) {
		if isRefusal(payload) {
			p.refuse(topic)
		}
		return
	}
	var m struct {
		Responses []struct {
			CorrelationData string `json:"correlationData"`
		} `json:"responses"`
	}
	if json.Unmarshal(payload, &m) != nil {
		return
	}
	for _, r := range m.Responses {
		if c := p.take(topic, r.CorrelationData); c != nil {
			c.deliver(reply{payload: payload})
		}
	}
}

// refuse fails the calls to a topic without endpoint. Queued calls are not sent.
func (p *pending) refuse(topic string) {
	for _, c := range p.takeAll(topic) {
		c.stage.CompareAndSwap(queued, abandoned)
		c.deliver(reply{err: errNoEndpoint})
	}
}

// maxRefusal bounds the size of a refusal in bytes, so that long responses to others are not
// decoded.
const maxRefusal = 1024

// isRefusal reports whether a message is Mosquitto's error for a control topic without
// endpoint. It is sent to the requester only.
func isRefusal(payload []byte) bool {
	if len(payload) > maxRefusal {
		return false
	}
	var m struct {
		Error     string          `json:"error"`
		Responses json.RawMessage `json:"responses"`
	}
	return json.Unmarshal(payload, &m) == nil && m.Error != "" && m.Responses == nil
}
