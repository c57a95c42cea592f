// Package audit writes the audit log: who did what, and what came of it. The rows are in
// package db, most of them written with the change that they are about; this package has what
// goes on beside the operations: it counts repeated refusals, signs the state of the chain and
// deletes old rows.
//
// It imports db and the configuration of the destinations, and must not import net/http, handlers, router or broker.
package audit

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"signalbox/db"
	"signalbox/handlers/audit/sinks"
)

// Config is the configuration under "audit.".
type Config struct {
	// Required refuses a change whose row cannot be written.
	Required bool `mapstructure:"required"`
	// Keep is how long rows are kept, MaxRows how many; 0 for no bound.
	Keep    time.Duration `mapstructure:"keep"`
	MaxRows int64         `mapstructure:"max_rows"`
	// Sinks are the destinations of copies.
	Sinks sinks.Config `mapstructure:"sinks"`
}

// DefaultConfig returns the values of an empty configuration.
func DefaultConfig() Config {
	return Config{Required: true, Keep: 400 * 24 * time.Hour, MaxRows: 10_000_000}
}

// Validate returns an error that names the keys with invalid values.
func (c Config) Validate() error {
	errs := []error{c.Sinks.Validate()}
	if c.Keep < 0 || c.Keep > 0 && c.Keep < time.Hour {
		errs = append(errs, errors.New("audit.keep: must be 0 or at least 1h"))
	}
	if c.MaxRows < 0 || c.MaxRows > 0 && c.MaxRows < 1000 {
		errs = append(errs, errors.New("audit.max_rows: must be 0 or at least 1000"))
	}
	return errors.Join(errs...)
}

// Sealer encrypts what is stored.
type Sealer interface {
	Seal(plain, aad []byte) []byte
	Unseal(sealed, aad []byte) ([]byte, error)
}

// Event is a row of the audit log.
type Event = db.AuditEvent

// Row is the row of an operation while that runs.
type Row = db.Audit

// The outcomes of events.
const (
	Done    = db.AuditDone
	Failed  = db.AuditFailed
	Refused = db.AuditRefused
	Unknown = db.AuditUnknown
)

// Start returns a context whose first write to the database stores the event as done, and the
// row to be ended.
func Start(ctx context.Context, e Event) (context.Context, *Row) { return db.WithAudit(ctx, e) }

// The intervals of the work beside the operations.
const (
	repeatInterval     = time.Minute
	checkpointInterval = time.Hour
	beginInterval      = time.Second // between two attempts to store what is to be stored first
)

// Log is the audit log. It is safe for concurrent use.
type Log struct {
	db     *db.DB
	cfg    Config
	sealer Sealer
	now    func() time.Time
	log    *slog.Logger

	repeats repeats
	signing sync.Mutex  // one checkpoint at a time; guards signer
	signer  note.Signer // nil while its key has not been received from a node of the cluster
	stop    context.CancelFunc
	running sync.WaitGroup

	verifying chan struct{} // holds a value while Verify reads the log
}

// Open opens the audit log: operations that the former process has not ended are added as
// unknown; later, if the database is shared by the nodes of a cluster, which may not have a
// majority yet. Close ends what Open began.
func Open(ctx context.Context, d *db.DB, sealer Sealer, cfg Config, now func() time.Time, log *slog.Logger) (*Log, error) {
	l := &Log{db: d, cfg: cfg, sealer: sealer, now: now, log: log, verifying: make(chan struct{}, 1)}
	toBegin := d.IsShared()
	if !toBegin {
		if err := l.begin(ctx); err != nil && !errors.Is(err, db.ErrNoKey) {
			return nil, err
		}
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.running.Go(func() { l.run(background, toBegin) })
	return l, nil
}

// begin does what is to be stored first.
func (l *Log) begin(ctx context.Context) error {
	if _, err := l.db.CloseAudits(ctx); err != nil {
		return err
	}
	l.signing.Lock()
	defer l.signing.Unlock()
	return l.openSigner(ctx)
}

// Close stores what is pending and signs the last state.
func (l *Log) Close(ctx context.Context) error {
	l.stop()
	l.running.Wait()
	err := l.storeRepeated(ctx)
	if !l.db.Leads() {
		return err
	}
	_, e := l.Checkpoint(ctx)
	return errors.Join(err, e)
}

// run does the regular work until ctx ends, after begin if that has to be done yet.
func (l *Log) run(ctx context.Context, toBegin bool) {
	often, hourly := time.NewTicker(repeatInterval), time.NewTicker(checkpointInterval)
	defer often.Stop()
	defer hourly.Stop()
	for toBegin && ctx.Err() == nil {
		err := l.begin(ctx)
		if toBegin = errors.Is(err, db.ErrUnavailable) || errors.Is(err, db.ErrUnconfirmed); toBegin {
			pause(ctx, beginInterval)
			continue
		}
		if !errors.Is(err, db.ErrNoKey) { // with which sign begins
			l.warn(ctx, "operations that were not ended are not in the audit log", err)
		}
	}
	l.keep(ctx, false)
	for {
		select {
		case <-ctx.Done():
			return
		case <-often.C:
			l.warn(ctx, "repeated events of the audit log could not be stored", l.storeRepeated(ctx))
		case <-hourly.C:
			l.keep(ctx, true)
		}
	}
}

// keep signs the log if that is asked for, and deletes old rows, unless another node does so.
func (l *Log) keep(ctx context.Context, sign bool) {
	if !l.db.Leads() {
		return
	}
	if sign {
		_, err := l.Checkpoint(ctx)
		l.warn(ctx, "the audit log could not be signed", err)
	}
	l.tidy(ctx)
}

// pause waits for a time, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

func (l *Log) warn(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		l.log.WarnContext(ctx, what, "error", err)
	}
}

// Begin stores that an operation begins that changes what is not in the database, such as a
// remote broker. An error means that it must not be begun.
func (l *Log) Begin(ctx context.Context, a *db.Audit) error {
	err := l.db.BeginAudit(ctx, a)
	if err == nil || l.cfg.Required {
		return err
	}
	l.log.WarnContext(ctx, "a change is made without an audit row, as none can be stored", "error", err)
	return nil
}

// End stores the outcome of an operation, unless its change was stored together with it.
func (l *Log) End(ctx context.Context, a *db.Audit, outcome string, status int, code string) {
	if err := l.db.EndAudit(ctx, a, outcome, status, code); err != nil {
		l.log.ErrorContext(ctx, "the outcome of an operation is missing in the audit log", "outcome", outcome, "error", err)
	}
}

// EndAs stores the outcome of an operation as several events.
func (l *Log) EndAs(ctx context.Context, a *db.Audit, events []db.AuditEvent) {
	if err := l.db.EndAuditAs(ctx, a, events); err != nil {
		l.log.ErrorContext(ctx, "the outcome of an operation is missing in the audit log", "operation", a.Event().Operation, "error", err)
	}
}

// Repeatable stores an event of a kind that a caller may repeat at will, such as a refusal:
// the first of equal ones at once, the others of a minute as one row with their number.
func (l *Log) Repeatable(ctx context.Context, e db.AuditEvent) {
	if !l.repeats.first(e) {
		return
	}
	if err := l.db.AddAudit(ctx, e); err != nil {
		l.repeats.putBack(e)
		l.log.WarnContext(ctx, "an event is not yet in the audit log", "operation", e.Operation, "outcome", e.Outcome, "error", err)
	}
}

func (l *Log) storeRepeated(ctx context.Context) error {
	events := l.repeats.take()
	for i, e := range events {
		if err := l.db.AddAudit(ctx, e); err != nil {
			l.repeats.putBack(events[i:]...)
			return err
		}
	}
	return nil
}

// tidy deletes the rows that need not be kept. Each step leaves a signed state in their place.
func (l *Log) tidy(ctx context.Context) {
	for ctx.Err() == nil {
		var before time.Time
		if l.cfg.Keep > 0 {
			before = l.now().Add(-l.cfg.Keep)
		}
		head, err := l.db.AuditCut(ctx, before, l.maxRows())
		if errors.Is(err, db.ErrNotFound) {
			return
		}
		if err == nil {
			err = l.cut(ctx, head)
		}
		if err != nil {
			l.warn(ctx, "old rows of the audit log could not be deleted", err)
			return
		}
	}
}

func (l *Log) maxRows() int64 {
	if l.cfg.MaxRows == 0 {
		return 1 << 62
	}
	return l.cfg.MaxRows
}

func (l *Log) cut(ctx context.Context, head db.AuditHead) error {
	l.signing.Lock()
	defer l.signing.Unlock()
	c, err := l.sign(ctx, anchorTitle, head)
	if err != nil {
		return err
	}
	return l.db.CutAudit(ctx, c)
}
