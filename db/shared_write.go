package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// sharedWrite is a write of one caller.
type sharedWrite struct {
	fn   func(*writeTx) error
	done chan error // the outcome, buffered

	mu       sync.Mutex // guards what follows; held while fn runs
	left     bool       // the caller has left, so fn must not run any more
	proposed bool       // it may have changed something

	// Of the goroutine of sharing.
	err     error // of the last execution: a statement about the content
	changes bool  // the last execution has changed something
}

// leave returns the outcome of a write whose caller waits no longer.
func (w *sharedWrite) leave(cause error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	default:
	}
	w.left = true
	if w.proposed {
		return fmt.Errorf("%w (%w)", ErrUnconfirmed, cause)
	}
	return cause
}

// finish reports the outcome.
func (w *sharedWrite) finish(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(err) //nolint:errcheck // it is that error
}

// propose reports whether the write's part of an entry may be proposed: not after its caller
// was told that nothing happened.
func (w *sharedWrite) propose() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.proposed = !w.left && w.changes
	return !w.left
}

// withdraw notes that the write has changed nothing.
func (w *sharedWrite) withdraw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.proposed = false
}

// execute executes the write within a transaction, and returns what it has changed, unless it has
// ended. After an error the transaction has ended too.
func (w *sharedWrite) execute(ctx context.Context, tx *sql.Tx) (recorded *recording, ended bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left {
		return nil, true, nil
	}
	recorded = &recording{}
	if _, err := tx.ExecContext(ctx, "SAVEPOINT shared"); err != nil {
		return nil, true, w.end(orEnded(ctx, err))
	}
	if w.err = w.fn(&writeTx{tx: tx, recorded: recorded}); w.err != nil {
		*recorded = recording{}
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO shared"); err != nil {
			return nil, true, w.end(orEnded(ctx, w.err))
		}
	}
	if _, err := tx.ExecContext(ctx, "RELEASE shared"); err != nil {
		return nil, true, w.end(orEnded(ctx, err))
	}
	if w.err != nil && !isAboutContent(w.err) {
		w.end(w.err) //nolint:errcheck // it is that error
		return nil, true, nil
	}
	w.changes = len(recorded.statements) > 0
	return recorded, false, nil
}

// end is finish while the write is locked. It returns the outcome.
func (w *sharedWrite) end(err error) error {
	w.left = true
	w.done <- err
	return err
}

// orEnded returns an error, or errEnded if that is its cause.
func orEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errEnded
	}
	return err
}

// isAboutContent reports whether an error of a write follows from what is stored, so that it is
// another one if that changes.
func isAboutContent(err error) bool {
	err = classify(err)
	for _, sentinel := range []error{ErrNotFound, ErrExists, ErrInUse, ErrConflict, ErrLastRoot, ErrNotAdmin, ErrTooLarge} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// outcomeOf returns the outcome of a write whose entry was not confirmed.
func (w *sharedWrite) outcomeOf(err error) error {
	switch {
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrTooLarge):
		return err
	case w.changes:
		return fmt.Errorf("%w (%w)", ErrUnconfirmed, err)
	}
	return fmt.Errorf("%w (%w)", ErrUnavailable, err)
}
