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

// keyChange asks the leader for another key of the node that asks.
type keyChange struct {
	Was string `json:"was"`
	Key string `json:"key,omitempty"` // "" to end the key before Was
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

// checkKeys makes the next step towards the state in which the cluster knows its members
// by their keys, and each member has made its own.
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

// pinAll ends the authority of a cluster that was made by an earlier release, once all
// members answer and run a release that knows them by their keys. Only the leader does.
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
			return nil // the log says which; it is looked at again
		}
		keys[m.ref().String()] = pin{Key: c.Key}
	}
	if _, err := s.lead(s.ctx); err != nil {
		return err
	}
	_, _, err = s.order(s.ctx, order{Op: opPin, Keys: keys})
	return err
}

// ownKey gives the node a key that it has made itself, where it has one that came with
// its invitation.
func (s *membership) ownKey() error {
	id, self := s.current.Load(), s.credentials.self.String()
	p, ok := s.fsm.state.Load().Keys[self]
	switch {
	case !ok:
		return nil // it was removed, and will hear of it
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

// prepareKey makes the next key and stores it, before any other node hears of it.
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

// useNext has the next key take the place of the one that the node has.
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

// changeKey has the leader change this node's key.
func (s *membership) changeKey(c keyChange) error {
	m, ok := s.leader()
	if !ok {
		return nil // it is looked at again
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

// orderKey changes a member's key. Only the leader does.
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

// withPins returns the identity with what the node knows of the other members now.
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

// loadClock begins with the cluster's time as it was stored, or with the time of day.
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
