package kafka

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"signalbox/broker/bridges"
)

// Deliver produces a batch and waits for every acknowledgement.
func (c *connector) Deliver(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error {
	if c.client == nil {
		return &bridges.Lost{Err: errNotConnected}
	}
	d := &delivery{client: c.client, connections: c.connections, knownTopics: c.knownTopics, records: make([]*kgo.Record, len(batch)), results: results, blocked: make(map[string]error)}
	for i, e := range batch {
		r, err := c.plans[e.Mapping].record(e)
		if err != nil {
			results[i] = bridges.Result{State: bridges.Rejected, Reason: err.Error()}
			continue
		}
		d.records[i] = r
	}
	if err := d.run(ctx, int(c.maxBytes)); err != nil {
		return c.lost(err)
	}
	return d.first
}

// delivery is the delivery of one batch.
type delivery struct {
	client      *kgo.Client
	connections *connections
	knownTopics map[string]bool // topics whose partitions the client knows
	records     []*kgo.Record   // nil for those that have a result
	results     []bridges.Result
	blocked     map[string]error // topics that accept nothing at present
	first       error            // the first of these errors
}

// run sends portions that fit into one batch of each partition. Such a batch succeeds or fails as
// a whole, so that no message overtakes another that failed. After an error the client is
// unusable.
func (d *delivery) run(ctx context.Context, maxBytes int) error {
	var portion []int
	bytes := 0
	for i, r := range d.records {
		if r == nil {
			continue
		}
		n := size(r)
		if len(portion) > 0 && bytes+n > maxBytes {
			if err := d.sendPortion(ctx, portion); err != nil {
				return err
			}
			portion, bytes = nil, 0
		}
		portion, bytes = append(portion, i), bytes+n
	}
	return d.sendPortion(ctx, portion)
}

// sendPortion sends the first message of each topic that is new to the client before the others,
// because messages of such a topic are added to their batch while it may be sent already.
func (d *delivery) sendPortion(ctx context.Context, portion []int) error {
	var first, others []int
	begun := make(map[string]bool)
	for _, i := range portion {
		topic := d.records[i].Topic
		if d.knownTopics[topic] || begun[topic] {
			others = append(others, i)
			continue
		}
		begun[topic] = true
		first = append(first, i)
	}
	if err := d.send(ctx, first); err != nil {
		return err
	}
	return d.send(ctx, others)
}

// send sends messages of known topics, and at most one message of each new topic. If a batch is
// refused because of its contents, its messages are sent one by one, in order.
func (d *delivery) send(ctx context.Context, portion []int) error {
	portion = d.withoutBlocked(portion)
	if len(portion) == 0 {
		return nil
	}
	outcomes, flushed := d.produce(ctx, portion)
	var singly []int
	var fatal error
	for k, i := range portion {
		topic := d.records[i].Topic
		d.knownTopics[topic] = true
		switch err := outcomes[k]; {
		case err == nil:
			d.results[i] = bridges.Result{State: bridges.Delivered}
		case errors.Is(err, errUnacknowledged):
		case isRecordError(err) && len(portion) > 1:
			singly = append(singly, i)
		case isRecordError(err) || errors.Is(err, kerr.InvalidTopicException):
			d.results[i] = bridges.Result{State: bridges.Rejected, Reason: recordReason(err, topic)}
		case isTopicError(err):
			d.block(topicError(err, topic), topic)
			d.results[i].Reason = d.blocked[topic].Error()
		default:
			fatal = cmp.Or(fatal, err)
		}
	}
	if err := cmp.Or(flushed, fatal); err != nil {
		return err
	}
	for _, i := range singly {
		if err := d.send(ctx, []int{i}); err != nil {
			return err
		}
	}
	return nil
}

func (d *delivery) block(err error, topic string) {
	delete(d.knownTopics, topic)
	if d.blocked[topic] == nil {
		d.blocked[topic] = err
	}
	d.first = cmp.Or(d.first, err)
}

// withoutBlocked removes the messages of held topics.
func (d *delivery) withoutBlocked(portion []int) []int {
	var left []int
	for _, i := range portion {
		if err := d.blocked[d.records[i].Topic]; err != nil {
			d.results[i].Reason = err.Error()
			continue
		}
		left = append(left, i)
	}
	return left
}

// errUnacknowledged is the outcome of a record without acknowledgement.
var errUnacknowledged = errors.New("not acknowledged yet")

// outcomes are set by the client's goroutines.
type outcomes struct {
	mu   sync.Mutex // guards the field below
	list []error
}

func (o *outcomes) set(k int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list[k] = err
}

// take returns the outcomes so far. Later ones do not change them.
func (o *outcomes) take() []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := o.list
	o.list = make([]error, len(list))
	return list
}

// produce produces a portion and waits for its acknowledgements. The error is the context's.
func (d *delivery) produce(ctx context.Context, portion []int) ([]error, error) {
	o := &outcomes{list: make([]error, len(portion))}
	for k := range portion {
		o.list[k] = errUnacknowledged
	}
	d.connections.withWritesPaused(func() { d.enqueue(ctx, portion, o) })
	err := d.client.Flush(ctx)
	return o.take(), err
}

// enqueue adds a portion to the client's buffer. The client may start to send before Flush, as the
// work of the previous Flush may not be finished.
func (d *delivery) enqueue(ctx context.Context, portion []int, o *outcomes) {
	for k, i := range portion {
		// The context ends the wait, not the record: an idempotent producer must not abandon one
		// of many.
		d.client.Produce(context.WithoutCancel(ctx), d.records[i], func(_ *kgo.Record, err error) { o.set(k, err) })
	}
}
