package sinks

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"signalbox/db"
)

// These bound what is sent at a time, and how long that may take.
const (
	maxBatch      = 500
	maxBatchBytes = 256 << 10
	sendTime      = 30 * time.Second
	maxPause      = time.Minute
)

// record is what is sent: a row of the log, or a signed state of it.
type record struct {
	event *db.AuditEvent // nil for a checkpoint
	time  time.Time
	json  []byte // an object in one line, without its end
}

// checkpointRecord is a signed state as a destination gets it.
type checkpointRecord struct {
	Seq        int64     `json:"seq"`
	Time       time.Time `json:"time"`
	Checkpoint string    `json:"checkpoint"` // the signed note
}

// destination is where records are sent to.
type destination interface {
	// send returns nil once the destination has the records, or for one that does not
	// acknowledge them, once they are on their way. Without records it reports whether those
	// sent before may be lost.
	send(ctx context.Context, list []record) error
	// close ends what a failure may have left; the next send begins anew.
	close()
}

// sink copies the log to one destination.
type sink struct {
	db     *db.DB
	o      Options
	settle time.Duration
	to     destination

	// used by the goroutine of run only
	stored   db.AuditSink // what the destination certainly has
	sent     db.AuditSink // what was sent
	unsettle []settling
	failed   *batch // what was not sent, which is sent again as it was
	failures int

	mu     sync.Mutex // protects status
	status Status
}

// batch is what is sent at a time.
type batch struct {
	list []record
	to   db.AuditSink // the position that it leads to
	more bool         // there are further records
}

// settling is a position that counts as received at a time.
type settling struct {
	position db.AuditSink
	at       time.Time
}

// run copies until stop is closed. After a failure it waits longer each time.
func (k *sink) run(ctx context.Context, stop <-chan struct{}) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-stop:
			return
		case <-pause.C:
		}
		more, err := k.step(ctx)
		k.note(ctx, err)
		switch {
		case err != nil:
			pause.Reset(min(k.o.Interval<<min(k.failures, 10), maxPause))
		case more:
			pause.Reset(0)
		default:
			pause.Reset(k.o.Interval)
		}
	}
}

// drain copies what is left.
func (k *sink) drain(ctx context.Context) {
	defer k.to.close()
	for more := true; more; {
		var err error
		if more, err = k.step(ctx); err != nil {
			return
		}
	}
}

// step sends the next records and stores what the destination has. more: there are further ones.
func (k *sink) step(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	if err := k.locate(ctx); err != nil {
		return false, err
	}
	b := k.failed
	if b == nil {
		if b, err = k.next(ctx); err != nil || len(b.list) == 0 && len(k.unsettle) == 0 {
			return false, err
		}
	}
	if err := k.to.send(ctx, b.list); err != nil {
		k.to.close()
		if k.sent == k.stored { // the same records follow what the destination certainly has
			k.failed = b
		}
		k.sent, k.unsettle = k.stored, nil
		return false, err
	}
	k.failed = nil
	now := k.o.Now()
	if len(b.list) > 0 {
		k.sent = b.to
		k.unsettle = append(k.unsettle, settling{b.to, now.Add(k.settle)})
	}
	return b.more, k.store(ctx, now)
}

// locate begins anew if the log was replaced by another one.
func (k *sink) locate(ctx context.Context) error {
	stored, err := k.db.AuditSink(ctx, k.stored.Name)
	if err != nil || stored.Seq == k.stored.Seq {
		return err
	}
	k.stored, k.sent, k.unsettle, k.failed = stored, stored, nil, nil
	k.setSeq(stored.Seq)
	return nil
}

// setSeq shows up to which row the destination has the log.
func (k *sink) setSeq(seq int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.Seq = seq
}

// store stores the last position that has settled.
func (k *sink) store(ctx context.Context, now time.Time) error {
	n := 0
	for n < len(k.unsettle) && !now.Before(k.unsettle[n].at) {
		n++
	}
	if n == 0 {
		return nil
	}
	last := k.unsettle[n-1].position
	if err := k.db.PutAuditSink(ctx, k.stored, last); err != nil {
		return err
	}
	k.stored, k.unsettle = last, k.unsettle[n:]
	k.setSeq(last.Seq)
	return nil
}

// next returns the records after those sent.
func (k *sink) next(ctx context.Context) (*batch, error) {
	b := &batch{to: k.sent}
	events, err := k.db.AuditAfter(ctx, b.to.Seq, maxBatch)
	if err != nil {
		return nil, err
	}
	if len(events) > 0 && b.to.Seq > 0 && events[0].Seq > b.to.Seq+1 {
		k.o.Log.WarnContext(ctx, "rows of the audit log were deleted before a destination had them; raise audit.max_rows, or restore the destination sooner",
			"sink", k.status.Name, "from", b.to.Seq+1, "to", events[0].Seq-1)
	}
	size := 0
	for i := range events {
		line, err := k.o.Encode(events[i])
		if err != nil {
			return nil, err
		}
		if size += len(line); size > maxBatchBytes && len(b.list) > 0 {
			b.more = true
			return b, nil
		}
		b.list = append(b.list, record{event: &events[i], time: events[i].Time, json: line})
		b.to.Seq = events[i].Seq
	}
	if len(events) == maxBatch {
		b.more = true
		return b, nil
	}
	return b, k.addCheckpoints(ctx, b)
}

// addCheckpoints adds the signed states of the log up to the last row of a batch.
func (k *sink) addCheckpoints(ctx context.Context, b *batch) error {
	checkpoints, err := k.db.AuditCheckpointsAfter(ctx, b.to.CheckpointTime, b.to.Seq, maxBatch)
	if err != nil {
		return err
	}
	for _, c := range checkpoints {
		line, err := json.Marshal(checkpointRecord{c.Seq, c.Time.UTC(), c.Note})
		if err != nil {
			return err
		}
		b.list = append(b.list, record{time: c.Time, json: line})
		b.to.CheckpointTime = c.Time
	}
	b.more = len(checkpoints) == maxBatch
	return nil
}

// note keeps the outcome of an attempt. A single failure is not logged: a receiver may close a
// connection at any time, and all is sent again.
func (k *sink) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		if k.failures > 1 {
			k.o.Log.InfoContext(ctx, "a destination of the audit log receives again", "sink", k.status.Name)
		}
		k.failures, k.status.Err, k.status.Since = 0, nil, time.Time{}
		return
	}
	if k.failures++; k.failures == 1 {
		k.status.Since = k.o.Now()
	}
	k.status.Err = err
	if k.failures == 2 {
		k.o.Log.WarnContext(ctx, "a destination of the audit log does not receive; its rows are kept and sent later", "sink", k.status.Name, "error", err)
	}
}

// state returns the status at a time when the last row of the log has this number.
func (k *sink) state(last int64) Status {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.status
	s.Pending = max(0, last-s.Seq)
	return s
}

// lines returns records as JSON lines.
func lines(list []record) []byte {
	var out []byte
	for _, r := range list {
		out = append(append(out, r.json...), '\n')
	}
	return out
}
