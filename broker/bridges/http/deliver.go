package http

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"signalbox/broker/bridges"
)

// maxFailures is the number of failed requests after which a delivery ends.
const maxFailures = 3

// delivery is one call of Deliver.
type delivery struct {
	*connector
	batch         []*bridges.Entry
	results       []bridges.Result
	startDeadline time.Time // no request is started after it; zero for no limit

	mu        sync.Mutex // guards the fields below
	failures  int
	stopped   bool
	hasResult bool
	err       error // the first
}

// sequence is the entries that are sent in order: those of one topic mapping and, if each has its
// own request, of one topic.
type sequence struct {
	mapping *topicMapping
	entries []int // indices in the batch
}

// Deliver starts requests during three quarters of its time, so that a request to a slow server
// is not cancelled.
func (c *connector) Deliver(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error {
	if err := c.retryDelay.wait(ctx, c.now()); err != nil {
		return err
	}
	d := &delivery{connector: c, batch: batch, results: results}
	if deadline, ok := ctx.Deadline(); ok {
		now := time.Now()
		d.startDeadline = now.Add(deadline.Sub(now) / 4 * 3)
	}
	d.run(ctx, d.sequences())
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// sequences groups the batch into sequences, in the order of their first entries.
func (d *delivery) sequences() []*sequence {
	type key struct{ mapping, topic string }
	known := map[key]*sequence{}
	var all []*sequence
	for i, e := range d.batch {
		m := d.mappings[e.Mapping]
		if m == nil {
			d.results[i] = bridges.Result{State: bridges.Rejected, Reason: fmt.Sprintf("the topic mapping %q no longer exists", e.Mapping)}
			continue
		}
		k := key{e.Mapping, e.Topic}
		if m.Batch {
			k.topic = ""
		}
		if known[k] == nil {
			known[k] = &sequence{mapping: m}
			all = append(all, known[k])
		}
		known[k].entries = append(known[k].entries, i)
	}
	return all
}

// run processes the sequences, up to the configured number concurrently.
func (d *delivery) run(ctx context.Context, sequences []*sequence) {
	queue := make(chan *sequence, len(sequences))
	for _, l := range sequences {
		queue <- l
	}
	close(queue)
	var workers sync.WaitGroup
	for range min(d.options.Concurrency, len(sequences)) {
		workers.Go(func() {
			for l := range queue {
				d.sendSequence(ctx, l)
			}
		})
	}
	workers.Wait()
}

func (d *delivery) sendSequence(ctx context.Context, l *sequence) {
	if l.mapping.Batch {
		d.sendBatch(ctx, l)
		return
	}
	for _, i := range l.entries {
		if !d.mayStart() || !d.sendOne(ctx, l.mapping, i) {
			return
		}
	}
}

// sendOne sends one message. It reports whether the next of its topic may be sent.
func (d *delivery) sendOne(ctx context.Context, m *topicMapping, i int) bool {
	r, err := d.requestForOne(m, d.batch[i])
	if err != nil {
		d.setResults([]int{i}, outcome{state: bridges.Rejected, reason: err.Error()})
		return true
	}
	o := d.attempt(ctx, r)
	d.setResults([]int{i}, o)
	return o.err == nil
}

// sendBatch sends the messages of a sequence in one request.
func (d *delivery) sendBatch(ctx context.Context, l *sequence) {
	bodies := make([][]byte, 0, len(l.entries))
	fit := make([]int, 0, len(l.entries))
	for _, i := range l.entries {
		body, err := l.mapping.body.Of(d.batch[i].MappingMessage())
		if err != nil {
			d.setResults([]int{i}, outcome{state: bridges.Rejected, reason: err.Error()})
			continue
		}
		bodies, fit = append(bodies, body), append(fit, i)
	}
	if len(fit) > 0 {
		d.sendHalves(ctx, l.mapping, fit, bodies)
	}
}

// divisible are the statuses that may concern only some of the messages.
var divisible = []int{400, 413, 422}

// sendHalves sends messages in one request, and in halves if the server refuses them, recursively: a
// message that is refused alone is rejected. It reports whether the messages after them may be
// sent.
func (d *delivery) sendHalves(ctx context.Context, m *topicMapping, entries []int, bodies [][]byte) bool {
	if !d.mayStart() {
		return false
	}
	messages := make([]*bridges.Entry, 0, len(entries))
	for _, i := range entries {
		messages = append(messages, d.batch[i])
	}
	r, err := d.requestForBatch(m, messages, bodies)
	if err != nil { // path and headers are the same for all
		d.setResults(entries, outcome{state: bridges.Rejected, reason: err.Error()})
		return true
	}
	o := d.attempt(ctx, r)
	if o.state == bridges.Rejected && len(entries) > 1 && slices.Contains(divisible, o.status) {
		half := len(entries) / 2
		return d.sendHalves(ctx, m, entries[:half], bodies[:half]) && d.sendHalves(ctx, m, entries[half:], bodies[half:])
	}
	d.setResults(entries, o)
	return o.err == nil
}

// mayStart reports whether another request may be started.
func (d *delivery) mayStart() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return false
	}
	d.stopped = d.hasResult && !d.startDeadline.IsZero() && time.Now().After(d.startDeadline)
	return !d.stopped
}

// setResults sets the result of entries.
func (d *delivery) setResults(entries []int, o outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range entries {
		d.results[i] = bridges.Result{State: o.state, Reason: o.reason, Response: o.response}
	}
	if o.err == nil {
		d.hasResult = true
		return
	}
	if _, lost := errors.AsType[*bridges.Lost](o.err); d.err == nil || lost {
		d.err = o.err
	}
	d.failures++
	d.stopped = d.stopped || o.stop || d.failures >= maxFailures
}
