package remote

import (
	"bytes"
	"encoding/json"
	"sync"
)

// pending is the calls of a session that wait for an answer. A call is in it
// for as long as its caller waits.
type pending struct {
	instance string // begins the correlation data of all its calls

	mu    sync.Mutex // guards calls; never held while calling out
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

// take gives the call that waits for the correlation data on the topic, nil
// where none does, and forgets it: a second answer finds nobody.
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

// takeAll gives and forgets the calls to a topic.
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

// answer hands a message from the response topic of a command topic to the
// calls that it answers. Everybody's answers come by: what is not ours, or is
// no answer at all, is passed over in silence.
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

// refuse tells the calls to a topic that nobody listens there. Those that wait
// to be sent are not sent any more.
func (p *pending) refuse(topic string) {
	for _, c := range p.takeAll(topic) {
		c.stage.CompareAndSwap(queued, abandoned)
		c.deliver(reply{err: errNoEndpoint})
	}
}

// maxRefusal bounds the size of a refusal in bytes, so that other people's
// long answers are not read for nothing.
const maxRefusal = 1024

// isRefusal recognises what Mosquitto says on a control topic without an
// endpoint: an error that answers no command. It goes only to whoever asked.
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
