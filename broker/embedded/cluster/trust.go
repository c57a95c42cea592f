package cluster

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// maxFormer bounds the removed members in the state, which are kept to notify them.
const maxFormer = 64

// former is a removed member with its keys.
type former struct {
	Ref  string   `json:"ref"`
	Keys []string `json:"keys"`
}

// trusts reports whether a node is a member with one of the keys that it presents.
func (s *state) trusts(p *presented) bool {
	pinned, ok := s.Keys[p.name]
	return ok && slices.ContainsFunc(p.keys, pinned.admits) && s.has(p.memberRef)
}

// wasMember reports whether a node is a removed member with one of the keys that it presents.
func (s *state) wasMember(p *presented) bool {
	return slices.ContainsFunc(s.Former, func(f former) bool {
		return f.Ref == p.name && slices.ContainsFunc(f.Keys, func(key string) bool { return slices.Contains(p.keys, key) })
	})
}

// forget removes the keys of a member that an order removes, and keeps them in Former so that it can be
// notified.
func (s *state) forget(m Member, index uint64) {
	name := m.ref().String()
	p, ok := s.Keys[name]
	if !ok {
		return
	}
	if s.Shared {
		s.Removal = index
	}
	s.Keys = maps.Clone(s.Keys)
	delete(s.Keys, name)
	keys := slices.DeleteFunc([]string{p.Key, p.Former}, func(key string) bool { return key == "" })
	s.Former = append(slices.Clone(s.Former), former{name, keys})
	s.Former = s.Former[max(0, len(s.Former)-maxFormer):]
}

// setKey sets the key of a member.
func (s *state) setKey(m Member, p pin) {
	keys := maps.Clone(s.Keys)
	if keys == nil {
		keys = map[string]pin{}
	}
	keys[m.ref().String()] = p
	s.Keys = keys
}

// pin sets the keys by which members are identified, and ends the authority, whose key all members
// have.
func (s *state) pin(keys map[string]pin) error {
	if s.Keys != nil || len(keys) != len(s.Members) {
		return fmt.Errorf("%w: the members were changed meanwhile", ErrUnknownNode)
	}
	for _, m := range s.Members {
		if keys[m.ref().String()].Key == "" {
			return fmt.Errorf("%w: the key of node %d is missing", ErrUnknownNode, m.NodeID)
		}
	}
	s.Format, s.Keys, s.CACert, s.CAKey = keyedFormat, maps.Clone(keys), nil, nil
	return nil
}

// changeKey replaces a member's key or, with an empty key, removes the former one.
func (s *state) changeKey(m Member, was, key string) error {
	p, ok := s.Keys[m.ref().String()]
	switch {
	case !ok || p.Key != was:
		return fmt.Errorf("%w: node %d has another key meanwhile", ErrUnknownNode, m.NodeID)
	case key == "":
		p.Former = ""
	default:
		p = pin{Key: key, Former: p.Key}
	}
	s.setKey(m, p)
	return nil
}

// known returns the state of the cluster; that of the invitation for a node that has just joined, until it has applied
// the command that added it. What it reads from the log before may be so old that none of the present members was one.
func (s *membership) known() *state {
	if known := s.fsm.state.Load(); known.Index > 0 && known.Index >= s.id.Self.Generation {
		return known
	}
	return s.id.state()
}

// trusts reports whether a node is a member according to the log or, as long as this node is
// behind, to other members.
func (s *membership) trusts(p *presented) bool {
	if err := s.credentials.isMember(p); err != nil {
		return false
	}
	return s.known().Keys != nil || s.admits(p.memberRef)
}

// askAboutInterval is how often other members are asked about nodes that are not known here.
const askAboutInterval = 200 * time.Millisecond

// askAbout asks the other members about a node that was added after the last command that this
// node has applied. It reports whether they know it as a member. It is called within the
// handshakes of the connections over which members are asked: it must neither ask the node itself,
// whose connection is being made, nor wait for another call of itself.
func (s *membership) askAbout(p *presented) bool {
	if p.generation <= s.fsm.appliedIndex() || s.known().Keys == nil {
		return false
	}
	if s.reportedMember(p) {
		return true
	}
	if !s.askAboutMu.TryLock() {
		return false
	}
	defer s.askAboutMu.Unlock()
	if time.Since(s.askedAboutAt) < askAboutInterval {
		return s.reportedMember(p)
	}
	s.askWith(s.askStatusKeepingConn, slices.DeleteFunc(s.others(), func(m Member) bool { return m.ref() == p.memberRef }))
	s.askedAboutAt = time.Now()
	return s.reportedMember(p)
}

// reportedMember reports whether a member that answers has reported a node as a member, with
// one of its keys. As long as this node relies on that, it asks again with each probe, because
// the node may be removed before this one has applied the command that added it.
func (s *membership) reportedMember(p *presented) bool {
	if p.generation <= s.fsm.appliedIndex() { // the state of this node decides
		return false
	}
	for _, c := range s.contactsByRef() {
		pinned, ok := c.Keys[p.name]
		if ok && c.err == nil && c.Known >= p.generation && slices.ContainsFunc(p.keys, pinned.admits) {
			s.reliesOnOthers.Store(true)
			return true
		}
	}
	return false
}
