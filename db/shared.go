package db

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"signalbox/broker/storage"
)

// openShared reads what belongs to sharing when the database is opened.
func (d *DB) openShared(ctx context.Context) (err error) {
	version, err := storage.Version(ctx, d.rw, layout(d.schema.steps))
	if err != nil {
		return err
	}
	d.schema.note(version)
	if err := d.removeStaged(); err != nil {
		return err
	}
	if d.origin, err = d.readShared(ctx, d.rw); err != nil {
		return err
	}
	if d.origin == "" {
		d.origin = rand.Text()
		_, err = d.rw.ExecContext(ctx, "UPDATE local_state SET origin = ?", d.origin)
	}
	d.run = d.origin + "." + rand.Text()
	return err
}

// readShared reads the state of sharing, of which there are copies in memory. It returns the name
// of this copy.
func (d *DB) readShared(ctx context.Context, q queryer) (origin string, err error) {
	var applied uint64
	var key KeyState
	const state = "SELECT applied, key_id, key_since, origin FROM shared_state, local_state"
	if err := q.QueryRowContext(ctx, state).Scan(&applied, &key.ID, &key.Since, &origin); err != nil {
		return "", fmt.Errorf("read the state of sharing: %w", err)
	}
	imported, err := readImported(ctx, q)
	if err != nil {
		return "", fmt.Errorf("read the state of sharing: %w", err)
	}
	host, suffix, err := readHost(ctx, q)
	if err != nil {
		return "", fmt.Errorf("read the state of sharing: %w", err)
	}
	embedded, err := readEmbedded(ctx, q)
	if err != nil {
		return "", fmt.Errorf("read the state of sharing: %w", err)
	}
	d.imported.Store(imported)
	d.embedded.Store(&embedded)
	d.host.Store(&host)
	d.suffix.Store(&suffix)
	d.applied.Store(applied)
	d.keyState.Store(&key)
	return origin, nil
}

// removeStaged deletes what a process has left that was killed while it made or restored a
// snapshot.
func (d *DB) removeStaged() error {
	dir, name := filepath.Split(d.path)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), name+stagedSuffix) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// Share has all writes from now on go through a log, whose entries Apply is called with on all
// nodes. It waits for the write in progress. The database cannot be written to without a log from
// when an entry is applied, or a snapshot of a log restored, until Unshare; also after a restart.
func (d *DB) Share(ctx context.Context, log Log) error {
	s := &sharing{d: d, log: log}
	s.ctx, s.stop = context.WithCancel(context.Background())
	err := d.holdingWriter(ctx, func(*sql.Conn) error {
		if former := d.sharing.Swap(s); former != nil {
			former.end()
		}
		return nil
	})
	return wrap("share the database", err)
}

// Unshare makes the content this node's own: all writes from now on are local, and the log that was
// applied is forgotten. Writes that wait fail with ErrUnavailable or ErrUnconfirmed. The secrets stay
// sealed with the key that other nodes know. An older schema is brought up to date.
func (d *DB) Unshare(ctx context.Context) error { return d.unshare(ctx, false, nil) }

// UnshareLeft is Unshare of a node with which others have shared the database, and go on with its streams and bridges. Their
// definitions here are replaced by off.
func (d *DB) UnshareLeft(ctx context.Context, off []Definition) error {
	return d.unshare(ctx, true, off)
}

func (d *DB) unshare(ctx context.Context, left bool, off []Definition) error {
	d.endSharing()
	err := d.holdingWriter(ctx, func(w *sql.Conn) error {
		err := d.upgradeOwn(ctx, w, func(tx *sql.Tx) error {
			const q = "UPDATE shared_state SET applied = 0, reserved_by = '', reserved_left = 0, key_since = ?"
			if _, err := tx.ExecContext(ctx, q, knownByOthers); err != nil || !left {
				return err
			}
			const others = "UPDATE shared_state SET host = ?1, bridge_owner = ?2, client_suffix = ?2"
			if _, err := tx.ExecContext(ctx, others, hostLeft, d.origin); err != nil {
				return err
			}
			return replaceDefinitions(ctx, tx, off)
		})
		if err != nil {
			return err
		}
		if left {
			d.host.Store(new(hostLeft))
			d.suffix.Store(&d.origin)
		}
		d.sharing.Store(nil)
		d.applied.Store(0)
		d.keyState.Store(&KeyState{ID: d.KeyState().ID, Since: knownByOthers})
		return nil
	})
	return wrap("end the sharing of the database", err)
}

// endSharing ends the writes that wait, and waits for the goroutine that writes.
func (d *DB) endSharing() {
	if s := d.sharing.Load(); s != nil {
		s.end()
		s.idle.Wait()
	}
}

// end has later writes fail, and the present one end.
func (s *sharing) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.stop()
}

// holdingWriter calls fn with the connection of the writer, so that no transaction is in progress.
func (d *DB) holdingWriter(ctx context.Context, fn func(*sql.Conn) error) (err error) {
	w, err := d.rw.Conn(ctx)
	if err != nil {
		return err
	}
	defer w.Close()
	return fn(w)
}

// IsShared reports whether the nodes of a cluster share the database: from Share, or the first entry or
// snapshot of a log, to Unshare.
func (d *DB) IsShared() bool { return d.sharing.Load() != nil || d.applied.Load() > 0 }

// Leads reports whether this node does the periodic work on the content: one node does, as far as the
// nodes know, if the database is shared.
func (d *DB) Leads() bool {
	if s := d.sharing.Load(); s != nil {
		return s.log.Leads()
	}
	return d.applied.Load() == 0
}

// Origin returns the name of this copy of the database, which Restore keeps.
func (d *DB) Origin() string { return d.origin }

// Changed returns a channel that is closed when broker connections, or their projects, may have
// changed by Apply, and by ContentReplaced.
func (d *DB) Changed() <-chan struct{} { return d.follow.wait() }

// Replaced returns how often Restore has replaced the content, or failed to do so, since the database
// was opened. What is read before the call is not newer than that.
func (d *DB) Replaced() uint64 { return d.replaced.Load() }

// ContentReplaced has those who wait for Changed and DefinitionsChanged read the content that Restore has stored, when its
// secrets can be read.
func (d *DB) ContentReplaced() {
	d.follow.notify()
	d.defined.notify()
}

// AppliedIndex returns the index of the last entry of the log that was applied here, 0 if there is
// none.
func (d *DB) AppliedIndex() uint64 { return d.applied.Load() }

// changeSignal wakes those who wait for a change of the content. The zero value is ready to use.
type changeSignal struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that is closed at the next change.
func (s *changeSignal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *changeSignal) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}
