package db

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
)

// auditForm is the version of the form in which rows are hashed.
const auditForm = "signalbox audit 1"

// auditHash returns the hash of a row: SHA-256 of the hash of the row before it and its own
// canonical form, a JSON array of all members in the order of the table.
func auditHash(previous []byte, e *AuditEvent) ([]byte, error) {
	form, err := json.Marshal([]any{auditForm, e.Seq, e.Time.UnixMilli(), e.ActorKind, e.ActorID, e.ActorName, e.Address,
		e.UserAgent, e.RequestID, e.Operation, e.ProjectID, e.BrokerID, e.Object, e.Outcome, e.Status, e.Code,
		string(e.Change), e.Duration.Microseconds(), e.Count})
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	sum.Write(previous)
	sum.Write(form)
	return sum.Sum(nil), nil
}

// AuditHead is a state of the chain: the number of its last row, and the hash of that, which
// depends on all rows before it.
type AuditHead struct {
	Seq  int64
	Hash []byte
}

// auditStart is the hash before the first row.
var auditStart = make([]byte, sha256.Size)

const auditHeadQuery = `
	SELECT seq, hash FROM (SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1)
	UNION ALL SELECT seq, hash FROM (SELECT seq, hash FROM audit_checkpoints WHERE anchor = 1 ORDER BY seq DESC LIMIT 1)
	ORDER BY seq DESC LIMIT 1`

// scanHead returns the state of the chain.
func scanHead(row scanner) (h AuditHead, err error) {
	err = row.Scan(&h.Seq, &h.Hash)
	if errors.Is(err, sql.ErrNoRows) {
		return AuditHead{Hash: auditStart}, nil
	}
	return h, err
}

const auditColumns = `seq, time, actor_kind, actor_id, actor_name, address, user_agent, request_id, operation,
	project_id, broker_id, object, outcome, status, code, change, duration, count, hash`

const addAuditQuery = "INSERT INTO audit (" + auditColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

// append appends an event to the chain.
func (w *auditTx) append(ctx context.Context, e AuditEvent) error {
	if w.last == nil {
		head, err := scanHead(w.head.QueryRowContext(ctx))
		if err != nil {
			return err
		}
		w.last = &head
	}
	e.normalise()
	e.Seq = w.last.Seq + 1
	var err error
	if e.Hash, err = auditHash(w.last.Hash, &e); err != nil {
		return err
	}
	_, err = w.add.ExecContext(ctx, e.Seq, millis(e.Time), e.ActorKind, e.ActorID, e.ActorName, e.Address, e.UserAgent,
		e.RequestID, e.Operation, e.ProjectID, e.BrokerID, e.Object, e.Outcome, e.Status, e.Code, string(e.Change),
		e.Duration.Microseconds(), e.Count, e.Hash)
	if err == nil {
		w.last = &AuditHead{Seq: e.Seq, Hash: e.Hash}
	}
	return err
}

func scanAudit(row scanner) (e AuditEvent, err error) {
	var change string
	var duration int64
	err = row.Scan(&e.Seq, (*millis)(&e.Time), &e.ActorKind, &e.ActorID, &e.ActorName, &e.Address, &e.UserAgent,
		&e.RequestID, &e.Operation, &e.ProjectID, &e.BrokerID, &e.Object, &e.Outcome, &e.Status, &e.Code, &change,
		&duration, &e.Count, &e.Hash)
	e.Duration = microseconds(duration)
	if change != "" {
		e.Change = json.RawMessage(change)
	}
	return e, err
}

// AuditDamage is why the chain is not what was written: at which row, and what is wrong there.
type AuditDamage struct {
	Seq    int64
	Reason string
}

// Error returns the row and the reason.
func (e *AuditDamage) Error() string {
	return fmt.Sprintf("the audit log was changed at row %d: %s", e.Seq, e.Reason)
}

// AuditVerified is what a verification has read.
type AuditVerified struct {
	First, Last int64 // rows; both 0 if there are none
	Head        AuditHead
	Checkpoints int // states of the chain that agree with it
}

// CheckedNote is a signed state of the chain whose signature the caller has checked.
type CheckedNote struct {
	AuditHead
	Anchor bool // the rows up to it were deleted
}

// VerifyAudit reads the whole chain and compares it with states that were signed before, in
// order of their rows. *AuditDamage: it is not what was written.
func (d *DB) VerifyAudit(ctx context.Context, notes []CheckedNote) (v AuditVerified, err error) {
	err = d.read(ctx, "verify audit log", func(tx *sql.Tx) error {
		v, err = verifyAudit(ctx, tx, notes)
		return err
	})
	return v, err
}

func verifyAudit(ctx context.Context, q queryer, notes []CheckedNote) (v AuditVerified, err error) {
	c := startOfChain(notes)
	rows, err := q.QueryContext(ctx, "SELECT "+auditColumns+" FROM audit ORDER BY seq")
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if err := c.passNotes(); err != nil {
		return v, err
	}
	for rows.Next() {
		e, err := scanAudit(rows)
		if err != nil {
			return v, err
		}
		if err := c.add(&e); err != nil {
			return v, err
		}
	}
	if err := rows.Err(); err != nil {
		return v, err
	}
	return c.end()
}

// chainCheck is a verification at one row.
type chainCheck struct {
	head  AuditHead
	notes []CheckedNote // that are not reached yet
	found AuditVerified
}

// startOfChain begins at the last anchor, if rows were deleted.
func startOfChain(notes []CheckedNote) *chainCheck {
	c := &chainCheck{head: AuditHead{Hash: auditStart}, notes: notes}
	for _, n := range notes {
		if n.Anchor {
			c.head = n.AuditHead
		}
	}
	for len(c.notes) > 0 && c.notes[0].Seq < c.head.Seq {
		c.notes = c.notes[1:] // of rows that were deleted
	}
	return c
}

// add checks the next row.
func (c *chainCheck) add(e *AuditEvent) error {
	if e.Seq != c.head.Seq+1 {
		return &AuditDamage{Seq: c.head.Seq + 1, Reason: "the row is missing"}
	}
	hash, err := auditHash(c.head.Hash, e)
	if err != nil {
		return err
	}
	if !bytes.Equal(hash, e.Hash) {
		return &AuditDamage{Seq: e.Seq, Reason: "its hash does not fit it and the row before it"}
	}
	if c.found.First == 0 {
		c.found.First = e.Seq
	}
	c.found.Last, c.head = e.Seq, AuditHead{Seq: e.Seq, Hash: hash}
	return c.passNotes()
}

// passNotes compares the chain with the signed states of the present row.
func (c *chainCheck) passNotes() error {
	for len(c.notes) > 0 && c.notes[0].Seq == c.head.Seq {
		if !bytes.Equal(c.notes[0].Hash, c.head.Hash) {
			return &AuditDamage{Seq: c.head.Seq, Reason: "the chain up to it differs from a signed checkpoint"}
		}
		c.notes = c.notes[1:]
		c.found.Checkpoints++
	}
	return nil
}

// end checks that no signed state is left.
func (c *chainCheck) end() (AuditVerified, error) {
	c.found.Head = c.head
	if len(c.notes) > 0 {
		return c.found, &AuditDamage{Seq: c.head.Seq + 1, Reason: fmt.Sprintf("the rows up to %d, which a checkpoint signed, are missing", c.notes[0].Seq)}
	}
	return c.found, nil
}
