package audit

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"signalbox/db"
)

// Checkpoints are signed notes in the form of golang.org/x/mod/sumdb/note: a first line, the
// number of the last row, its hash and the time, then the signature with ed25519. One that
// stands for deleted rows has another first line: otherwise rows could be deleted unnoticed by
// making an ordinary checkpoint such a one.
const (
	noteTitle   = "signalbox audit"
	anchorTitle = "signalbox audit, rows deleted"
)

// openSigner opens the newest key, unless it is open, or creates one: at the first start, and when
// the key of the stored secrets is another one, so that the old key cannot be read. ErrNoKey: it can
// be read later. The caller holds signing.
func (l *Log) openSigner(ctx context.Context) error {
	err := l.findSigner(ctx)
	if err != nil {
		err = fmt.Errorf("open the key of the audit log: %w", err)
	}
	return err
}

func (l *Log) findSigner(ctx context.Context) error {
	keys, err := l.db.AuditKeys(ctx)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(keys, func(k db.AuditKey) bool { return k.Secrets != nil }); i >= 0 {
		name := keys[i].Name
		if l.signer != nil && l.signer.Name() == name {
			return nil
		}
		private, err := l.sealer.Unseal(keys[i].Secrets, []byte(name))
		if err == nil {
			l.signer, err = note.NewSigner(string(private))
			return err
		}
		if errors.Is(err, db.ErrNoKey) {
			return err
		}
		l.log.WarnContext(ctx, "the key of the audit log cannot be read; a new one signs from now on", "key", name)
	}
	return l.createKey(ctx)
}

func (l *Log) createKey(ctx context.Context) error {
	var id [4]byte
	rand.Read(id[:]) //nolint:errcheck // it never fails
	name := "signalbox-" + hex.EncodeToString(id[:])
	private, public, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		return err
	}
	if l.signer, err = note.NewSigner(private); err != nil {
		return err
	}
	return l.db.AddAuditKey(ctx, db.AuditKey{Name: name, Public: public, CreatedAt: l.now(),
		Secrets: l.sealer.Seal([]byte(private), []byte(name))})
}

// sign returns a state of the chain with its signature, by the newest key: with the content of a
// cluster that a node has joined, it is that of the cluster. The caller holds signing.
func (l *Log) sign(ctx context.Context, title string, head db.AuditHead) (db.AuditCheckpoint, error) {
	if err := l.openSigner(ctx); err != nil {
		return db.AuditCheckpoint{}, err
	}
	now := l.now()
	text := fmt.Sprintf("%s\n%d\n%s\n%s\n", title, head.Seq, base64.StdEncoding.EncodeToString(head.Hash), now.UTC().Format(time.RFC3339))
	signed, err := note.Sign(&note.Note{Text: text}, l.signer)
	return db.AuditCheckpoint{AuditHead: head, Time: now, Note: string(signed)}, err
}

// Checkpoint signs the present state of the chain and stores it. A state that is signed
// already is returned as it is.
func (l *Log) Checkpoint(ctx context.Context) (db.AuditCheckpoint, error) {
	l.signing.Lock()
	defer l.signing.Unlock()
	head, err := l.db.AuditState(ctx)
	if err != nil {
		return db.AuditCheckpoint{}, err
	}
	stored, err := l.db.AuditCheckpoints(ctx)
	if err != nil {
		return db.AuditCheckpoint{}, err
	}
	if n := len(stored); n > 0 && stored[n-1].Seq == head.Seq {
		return stored[n-1], nil
	}
	c, err := l.sign(ctx, noteTitle, head)
	if err != nil {
		return c, err
	}
	return c, l.db.AddAuditCheckpoint(ctx, c)
}

// errNote is the error for text that is not a checkpoint.
var errNote = errors.New("it is not a checkpoint of an audit log")

// openNote checks the signature of a checkpoint and returns its state.
func openNote(text []byte, verifiers note.Verifiers) (h db.CheckedNote, err error) {
	n, err := note.Open(text, verifiers)
	if err != nil {
		return h, fmt.Errorf("check the signature: %w", err)
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 5 || lines[0] != noteTitle && lines[0] != anchorTitle {
		return h, errNote
	}
	if h.Seq, err = strconv.ParseInt(lines[1], 10, 64); err != nil || h.Seq < 0 {
		return h, errNote
	}
	if h.Hash, err = base64.StdEncoding.DecodeString(lines[2]); err != nil {
		return h, errNote
	}
	h.Anchor = lines[0] == anchorTitle
	return h, nil
}

// Verify reads the whole log, which takes long, and compares it with the checkpoints that are stored
// with it. A second caller waits for the first one.
func (l *Log) Verify(ctx context.Context) (db.AuditVerified, error) {
	select {
	case l.verifying <- struct{}{}:
		defer func() { <-l.verifying }()
		return Verify(ctx, l.db, "")
	case <-ctx.Done():
		return db.AuditVerified{}, context.Cause(ctx)
	}
}

// Verify reads the whole log of a database, and compares it with the checkpoints that are
// stored in it and with those given. key is a public key that was kept elsewhere; without
// one the keys in the database count, which an intruder may have changed together with the log.
func Verify(ctx context.Context, d *db.DB, key string, given ...[]byte) (db.AuditVerified, error) {
	verifiers, err := verifiersOf(ctx, d, key)
	if err != nil {
		return db.AuditVerified{}, err
	}
	stored, err := d.AuditCheckpoints(ctx)
	if err != nil {
		return db.AuditVerified{}, err
	}
	var notes []db.CheckedNote
	for _, c := range stored {
		h, err := openNote([]byte(c.Note), verifiers)
		if err != nil {
			return db.AuditVerified{}, &db.AuditDamage{Seq: c.Seq, Reason: "the stored checkpoint of the row is not valid: " + err.Error()}
		}
		if h.Seq != c.Seq || h.Anchor != c.Anchor {
			return db.AuditVerified{}, &db.AuditDamage{Seq: c.Seq, Reason: "the checkpoint of the row is that of another one"}
		}
		notes = append(notes, h)
	}
	for i, text := range given {
		h, err := openNote(text, verifiers)
		if err != nil {
			return db.AuditVerified{}, fmt.Errorf("checkpoint %d: %w", i+1, err)
		}
		h.Anchor = false // what the database has deleted, its own checkpoints must state
		notes = append(notes, h)
	}
	slices.SortStableFunc(notes, func(a, b db.CheckedNote) int { return int(a.Seq - b.Seq) })
	return d.VerifyAudit(ctx, notes)
}

func verifiersOf(ctx context.Context, d *db.DB, key string) (note.Verifiers, error) {
	public := []string{key}
	if key == "" {
		keys, err := d.AuditKeys(ctx)
		if err != nil {
			return nil, err
		}
		public = nil
		for _, k := range keys {
			public = append(public, k.Public)
		}
	}
	var all []note.Verifier
	for _, text := range public {
		v, err := note.NewVerifier(text)
		if err != nil {
			return nil, fmt.Errorf("public key %q: %w", text, err)
		}
		all = append(all, v)
	}
	return note.VerifierList(all...), nil
}
