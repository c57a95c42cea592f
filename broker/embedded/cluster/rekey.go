package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"signalbox/broker/embedded/cluster/raftlog"
)

// keyChange is the request of a node to the leader to change its key.
type keyChange struct {
	Was string `json:"was"`
	Key string `json:"key,omitempty"` // "" to remove the key before Was
}

// watchKeys checks the keys periodically, and when those of the members have changed.
func (s *membership) watchKeys() {
	ticks := time.NewTicker(s.node.options.Timing.Probe)
	defer ticks.Stop()
	for s.ctx.Err() == nil {
		s.checkKeys()
		select {
		case <-ticks.C:
		case <-s.keysWake:
		case <-s.ctx.Done():
		}
	}
}

// checkKeys makes the next step towards the state in which members are identified by their keys,
// and each member has made its own key.
func (s *membership) checkKeys() {
	if now, is := s.node.clock.due(); is {
		s.node.storeClock(now)
	}
	var err error
	if s.fsm.state.Load().Keys == nil {
		err = s.pinAll()
	} else {
		err = s.ownKey()
	}
	if err != nil && s.ctx.Err() == nil {
		s.node.log.Info("the keys of the cluster's nodes are not yet what they should be", "error", err)
	}
}

// pinAll ends the authority of a cluster that an earlier release created, once all members answer
// and run a release that identifies them by their keys. Only the leader does this.
func (s *membership) pinAll() error {
	known, heard := s.fsm.state.Load(), s.contactsByRef()
	if !s.node.IsLeader() || known.Index == 0 || known.Dissolved {
		return nil
	}
	own, err := fingerprintOf(s.credentials.own.Load().key)
	if err != nil {
		return err
	}
	keys := map[string]pin{s.credentials.self.String(): {Key: own}}
	for _, m := range s.others() {
		c := heard[m.ref()]
		if c.err != nil || !isFingerprint(c.Key) {
			return nil // tried again by the next check
		}
		keys[m.ref().String()] = pin{Key: c.Key}
	}
	if _, err := s.lead(s.ctx); err != nil {
		return err
	}
	_, _, err = s.order(s.ctx, order{Op: opPin, Keys: keys})
	return err
}

// ownKey replaces a key that came with the node's invitation by one that the node makes itself.
func (s *membership) ownKey() error {
	id, self := s.current.Load(), s.credentials.self.String()
	p, ok := s.fsm.state.Load().Keys[self]
	switch {
	case !ok:
		return nil // the node was removed, and will learn of it
	case id.Own && p.Former != "":
		return s.changeKey(keyChange{Was: p.Key})
	case id.Own:
		return nil
	case id.Next == nil:
		return s.prepareKey(id)
	}
	next, err := parseKey(id.Next)
	if err != nil {
		return err
	}
	name, err := fingerprintOf(next)
	if err != nil {
		return err
	}
	if p.Key == name {
		return s.useNext(id)
	}
	return s.changeKey(keyChange{Was: p.Key, Key: name})
}

// prepareKey makes the next key and stores it, before any other node knows it.
func (s *membership) prepareKey(id *identity) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	changed := *id
	if changed.Next, err = encodeKey(key); err != nil {
		return err
	}
	if err := s.node.storeIdentity(&changed); err != nil {
		return err
	}
	s.current.Store(&changed)
	notify(s.keysWake)
	return nil
}

// useNext replaces the node's key by the next one.
func (s *membership) useNext(id *identity) error {
	next, err := parseKey(id.Next)
	if err != nil {
		return err
	}
	old := s.credentials.own.Load()
	changed := *id
	if err := changed.setKey(next, old.key, old.chain...); err != nil {
		return err
	}
	changed.Next, changed.Own = nil, true
	b, err := changed.credentials()
	if err != nil {
		return err
	}
	if err := s.node.storeIdentity(&changed); err != nil {
		return err
	}
	s.current.Store(&changed)
	s.credentials.own.Store(b.own.Load())
	s.node.log.Info("the node has a key of its own now", "node", int(s.credentials.self.id))
	notify(s.keysWake)
	return nil
}

// changeKey requests the leader to change this node's key.
func (s *membership) changeKey(c keyChange) error {
	m, ok := s.leader()
	if !ok {
		return nil // tried again by the next check
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.node.options.Timing.Request)
	defer cancel()
	if m.NodeID == s.id.Self.NodeID {
		return s.orderKey(ctx, s.credentials.self, c)
	}
	request, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("ask for another key: %w", err)
	}
	f, err := s.conns.ask(ctx, m, callKey, request)
	if err == nil {
		err = f.err()
	}
	if err != nil {
		return fmt.Errorf("ask for another key: %w", err)
	}
	return nil
}

// orderKey changes a member's key. Only the leader does this.
func (s *membership) orderKey(ctx context.Context, of memberRef, c keyChange) error {
	if !isFingerprint(c.Was) || c.Key != "" && !isFingerprint(c.Key) {
		return errors.New("change a key: the fingerprint of a key has 64 hexadecimal digits")
	}
	if _, err := s.lead(ctx); err != nil {
		return err
	}
	_, _, err := s.order(ctx, order{Op: opKey, Member: Member{NodeID: of.id}, Was: of.generation, WasKey: c.Was, Key: c.Key})
	return err
}

// withPins returns the identity with the present members and their keys.
func (i *identity) withPins(known *state) *identity {
	if known.Index == 0 {
		return i
	}
	changed := *i
	changed.Known, changed.Keys = known.Members, maps.Clone(known.Keys)
	return &changed
}

// keepClock stores the cluster's time, for the next start.
func (n *Node) storeClock(now time.Time) {
	text, err := now.MarshalText()
	if err == nil {
		err = n.store.Update(raftlog.Changes{nameClock: text})
	}
	if err != nil {
		n.log.Warn("the time of the cluster cannot be stored", "error", err)
	}
}

// loadClock sets the clock to the stored time of the cluster, or to the time of day.
func (n *Node) loadClock() error {
	text, err := n.store.Value(nameClock)
	if err != nil {
		return err
	}
	var from time.Time
	if text != nil {
		if err := from.UnmarshalText(text); err != nil {
			return fmt.Errorf("read the time of the cluster: %w", err)
		}
	}
	n.clock = newClock(n.options.Now, from)
	return nil
}
