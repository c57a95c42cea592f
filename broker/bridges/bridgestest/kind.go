package bridgestest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"signalbox/broker/bridges"
)

// Kind is a kind of bridge whose targets are in memory: a connection sends to the Target with its
// address. All methods are safe for concurrent use.
type Kind struct {
	Name string // its id; "" for "fake-bridge"

	mu         sync.Mutex // guards the fields below
	targets    map[string]*Target
	connectors []*connector
}

var _ bridges.Kind = (*Kind)(nil)

// ID returns the id.
func (k *Kind) ID() string {
	if k.Name == "" {
		return "fake-bridge"
	}
	return k.Name
}

// Schema describes address, password, tls and a few members for tests of schemas.
func (*Kind) Schema() bridges.Schema {
	return bridges.Schema{
		Title: "Fake", Description: "Leads nowhere.", Records: true,
		Connection: json.RawMessage(`{"type":"object","required":["address"],"properties":{
			"address":{"type":"string","minLength":1,"x-address":true},
			"port":{"type":"integer","minimum":1,"maximum":65535,"default":1883,"x-address":true},
			"credentials":{"$ref":"#/$defs/credentials"},"tls":{"$ref":"#/$defs/tls"},
			"headers":{"type":"object","additionalProperties":{"type":"string","writeOnly":true}},
			"sign":{"oneOf":[
				{"type":"object","properties":{"by":{"const":"key"},"key":{"type":"string","minLength":3,"writeOnly":true}},"required":["by","key"]},
				{"type":"object","properties":{"by":{"const":"name"},"name":{"type":"string","format":"hostname"}},"required":["by","name"]}]}}}`),
		Options: json.RawMessage(`{"type":"object","properties":{"flavour":{"enum":["sweet","sour"],"default":"sweet"}}}`),
		Mapping: json.RawMessage(`{"type":"object","required":["target"],"properties":{"target":{"type":"string","pattern":"^[a-z]+$"}}}`),
	}
}

// Compile creates a connector. It refuses the target "nowhere".
func (k *Kind) Compile(c *bridges.Connection) (bridges.Connector, bridges.Problems) {
	var d struct {
		Connection struct {
			Address string       `json:"address"`
			TLS     *bridges.TLS `json:"tls"`
		} `json:"connection"`
		TopicMappings []struct {
			Target string `json:"target"`
		} `json:"topicMappings"`
	}
	problems := bridges.Decode(c.Document, &d)
	d.Connection.TLS.Config(d.Connection.Address, "connection.tls", &problems)
	for i, m := range d.TopicMappings {
		if m.Target == "nowhere" {
			problems.Add("topicMappings["+string(rune('0'+i))+"].target", "leads nowhere")
		}
	}
	if len(problems) > 0 {
		return nil, problems
	}
	made := &connector{target: k.Target(d.Connection.Address), trial: c.Trial}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.connectors = append(k.connectors, made)
	return made, nil
}

// Target returns the target with an address.
func (k *Kind) Target(address string) *Target {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.targets == nil {
		k.targets = map[string]*Target{}
	}
	if k.targets[address] == nil {
		k.targets[address] = &Target{changed: make(chan struct{}, 1)}
	}
	return k.targets[address]
}

// Connectors returns how many connectors were created, and how many of them closed.
func (k *Kind) Connectors() (made, closed int) {
	k.mu.Lock()
	all := slices.Clone(k.connectors)
	k.mu.Unlock()
	for _, c := range all {
		c.target.mu.Lock()
		if c.closed {
			closed++
		}
		c.target.mu.Unlock()
	}
	return len(all), closed
}

// Target receives messages. All methods are safe for concurrent use.
type Target struct {
	changed chan struct{}

	mu          sync.Mutex // guards the fields below; not held during callbacks
	delivered   []bridges.Entry
	connects    int
	batches     []int
	unavailable error
	handle      func(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error
}

// SetUnavailable makes the target unavailable because of err, or available if err is nil.
func (t *Target) SetUnavailable(err error) {
	t.mu.Lock()
	t.unavailable = err
	t.mu.Unlock()
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// HandleBatches sets how batches are handled; by default they are delivered. Entries that f marks as
// delivered count as received.
func (t *Target) HandleBatches(f func(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handle = f
}

// Delivered returns the delivered entries, in order.
func (t *Target) Delivered() []bridges.Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.delivered)
}

// Payloads returns the payloads of the delivered entries, in order.
func (t *Target) Payloads() []string {
	all := []string{}
	for _, e := range t.Delivered() {
		all = append(all, string(e.Payload))
	}
	return all
}

// Batches returns the sizes of the batches, and the number of connection attempts.
func (t *Target) Batches() (sizes []int, connects int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.batches), t.connects
}

// connector is a connection to a Target.
type connector struct {
	target *Target
	trial  bool
	busy   sync.Mutex // held during every call, to detect concurrent calls
	closed bool       // guarded by target.mu
}

var _ bridges.Watched = (*connector)(nil)

// checkContract panics if the engine violates the contract.
func (c *connector) checkContract() (leave func()) {
	if !c.busy.TryLock() {
		panic("bridgestest: a connector is called twice at a time")
	}
	c.target.mu.Lock()
	defer c.target.mu.Unlock()
	if c.closed {
		panic("bridgestest: a connector is called that is closed")
	}
	return c.busy.Unlock
}

// Connect connects to the target.
func (c *connector) Connect(ctx context.Context) error {
	defer c.checkContract()()
	c.target.mu.Lock()
	defer c.target.mu.Unlock()
	c.target.connects++
	return errors.Join(c.target.unavailable, ctx.Err())
}

// Preview returns the message as it is.
func (*connector) Preview(e *bridges.Entry) (bridges.Preview, error) {
	return bridges.Preview{Destination: e.Topic, Payload: e.Payload}, nil
}

// Deliver delivers a batch.
func (c *connector) Deliver(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error {
	defer c.checkContract()()
	if c.trial {
		panic("bridgestest: a trial delivers")
	}
	t := c.target
	t.mu.Lock()
	handle, unavailable := t.handle, t.unavailable
	t.batches = append(t.batches, len(batch))
	t.mu.Unlock()
	if unavailable != nil {
		return &bridges.Lost{Err: unavailable}
	}
	var err error
	if handle != nil {
		err = handle(ctx, batch, results)
	} else {
		All(results, bridges.Delivered, "")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, r := range results {
		if r.State == bridges.Delivered {
			t.delivered = append(t.delivered, *batch[i])
		}
	}
	return err
}

// All sets all results to the same state.
func All(results []bridges.Result, s bridges.State, reason string) {
	for i := range results {
		results[i] = bridges.Result{State: s, Reason: reason}
	}
}

// Check reports whether the target is unavailable.
func (c *connector) Check(context.Context) error {
	defer c.checkContract()()
	c.target.mu.Lock()
	defer c.target.mu.Unlock()
	if c.target.unavailable != nil {
		return &bridges.Lost{Err: c.target.unavailable}
	}
	return nil
}

// Changed returns a channel that receives when the target's availability changes.
func (c *connector) Changed() <-chan struct{} { return c.target.changed }

// Close closes the connector.
func (c *connector) Close(context.Context) error {
	defer c.checkContract()()
	c.target.mu.Lock()
	defer c.target.mu.Unlock()
	c.closed = true
	return nil
}
