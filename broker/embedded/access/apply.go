package access

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// ErrGap is why a change was not applied that was decided on a state which is not
// here, or that follows one which could not be applied.
var ErrGap = errors.New("changes before it are missing")

// ApplyChange applies a change that Replicate was given on one of the brokers. It
// is called on all of them with the same changes in the same order, under indexes
// that grow; one that is applied already is passed over. When it returns, the
// change is durable together with its index, and in force.
//
// It gives the clients that the caller must disconnect: none of a change that
// somebody waits for here, who deals with them when the answer is out.
//
// An error says that the change was not applied, for it cannot be understood or
// stored, and nothing else happened. The caller must stop: no later change is
// taken, but the same one may be given again, or a whole state. That a change was
// decided on a state that is no longer the last one is no error: it has no effect,
// on any broker, and the one that proposed it decides anew.
func (c *Control) ApplyChange(index uint64, change []byte) ([]dynsec.Cut, error) {
	c.turn.Lock()
	defer c.turn.Unlock()
	if index <= c.applied.index() {
		return nil, nil
	}
	cuts, err := c.applyChange(index, change)
	stale := errors.Is(err, errStale)
	if err != nil && !stale {
		c.stop(index)
		c.log.Error("a change to the shared access control could not be applied",
			slog.Any("err", err), slog.Uint64("index", index))
	}
	if p := c.proposal; p.is(change) {
		p.settle(decided(err))
		cuts = nil
	}
	if err != nil && !stale {
		return nil, err
	}
	return cuts, nil
}

// AppliedIndex is the index up to which changes were applied, durably; 0 for a
// broker that shares its access control with nobody.
func (c *Control) AppliedIndex() uint64 { return c.applied.index() }

// applyChange stores and publishes a change. One that is stale leaves its index
// only. The caller has the turn.
func (c *Control) applyChange(index uint64, change []byte) ([]dynsec.Cut, error) {
	if c.failed != 0 && index > c.failed || index > math.MaxInt64 {
		return nil, fmt.Errorf("apply change %d: %w", index, ErrGap)
	}
	set, err := decodeChangeSet(change)
	if err != nil {
		return nil, fmt.Errorf("apply change %d: %w", index, err)
	}
	state := c.state.Load()
	switch at := state.ChangeIndex(); {
	case set.base > at:
		return nil, fmt.Errorf("apply change %d: it follows state %d, this is %d: %w", index, set.base, at, ErrGap)
	case set.base < at:
		if err := c.keep(state, changeSet{}, index); err != nil {
			return nil, err
		}
		return nil, errStale
	}
	next, err := state.Replay(set.changes)
	if err != nil {
		return nil, fmt.Errorf("apply change %d: %w: %w", index, ErrDamaged, err)
	}
	return set.cuts, c.keep(next, set, index)
}

// keep stores a change under its index and publishes the state after it. The
// caller has the turn.
func (c *Control) keep(next *dynsec.State, set changeSet, index uint64) error {
	if err := c.store.write(context.Background(), batch{changes: set.changes, index: index}); err != nil {
		return fmt.Errorf("apply change %d: %w", index, classify(err))
	}
	if len(set.changes)+len(set.cuts) > 0 {
		c.publish(next, set.changes, set.cuts)
	}
	if index == c.failed {
		c.failed = 0
	}
	c.applied.set(index)
	return nil
}

// stop has nothing applied beyond the first change that could not be.
func (c *Control) stop(index uint64) {
	if c.failed == 0 || index < c.failed {
		c.failed = index
	}
}

// decided tells whoever decided about a change what became of it here. What could
// not be applied may be in force elsewhere, and here after a restart.
func decided(err error) error {
	if err == nil || errors.Is(err, errStale) {
		return err
	}
	return &broker.Error{Kind: broker.Unconfirmed, Err: err,
		Msg: "the change was decided but could not be applied on this broker; it will be when the cause is gone"}
}

// Detach ends the sharing: the broker keeps what it has, changes it by itself from
// now on and forgets its index, so that it can begin with another log at 1.
func (c *Control) Detach(ctx context.Context) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	if err := c.store.exec(ctx, "leave the shared access control", `DELETE FROM access_log`); err != nil {
		return err
	}
	c.replicator.Store(nil)
	c.failed = 0
	c.applied.set(0)
	return nil
}

// applied reads the stored index.
func applied(ctx context.Context, tx *sql.Tx) (index int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT coalesce(max(applied), 0) FROM access_log`).Scan(&index)
	return index, err
}
