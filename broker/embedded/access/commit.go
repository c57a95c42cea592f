package access

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// replicationTimeout bounds the wait for the other brokers.
const replicationTimeout = 10 * time.Second

// Replicator passes changes to all brokers that share one access control.
type Replicator interface {
	// Leads reports whether changes are decided on this broker. It must not block.
	Leads() bool
	// Replicate causes ApplyChange to be called with the change on every one of the
	// brokers, in the same order everywhere, and on this one before it returns. An error
	// that is a *broker.Error of kind Unavailable means that this will never happen; after
	// any other error it may.
	Replicate(ctx context.Context, change []byte) error
	// Forward causes Serve of the broker that decides changes to handle a request, at most
	// once, and returns its response. Errors are as with Replicate.
	Forward(ctx context.Context, request []byte) (answer []byte, err error)
}

// errStale is the error of a change to a state that has been replaced since it was decided.
var errStale = &broker.Error{Kind: broker.Unavailable,
	Msg: "the access control was replaced repeatedly; nothing was changed"}

// errNoReplicator prevents changes that the other brokers would never have.
var errNoReplicator = &broker.Error{Kind: broker.Unavailable,
	Msg: "the broker shares its access control with others that it cannot reach; nothing was changed"}

// SetReplicator makes r decide where changes are made and apply them on every broker from
// now on; with nil the broker makes changes by itself. When it returns, no change of this
// broker alone is under way. A broker whose AppliedIndex is not 0 makes no change without a
// replicator, so that none is made before it is set; see Detach.
//
// A broker that starts sharing sets the replicator first and takes the snapshot for the
// others afterwards: a change in between would be in force here only.
func (c *Control) SetReplicator(r Replicator) {
	c.committing.Lock()
	defer c.committing.Unlock()
	if r == nil {
		c.replicator.Store(nil)
		return
	}
	c.replicator.Store(&r)
}

// commit makes the outcome of steps durable and visible. They were decided on state and
// lead to next; if state is no longer the published one, the error is errStale.
func (c *Control) commit(ctx context.Context, state, next *dynsec.State, steps []step) error {
	if r := c.replicator.Load(); r != nil {
		return c.replicate(ctx, *r, state, steps)
	}
	if !slices.ContainsFunc(steps, step.stores) {
		return nil
	}
	return c.commitLocal(state, next, steps)
}

func (c *Control) commitLocal(state, next *dynsec.State, steps []step) error {
	c.committing.Lock()
	defer c.committing.Unlock()
	switch {
	case c.replicator.Load() != nil || c.state.Load() != state:
		return errStale
	case c.applied.index() > 0:
		return errNoReplicator
	}
	changes, disconnects := collect(steps)
	if err := c.store.write(context.Background(), batch{changes: changes}); err != nil {
		return classify(err)
	}
	c.publish(next, changes, disconnects)
	return nil
}

// collect joins the changes of a group's steps. The changes of each step end with a change
// index; only the last one is kept.
func collect(steps []step) (changes []dynsec.Change, disconnects []dynsec.Disconnect) {
	for _, s := range steps {
		if n := len(changes); n > 0 && s.stores() {
			changes = changes[:n-1]
		}
		changes = append(changes, s.changes...)
		disconnects = append(disconnects, s.disconnects...)
	}
	return changes, disconnects
}

// publish makes a stored state the one in force. The caller holds committing.
func (c *Control) publish(next *dynsec.State, changes []dynsec.Change, disconnects []dynsec.Disconnect) {
	c.state.Store(next)
	c.credentials.version.Add(1) // before accounts are revoked; see verify
	c.initialised.Store(true)
	c.accounts.refresh(next, changes, disconnects)
	c.credentials.remove(changes)
}

// replicate causes the outcome of steps to be applied on every broker. That includes an
// outcome without changes: that a client does not exist, for example, is only certain if
// all brokers agree that the state was the last one.
func (c *Control) replicate(ctx context.Context, r Replicator, state *dynsec.State, steps []step) error {
	changes, disconnects := collect(steps)
	set := changeSet{id: newChangeID(), base: state.ChangeIndex(), changes: slices.Collect(dynsec.Single(changes)), disconnects: disconnects}
	p := &proposal{change: set.encode()}
	c.propose(p)
	ctx, cancel := context.WithTimeout(ctx, replicationTimeout)
	defer cancel()
	err := r.Replicate(ctx, p.change)
	c.propose(nil)
	if p.applied {
		return p.err
	}
	return unconfirmed(err)
}

// propose sets the proposal that the writer waits for, for ApplyChange.
func (c *Control) propose(p *proposal) {
	c.committing.Lock()
	defer c.committing.Unlock()
	c.proposal = p
}

// unconfirmed returns the error of a change that was not applied here.
func unconfirmed(err error) error {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return e
	}
	return &broker.Error{Kind: broker.Unconfirmed,
		Msg: "the change was not confirmed by the other brokers; it may have happened", Err: err}
}

// proposal is a change on its way through a replicator. While it is the proposal of the
// Control, its fields are guarded by Control.committing.
type proposal struct {
	change  []byte
	applied bool // ApplyChange was called with it
	err     error
}

// matches reports whether the proposal is this change.
func (p *proposal) matches(change []byte) bool { return p != nil && bytes.Equal(p.change, change) }

func (p *proposal) complete(err error) { p.applied, p.err = true, err }
