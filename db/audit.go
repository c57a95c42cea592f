package db

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"time"
)

// The outcomes of an audited event. Begun is that of an operation in progress, which is not
// part of the chain yet; Unknown that of one whose end was not seen.
const (
	AuditBegun   = "begun"
	AuditDone    = "done"
	AuditFailed  = "failed"  // nothing was changed, or not all
	AuditRefused = "refused" // the caller was not let in, or may not do this
	AuditUnknown = "unknown"
)

// AuditEvent is a row of the audit log: who did what to which object, and what came of it.
// An empty member does not apply. Seq and Hash are those of the chain, and ignored on writes.
type AuditEvent struct {
	Seq       int64           `json:"seq"`
	Time      time.Time       `json:"time"`
	ActorKind string          `json:"actorKind"` // "user", "token", "client", "command" or "system"; "" = not authenticated
	ActorID   string          `json:"actorId"`
	ActorName string          `json:"actorName"`
	Address   string          `json:"address"`
	UserAgent string          `json:"userAgent"`
	RequestID string          `json:"requestId"`
	Operation string          `json:"operation"`
	ProjectID string          `json:"projectId"`
	BrokerID  string          `json:"brokerId"`
	Object    string          `json:"object"`
	Outcome   string          `json:"outcome"`
	Status    int             `json:"status"`
	Code      string          `json:"code"`
	Change    json.RawMessage `json:"change"` // of members, before and after; secrets are masked by the caller
	Duration  time.Duration   `json:"duration"`
	Count     int             `json:"count"` // of equal events that the row stands for, 1 at least
	Hash      []byte          `json:"-"`
}

// maxAuditText bounds each text of a row in bytes, but for the change.
const maxAuditText = 512

// texts returns the members that are texts.
func (e *AuditEvent) texts() []*string {
	return []*string{&e.ActorKind, &e.ActorID, &e.ActorName, &e.Address, &e.UserAgent, &e.RequestID, &e.Operation,
		&e.ProjectID, &e.BrokerID, &e.Object, &e.Outcome, &e.Code}
}

// normalise brings the event into the form in which it is stored and hashed.
func (e *AuditEvent) normalise() {
	for _, s := range e.texts() {
		*s = bounded(*s)
	}
	e.Time = e.Time.Truncate(time.Millisecond).UTC()
	e.Duration = e.Duration.Truncate(time.Microsecond)
	e.Count = max(1, e.Count)
}

// bounded returns a text as it is stored: valid UTF-8, of at most maxAuditText bytes before what
// replaces invalid ones.
func bounded(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxAuditText)], "\ufffd")
}

// Audit is the audit row of one operation while that runs. The first write to the database
// with its context stores the row in the same transaction. It is safe for concurrent use.
type Audit struct {
	mu     sync.Mutex
	event  AuditEvent
	open   string // id of its row in audit_open; "" if there is none
	stored bool
}

type auditKey struct{}

// WithAudit returns a context whose first write stores the event as done, and the event.
func WithAudit(ctx context.Context, e AuditEvent) (context.Context, *Audit) {
	a := &Audit{event: e}
	return context.WithValue(ctx, auditKey{}, a), a
}

// NoteAudit changes the event of the context's operation, if that has one: what only the
// operation knows, such as the id of a new object, before its first write.
func NoteAudit(ctx context.Context, change func(*AuditEvent)) {
	if a, ok := ctx.Value(auditKey{}).(*Audit); ok {
		a.Note(change)
	}
}

// Note changes the event, unless it is stored already.
func (a *Audit) Note(change func(*AuditEvent)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.stored {
		change(&a.event)
	}
}

// Stored reports whether the event is part of the chain.
func (a *Audit) Stored() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stored
}

// Event returns the event as it is known by now.
func (a *Audit) Event() AuditEvent {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.event
}

// take returns the event to be stored by a write, and whether it is the first one. It keeps
// the event locked until settle.
func (a *Audit) take(now time.Time) (e AuditEvent, open string, first bool) {
	a.mu.Lock()
	if a.stored {
		a.mu.Unlock()
		return e, "", false
	}
	e = a.event
	e.Outcome, e.Duration = AuditDone, now.Sub(e.Time)
	return e, a.open, true
}

// settle ends what take began.
func (a *Audit) settle(committed bool) {
	a.stored = a.stored || committed
	a.mu.Unlock()
}

// audited runs fn in a write and stores the event of the context in the same transaction.
func (d *DB) audited(ctx context.Context, write func(func(*writeTx) error) error, fn func(*writeTx) error) error {
	a, ok := ctx.Value(auditKey{}).(*Audit)
	if !ok {
		return write(fn)
	}
	e, open, first := a.take(time.Now())
	if !first {
		return write(fn)
	}
	committed := false
	defer func() { a.settle(committed) }() // also after a panic
	err := write(func(tx *writeTx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return d.auditIn(ctx, tx).close(ctx, open, e)
	})
	committed = err == nil
	return err
}

const (
	beginAuditQuery = "INSERT INTO audit_open (id, started_at, event, origin) VALUES (?, ?, ?, ?)"
	endAuditQuery   = "DELETE FROM audit_open WHERE id = ?"
)

// BeginAudit stores that the operation of an audit begins, before it changes what is not in
// this database. After a crash the operation is in the chain as AuditUnknown.
func (d *DB) BeginAudit(ctx context.Context, a *Audit) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	id, e := rand.Text(), a.event
	e.normalise()
	e.Outcome = AuditBegun
	event, err := json.Marshal(e)
	if err != nil {
		return err
	}
	err = d.audits.commit(d, func(ctx context.Context, w *auditTx) error {
		_, err := w.begin.ExecContext(ctx, id, millis(e.Time), string(event), d.run)
		return err
	})
	if err == nil {
		a.open = id
	}
	return wrap("begin audit row", err)
}

// EndAudit stores the outcome of an operation. One that a write has stored as done is not
// stored again, unless the operation failed after that.
func (d *DB) EndAudit(ctx context.Context, a *Audit, outcome string, status int, code string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stored && outcome == AuditDone {
		return nil
	}
	e, open := a.event, a.open
	e.Outcome, e.Status, e.Code, e.Duration = outcome, status, code, time.Since(e.Time)
	if a.stored {
		open = ""
	}
	err := d.audits.commit(d, func(ctx context.Context, w *auditTx) error { return w.close(ctx, open, e) })
	a.stored = a.stored || err == nil
	return wrap("end audit row", err)
}

// EndAuditAs stores in place of a begun event those that it has become, if any.
func (d *DB) EndAuditAs(_ context.Context, a *Audit, events []AuditEvent) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	open := a.open
	err := d.audits.commit(d, func(ctx context.Context, w *auditTx) error {
		if _, err := w.end.ExecContext(ctx, open); err != nil {
			return err
		}
		for _, e := range events {
			if err := w.append(ctx, e); err != nil {
				return err
			}
		}
		return nil
	})
	a.stored = a.stored || err == nil
	return wrap("end audit rows", err)
}

// AddAudit stores an event that has ended.
func (d *DB) AddAudit(_ context.Context, e AuditEvent) error {
	err := d.audits.commit(d, func(ctx context.Context, w *auditTx) error { return w.close(ctx, "", e) })
	return wrap("add audit row", err)
}

// staleAudit is the age at which an operation that another node has begun counts as not ended:
// that node was lost. No operation takes as long.
const staleAudit = 24 * time.Hour

// CloseAudits moves the operations that a former process has begun and not ended to the chain
// and returns their number. In a database that is shared, these are the operations of this node,
// and those of others that began a day ago or earlier.
func (d *DB) CloseAudits(ctx context.Context) (n int, err error) {
	const q = `
		SELECT id, event FROM audit_open
		WHERE origin <> ?4 AND (NOT ?1 OR origin = '' OR substr(origin, 1, length(?2)) = ?2 OR started_at < ?3)
		ORDER BY started_at, id`
	stale := millis(time.Now().Add(-staleAudit))
	err = d.write(ctx, "close audit rows", func(tx *writeTx) error {
		open, err := collect(ctx, tx, scanOpen, q, d.sharing.Load() != nil, d.origin, stale, d.run)
		if err != nil {
			return err
		}
		w := d.auditIn(ctx, tx)
		for _, o := range open {
			o.event.Outcome = AuditUnknown
			if err := w.close(ctx, o.id, o.event); err != nil {
				return err
			}
		}
		n = len(open)
		return nil
	})
	return n, err
}

// openAudit is a row of audit_open.
type openAudit struct {
	id    string
	event AuditEvent
}

func scanOpen(row scanner) (o openAudit, err error) {
	var event []byte
	if err = row.Scan(&o.id, &event); err == nil {
		err = json.Unmarshal(event, &o.event)
	}
	return o, err
}

// auditTx writes rows of the audit log in one transaction.
type auditTx struct {
	head            *sql.Stmt
	add, begin, end writeStmt
	last            *AuditHead // the state of the chain; nil before the first row
}

// auditIn returns what writes the audit log in a transaction.
func (d *DB) auditIn(ctx context.Context, tx *writeTx) *auditTx {
	return &auditTx{head: tx.tx.StmtContext(ctx, d.audit.head), add: tx.prepared(ctx, d.audit.add, addAuditQuery),
		begin: tx.prepared(ctx, d.audit.begin, beginAuditQuery), end: tx.prepared(ctx, d.audit.end, endAuditQuery)}
}

// close appends an event to the chain, and deletes its row in audit_open if it has one.
func (w *auditTx) close(ctx context.Context, open string, e AuditEvent) error {
	if open != "" {
		if _, err := w.end.ExecContext(ctx, open); err != nil {
			return err
		}
	}
	return w.append(ctx, e)
}

// auditQueue commits the rows of concurrent operations together: those that wait while a
// transaction runs are part of the next one. It does not wait for more: a timer that did cost fewer
// transactions and more latency.
type auditQueue struct {
	mu      sync.Mutex
	waiting []*auditWrite
	running bool
	idle    sync.WaitGroup
}

// auditWrite is one caller's part of a transaction.
type auditWrite struct {
	do   func(context.Context, *auditTx) error
	done chan error
}

// commit runs do in a transaction and returns when that is durable. It does not end with the
// context of a caller: whether a row was stored must be known.
func (q *auditQueue) commit(d *DB, do func(context.Context, *auditTx) error) error {
	if d.sharing.Load() != nil { // which has a queue of its own
		return d.append(context.Background(), func(ctx context.Context, tx *writeTx) error { return do(ctx, d.auditIn(ctx, tx)) })
	}
	w := &auditWrite{do: do, done: make(chan error, 1)}
	q.mu.Lock()
	q.waiting = append(q.waiting, w)
	if !q.running {
		q.running = true
		q.idle.Go(func() { q.run(d) })
	}
	q.mu.Unlock()
	return <-w.done
}

// run commits until nothing waits.
func (q *auditQueue) run(d *DB) {
	for {
		runtime.Gosched() // lets callers that are ready queue their rows first
		q.mu.Lock()
		batch := q.waiting
		q.waiting = nil
		q.running = len(batch) > 0
		q.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		err := d.append(context.Background(), func(ctx context.Context, tx *writeTx) error {
			rows := d.auditIn(ctx, tx)
			for _, w := range batch {
				if err := w.do(ctx, rows); err != nil {
					return err
				}
			}
			return nil
		})
		for _, w := range batch {
			w.done <- err
		}
	}
}

// append is write for rows that no cached row depends on.
func (d *DB) append(ctx context.Context, fn func(context.Context, *writeTx) error) error {
	err := d.transact(ctx, func(tx *writeTx) error { return fn(ctx, tx) })
	d.noteFailure(err)
	return err
}
