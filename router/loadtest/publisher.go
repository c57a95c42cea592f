package loadtest

import (
	"context"
	"encoding/binary"
	"time"

	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
)

// MinSize is the size of the smallest payload: the number of the message, and when it was due,
// in nanoseconds since the start.
const MinSize = 16

// retryPause is the pause of a publisher without a connection.
const retryPause = 100 * time.Millisecond

// maxBatch bounds the messages of one call to the client.
const maxBatch = 32

// publisher publishes to a topic of its own.
type publisher struct {
	participant
	number  int
	next    uint64    // number of the next message
	sent    chan sent // batches above QoS 0 that wait for acknowledgements
	pending chan struct{}

	done, refused, givenUp uint64
	acknowledged           Histogram
}

// sent is a batch of messages that were sent.
type sent struct {
	*client.Delivery
	due []time.Duration
}

// publish publishes with all publishers until the duration is over or the context ends, and
// waits for the acknowledgements.
func (r *run) publish(ctx, living context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.Duration)
	defer cancel()
	finished := make(chan struct{}, len(r.publishers))
	for _, p := range r.publishers {
		p.pending = make(chan struct{}, r.Window)
		go func() {
			p.publishAll(ctx, living)
			finished <- struct{}{}
		}()
	}
	for range r.publishers {
		<-finished
	}
}

func (p *publisher) publishAll(ctx, living context.Context) {
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		for batch := range p.sent {
			p.settle(batch)
		}
	}()
	for {
		due := p.awaitDue(ctx)
		if len(due) == 0 {
			break
		}
		p.send(living, due)
	}
	close(p.sent)
	<-settled
}

// awaitDue waits until messages are due and the window has space for them, and returns when
// they were due; none if the context has ended.
func (p *publisher) awaitDue(ctx context.Context) []time.Duration {
	if !p.reserve(ctx) {
		return nil
	}
	if p.Rate == 0 {
		return p.fill()
	}
	interval := float64(time.Second) * float64(p.Publishers) / p.Rate
	offset := interval * float64(p.number) / float64(p.Publishers) // so that not all publish at once
	dueAt := func(n uint64) time.Duration { return p.start + time.Duration(offset+float64(n)*interval) }
	end := p.start + p.Duration
	if dueAt(p.next) >= end || !messaging.Sleep(ctx, dueAt(p.next)-p.now()) {
		return nil
	}
	due, now := []time.Duration{dueAt(p.next)}, min(p.now(), end-1)
	for n := p.next + 1; len(due) < maxBatch && dueAt(n) <= now && p.tryReserve(); n++ {
		due = append(due, dueAt(n))
	}
	return due
}

// fill returns as many as the window has space for, all due now.
func (p *publisher) fill() []time.Duration {
	due := []time.Duration{p.now()}
	for len(due) < maxBatch && p.tryReserve() {
		due = append(due, due[0])
	}
	return due
}

// reserve waits for a place in the window, and reports whether the context lives on.
func (p *publisher) reserve(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	if p.QoS == 0 {
		return true
	}
	select {
	case p.pending <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *publisher) tryReserve() bool {
	if p.QoS == 0 {
		return true
	}
	select {
	case p.pending <- struct{}{}:
		return true
	default:
		return false
	}
}

// send sends messages. Those above QoS 0 are settled later.
func (p *publisher) send(ctx context.Context, due []time.Duration) {
	messages := make([]messaging.Message, len(due))
	for i := range messages {
		payload := make([]byte, p.Size)
		binary.BigEndian.PutUint64(payload, p.next)
		binary.BigEndian.PutUint64(payload[8:], uint64(due[i]))
		p.next++
		messages[i] = messaging.Message{Topic: p.topic(p.number), Payload: payload, QoS: p.QoS}
	}
	d, n, err := p.client.Send(ctx, messages)
	if p.QoS == 0 {
		p.done += uint64(n)
		p.givenUp += uint64(len(due) - n)
	} else {
		p.sent <- sent{d, due}
	}
	if err != nil {
		messaging.Sleep(ctx, retryPause)
	}
}

// settle waits until all messages of a batch are acknowledged or given up.
func (p *publisher) settle(batch sent) {
	<-batch.Done()
	now := p.now()
	for i, due := range batch.due {
		switch o := batch.Outcome(i); {
		case !o.Done:
			p.givenUp++
		case o.Code != 0:
			p.refused++
		default:
			p.done++
			p.acknowledged.observe(now - due)
		}
		<-p.pending
	}
}
