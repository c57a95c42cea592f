package http

import (
	"context"
	"errors"
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
	batch   []*bridges.Entry
	results []bridges.Result
	enough  time.Time // no request is started after it; zero for no limit

	mu       sync.Mutex // guards the fields below
	failures int
	halted   bool
	resolved bool
	err      error // the first
}

// lane is the entries that are sent in order: those of one topic mapping and, if each has its own
// request, of one topic.
type lane struct {
	mapping *topicMapping
	entries []int // indices in the batch
}

// Deliver starts requests during three quarters of its time, so that a request to a slow server
// is not cancelled.
func (c *connector) Deliver(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error {
	if err := c.pause.wait(ctx, c.now()); err != nil {
		return err
	}
	d := &delivery{connector: c, batch: batch, results: results}
	if deadline, ok := ctx.Deadline(); ok {
		now := time.Now()
		d.enough = now.Add(deadline.Sub(now) / 4 * 3)
	}
	d.run(ctx, d.lanes())
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// lanes groups the batch into lanes, in the order of their first entries.
func (d *delivery) lanes() []*lane {
	type key struct{ mapping, topic string }
	known := map[key]*lane{}
	var all []*lane
	for i, e := range d.batch {
		m := d.mappings[e.Mapping]
		if m == nil {
			d.results[i] = bridges.Result{State: bridges.Rejected, Reason: "there is no topic mapping of the name " + e.Mapping + " any more"}
			continue
		}
		k := key{e.Mapping, e.Topic}
		if m.Batch {
			k.topic = ""
		}
		if known[k] == nil {
			known[k] = &lane{mapping: m}
			all = append(all, known[k])
		}
		known[k].entries = append(known[k].entries, i)
	}
	return all
}

// run processes the lanes, up to the configured number concurrently.
func (d *delivery) run(ctx context.Context, lanes []*lane) {
	queue := make(chan *lane, len(lanes))
	for _, l := range lanes {
		queue <- l
	}
	close(queue)
	var workers sync.WaitGroup
	for range min(d.options.Concurrency, len(lanes)) {
		workers.Go(func() {
			for l := range queue {
				d.work(ctx, l)
			}
		})
	}
	workers.Wait()
}

func (d *delivery) work(ctx context.Context, l *lane) {
	if l.mapping.Batch {
		d.together(ctx, l)
		return
	}
	for _, i := range l.entries {
		if !d.goesOn() || !d.one(ctx, l.mapping, i) {
			return
		}
	}
}

// one sends one message. It reports whether the next of its topic may be sent.
func (d *delivery) one(ctx context.Context, m *topicMapping, i int) bool {
	r, err := d.single(m, d.batch[i])
	if err != nil {
		d.note([]int{i}, outcome{state: bridges.Rejected, reason: err.Error()})
		return true
	}
	o := d.attempt(ctx, r)
	d.note([]int{i}, o)
	return o.err == nil
}

// together sends the messages of a lane in one request.
func (d *delivery) together(ctx context.Context, l *lane) {
	bodies := make([][]byte, 0, len(l.entries))
	fit := make([]int, 0, len(l.entries))
	for _, i := range l.entries {
		body, err := l.mapping.body.Of(d.batch[i].Seen())
		if err != nil {
			d.note([]int{i}, outcome{state: bridges.Rejected, reason: err.Error()})
			continue
		}
		bodies, fit = append(bodies, body), append(fit, i)
	}
	if len(fit) > 0 {
		d.split(ctx, l.mapping, fit, bodies)
	}
}

// divisible are the statuses that may concern only some of the messages.
var divisible = []int{400, 413, 422}

// split sends messages in one request, and in halves if the server refuses them, recursively: a
// message that is refused alone is rejected. It reports whether the messages after them may be
// sent.
func (d *delivery) split(ctx context.Context, m *topicMapping, entries []int, bodies [][]byte) bool {
	if !d.goesOn() {
		return false
	}
	r, err := d.many(m, d.batch[entries[0]], bodies)
	if err != nil { // path and headers are the same for all
		d.note(entries, outcome{state: bridges.Rejected, reason: err.Error()})
		return true
	}
	o := d.attempt(ctx, r)
	if o.state == bridges.Rejected && len(entries) > 1 && slices.Contains(divisible, o.status) {
		half := len(entries) / 2
		return d.split(ctx, m, entries[:half], bodies[:half]) && d.split(ctx, m, entries[half:], bodies[half:])
	}
	d.note(entries, o)
	return o.err == nil
}

// goesOn reports whether another request may be started.
func (d *delivery) goesOn() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.halted {
		return false
	}
	d.halted = d.resolved && !d.enough.IsZero() && time.Now().After(d.enough)
	return !d.halted
}

// note sets the result of entries.
func (d *delivery) note(entries []int, o outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, i := range entries {
		d.results[i] = bridges.Result{State: o.state, Reason: o.reason, Answer: o.answer}
	}
	if o.err == nil {
		d.resolved = true
		return
	}
	if _, lost := errors.AsType[*bridges.Lost](o.err); d.err == nil || lost {
		d.err = o.err
	}
	d.failures++
	d.halted = d.halted || o.halt || d.failures >= maxFailures
}
