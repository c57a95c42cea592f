package replicas

import (
	"errors"
	"fmt"
	"time"

	"signalbox/broker/embedded/engine"
)

// attach lets the replica be promoted, if there is an Agreer, once it has all changes that were acknowledged.
func (s *stream) attach(position uint64) error {
	a := s.r.o.Agreer
	if a == nil || s.attached || position < s.shared {
		return nil
	}
	s.attached = true
	err := a.Agree(s.ctx, Order{Kind: Attach, From: s.r.o.Self, At: s.node, Stream: s.id})
	if err != nil {
		return fmt.Errorf("agree upon a replica: %w", err)
	}
	return nil
}

// detach ensures that the replica cannot be promoted any more. The error is an engine.ErrUncertain: errSuperseded if
// it was promoted, another one if the Replicator is closed before that is known.
func (s *stream) detach() error {
	if !s.attached {
		return nil
	}
	for {
		err := s.r.o.Agreer.Agree(s.r.ctx, Order{Kind: Detach, From: s.r.o.Self, At: s.node, Stream: s.id})
		switch {
		case err == nil, errors.Is(err, ErrVoid):
			s.attached = false
			return nil
		case errors.Is(err, ErrPromoted):
			s.attached = false
			return errSuperseded
		}
		s.r.o.Log.Warn("it cannot be agreed upon that a replica lacks changes; these are not acknowledged", "node", s.node, "error", err)
		select {
		case <-time.After(s.r.o.RetryInterval):
		case <-s.r.ctx.Done():
			return fmt.Errorf("%w: the node closes before a replica is detached", engine.ErrUncertain)
		}
	}
}

// endSuperseded ends the sessions that have continued from their replica, and has that agreed upon: sessions that are
// begun later must not end with them after a restart.
func (s *stream) endSuperseded() error {
	s.r.mu.Lock()
	superseded := s.state == promoted
	s.r.mu.Unlock()
	if !superseded {
		return nil
	}
	last := s.r.o.Agreer.Last(s.r.o.Self, s.node)
	if last.Kind == Detach && last.Stream == s.ending { // though the outcome was not known
		s.setState(absent)
		return nil
	}
	if last.Kind != Promote {
		return errors.New("it is not known here yet that sessions have continued at another node")
	}
	has := func(clientID string) bool { return choose(hashOf(clientID), s.nodes) == s.node }
	if err := s.r.o.Superseded(s.ctx, s.node, has); err != nil {
		return fmt.Errorf("end sessions that have continued at another node: %w", err)
	}
	s.ending = last.Stream
	err := s.r.o.Agreer.Agree(s.ctx, Order{Kind: End, From: last.From, At: last.At, Stream: last.Stream})
	if err != nil {
		return fmt.Errorf("agree upon the end of sessions that have continued at another node: %w", err)
	}
	s.setState(absent)
	return nil
}

func (s *stream) setState(to state) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.state = to
}

// nextStream returns the name of the next replica at a node, greater than all before.
func (r *Replicator) nextStream(node int) uint64 {
	last := uint64(0)
	if a := r.o.Agreer; a != nil {
		last = a.Last(r.o.Self, node).Stream
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastStream = max(r.lastStream+1, last+1, uint64(time.Now().UnixMicro()))
	return r.lastStream
}
