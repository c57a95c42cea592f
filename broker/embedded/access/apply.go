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

// errGap is the error of a change that was decided on a state which this broker does not
// have, or that follows one which could not be applied.
var errGap = errors.New("changes before it are missing")

// ApplyChange applies a change that was passed to Replicate on one of the brokers. It is
// called on all of them with the same changes in the same order, under ascending indexes;
// one that was applied before is skipped. When it returns, the change is durable together
// with its index, and in force.
//
// It returns the clients that the caller must disconnect. For a change that a request on
// this broker waits for there are none: they are returned to that request, to be
// disconnected after its response.
//
// An error means that the change was not applied, because it cannot be decoded or stored,
// and has no effect. The caller must stop: no later change is accepted, but the same one
// may be tried again, or a whole state imported. A change that was decided on a state other
// than the current one is no error: it has no effect, on any broker, and its proposer
// decides again.
func (c *Control) ApplyChange(index uint64, change []byte) ([]dynsec.Disconnect, error) {
	c.committing.Lock()
	defer c.committing.Unlock()
	if index <= c.applied.index() {
		return nil, nil
	}
	disconnects, err := c.applyChange(index, change)
	stale := errors.Is(err, errStale)
	if err != nil && !stale {
		c.blockAfter(index)
		c.log.Error("a change to the shared access control could not be applied",
			slog.Any("error", err), slog.Uint64("index", index))
	}
	if p := c.proposal; p.matches(change) {
		p.complete(proposalError(err))
		disconnects = nil
	}
	if err != nil && !stale {
		return nil, err
	}
	return disconnects, nil
}

// AppliedIndex returns the index up to which changes were applied, durably; 0 for a broker
// that does not share its access control.
func (c *Control) AppliedIndex() uint64 { return c.applied.index() }

// applyChange stores and publishes a change. Of a stale one it stores the index only. The
// caller holds committing.
func (c *Control) applyChange(index uint64, change []byte) ([]dynsec.Disconnect, error) {
	if c.failed != 0 && index > c.failed || index > math.MaxInt64 {
		return nil, fmt.Errorf("apply change %d: %w", index, errGap)
	}
	set, err := decodeChangeSet(change)
	if err != nil {
		return nil, fmt.Errorf("apply change %d: %w", index, err)
	}
	state := c.state.Load()
	switch at := state.ChangeIndex(); {
	case set.base > at:
		return nil, fmt.Errorf("apply change %d: it follows state %d, this is %d: %w", index, set.base, at, errGap)
	case set.base < at:
		if err := c.storeAndPublish(state, changeSet{}, index); err != nil {
			return nil, err
		}
		return nil, errStale
	}
	next, err := state.Replay(set.changes)
	if err != nil {
		return nil, fmt.Errorf("apply change %d: %w: %w", index, errDamaged, err)
	}
	return set.disconnects, c.storeAndPublish(next, set, index)
}

// storeAndPublish stores a change under its index and publishes the state after it. The
// caller holds committing.
func (c *Control) storeAndPublish(next *dynsec.State, set changeSet, index uint64) error {
	if err := c.store.write(context.Background(), batch{changes: set.changes, index: index}); err != nil {
		return fmt.Errorf("apply change %d: %w", index, classify(err))
	}
	if len(set.changes)+len(set.disconnects) > 0 {
		c.publish(next, set.changes, set.disconnects)
	}
	if index == c.failed {
		c.failed = 0
	}
	c.applied.set(index)
	return nil
}

// blockAfter refuses all changes after the first one that could not be applied.
func (c *Control) blockAfter(index uint64) {
	if c.failed == 0 || index < c.failed {
		c.failed = index
	}
}

// proposalError returns the error for the request that waits for a change. What could not
// be applied may be in force on other brokers, and here after a restart.
func proposalError(err error) error {
	if err == nil || errors.Is(err, errStale) {
		return err
	}
	return &broker.Error{Kind: broker.Unconfirmed, Err: err,
		Msg: "the change was decided but could not be applied on this broker; it will be applied when the cause has been fixed"}
}

// Detach stops sharing: the broker keeps its state, makes changes by itself from now on and
// deletes its index, so that it can start with another log at 1.
func (c *Control) Detach(ctx context.Context) error {
	c.committing.Lock()
	defer c.committing.Unlock()
	if err := c.store.exec(ctx, "leave the shared access control", `DELETE FROM access_log`); err != nil {
		return err
	}
	c.replicator.Store(nil)
	c.failed = 0
	c.applied.set(0)
	return nil
}

// readApplied reads the stored index.
func readApplied(ctx context.Context, tx *sql.Tx) (index int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT coalesce(max(applied), 0) FROM access_log`).Scan(&index)
	return index, err
}
