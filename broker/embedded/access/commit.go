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

// replicationTimeout is how long the other brokers are waited for.
const replicationTimeout = 10 * time.Second

// Replicator is the way of changes to all brokers that share one access control.
type Replicator interface {
	// Leads tells whether changes are decided here. It must not block.
	Leads() bool
	// Replicate has ApplyChange called with the change on every one of the
	// brokers, everywhere in the same order, and here before it returns. An error
	// that is a *broker.Error of kind Unavailable says that this will never
	// happen; after any other one it may.
	Replicate(ctx context.Context, change []byte) error
	// Forward has Serve of the broker where changes are decided do a request, at
	// most once, and gives its answer. Errors are as with Replicate.
	Forward(ctx context.Context, request []byte) (answer []byte, err error)
}

// errStale says that the state was replaced since a change to it was decided.
var errStale = &broker.Error{Kind: broker.Unavailable,
	Msg: "the access control was replaced again and again; nothing was changed"}

// errAlone keeps a broker from leaving the others behind.
var errAlone = &broker.Error{Kind: broker.Unavailable,
	Msg: "the broker shares its access control with others that it does not reach; nothing was changed"}

// SetReplicator has changes decided where r leads and applied on every broker from
// now on; with nil the broker changes by itself. When it returns, no change is
// under way that went by itself. A broker whose AppliedIndex is not 0 makes no
// change without a replicator, so that none is made before it is set; see Detach.
func (c *Control) SetReplicator(r Replicator) {
	c.turn.Lock()
	defer c.turn.Unlock()
	if r == nil {
		c.replicator.Store(nil)
		return
	}
	c.replicator.Store(&r)
}

// commit makes the outcome of steps durable and visible. They were decided on
// state and lead to next; if it is no longer the published one, the error is
// errStale.
func (c *Control) commit(ctx context.Context, state, next *dynsec.State, steps []step) error {
	if r := c.replicator.Load(); r != nil {
		return c.replicate(ctx, *r, state, steps)
	}
	if !slices.ContainsFunc(steps, step.stores) {
		return nil
	}
	return c.commitAlone(state, next, steps)
}

func (c *Control) commitAlone(state, next *dynsec.State, steps []step) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	switch {
	case c.replicator.Load() != nil || c.state.Load() != state:
		return errStale
	case c.applied.index() > 0:
		return errAlone
	}
	changes, cuts := collect(steps)
	if err := c.store.write(context.Background(), batch{changes: changes}); err != nil {
		return classify(err)
	}
	c.publish(next, changes, cuts)
	return nil
}

// replicate has the outcome of steps applied everywhere. Also one that changes
// nothing goes that way: that a client is not there, say, is only known to be true
// when all agree that the state was the last one.
func (c *Control) replicate(ctx context.Context, r Replicator, state *dynsec.State, steps []step) error {
	changes, cuts := collect(steps)
	set := changeSet{id: newChangeID(), base: state.ChangeIndex(), changes: changes, cuts: cuts}
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

// propose lets ApplyChange know what the writer waits for.
func (c *Control) propose(p *proposal) {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.proposal = p
}

// unconfirmed says what became of a change that was not applied here.
func unconfirmed(err error) error {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return e
	}
	return &broker.Error{Kind: broker.Unconfirmed,
		Msg: "the change was not confirmed by the other brokers; it may have happened", Err: err}
}

// proposal is a change on its way through a replicator. Its fields belong to
// whoever has the turn, as long as it is the proposal of the Control.
type proposal struct {
	change  []byte
	applied bool // ApplyChange was called with it
	err     error
}

// is tells whether it is this change.
func (p *proposal) is(change []byte) bool { return p != nil && bytes.Equal(p.change, change) }

func (p *proposal) settle(err error) { p.applied, p.err = true, err }
