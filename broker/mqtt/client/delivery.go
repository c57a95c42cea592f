package client

import (
	"context"

	"signalbox/broker/messaging"
)

// Delivery is messages on their way to the broker, over as many connections as it
// takes. Its methods are safe for concurrent use.
type Delivery struct {
	publisher *publisher
	batch     *batch
}

// Outcome is what became of a message.
type Outcome struct {
	Done bool
	Code byte // of MQTT 5, where the broker refused it; 0 otherwise
}

// Send sends messages in order, as fast as the broker takes them, and does not
// wait for acknowledgements. It tells how many it has sent; an error says why the
// others are not.
func (f *Feed) Send(ctx context.Context, messages []messaging.Message) (d *Delivery, sent int, err error) {
	p := f.publisher
	b := &batch{ends: make([]end, len(messages)), codes: make([]byte, len(messages)), waiting: 1, over: make(chan struct{})}
	d = &Delivery{p, b}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		close(b.over)
		return d, 0, ctx.Err()
	}
	sent, err = p.send(ctx, b, messages)
	p.sent(b)
	return d, sent, err
}

// Over gives a channel that is closed when every message that was sent is done
// with, or given up.
func (d *Delivery) Over() <-chan struct{} { return d.batch.over }

// Outcome tells what became of a message so far.
func (d *Delivery) Outcome(i int) Outcome {
	d.publisher.mu.Lock()
	defer d.publisher.mu.Unlock()
	return Outcome{Done: d.batch.ends[i] != pending, Code: d.batch.codes[i]}
}
