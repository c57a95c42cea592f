package client

import (
	"context"

	"signalbox/broker/messaging"
)

// Delivery is a batch of messages being sent, over as many connections as needed. Its methods
// are safe for concurrent use.
type Delivery struct {
	publisher *publisher
	batch     *batch
}

// Outcome is the outcome of a message.
type Outcome struct {
	Done bool
	Code byte // reason code of MQTT 5 if the broker refused it; else 0
}

// Send sends messages in order, as fast as the broker accepts them, without waiting for
// acknowledgements. It returns the number sent, and why the others were not.
func (c *Client) Send(ctx context.Context, messages []messaging.Message) (d *Delivery, sent int, err error) {
	p := c.publisher
	b := &batch{states: make([]messageState, len(messages)), codes: make([]byte, len(messages)), waiting: 1, done: make(chan struct{})}
	d = &Delivery{p, b}
	select {
	case p.sending <- struct{}{}:
	case <-ctx.Done():
		close(b.done)
		return d, 0, ctx.Err()
	}
	sent, err = p.send(ctx, b, messages)
	p.endSend(b)
	return d, sent, err
}

// Done returns a channel that is closed when every message sent is complete or given up.
func (d *Delivery) Done() <-chan struct{} { return d.batch.done }

// Outcome returns the outcome of a message so far.
func (d *Delivery) Outcome(i int) Outcome {
	d.publisher.mu.Lock()
	defer d.publisher.mu.Unlock()
	return Outcome{Done: d.batch.states[i] != statePending, Code: d.batch.codes[i]}
}
