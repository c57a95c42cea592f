package engine

import (
	"errors"
	"time"
)

// storeSession stores a session that outlives its connection, before CONNACK. For a
// session that is stored already the changes are owed, so it does not wait for a full disk.
func (e *Engine) storeSession(s *Session) error {
	s.mu.Lock()
	known := s.stored
	if !known && s.generation.isOver() {
		s.expiry = 0
	}
	if !s.keeps() && !known {
		return e.storeWill(s)
	}
	s.stored = true
	outcome := make(result, 1)
	s.put(&Changes{Owed: known, Done: outcome})
	s.mu.Unlock()
	err := e.outcome(outcome, known)
	if err != nil {
		s.mu.Lock()
		s.stored, s.expiry = false, 0
		s.out.unchargeAll()
		s.mu.Unlock()
	}
	if errors.Is(err, errGenerationOver) {
		return nil // the session ends with the connection
	}
	return err
}

// storeWill stores the Will of a session that ends with its connection, before CONNACK, so
// that it is published even if the process ends first [MQTT-3.1.2-8]. A client without a
// Will does not wait. While nothing can be stored the client is accepted all the same, and
// the Will is stored when that is possible. mu is held, and released.
func (e *Engine) storeWill(s *Session) error {
	if s.will.record == nil || s.generation.isOver() {
		s.mu.Unlock()
		return nil
	}
	s.will.stored = true
	outcome := make(result, 1)
	s.put(&Changes{Owed: true, Done: outcome})
	s.mu.Unlock()
	err := e.outcome(outcome, true)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	s.will.stored = false
	s.mu.Unlock()
	if errors.Is(err, ErrUncertain) {
		return err
	}
	return nil
}

// lasts returns how long the session is kept after its connection, in seconds.
func (s *Session) lasts() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expiry
}

// commit stores changes of the session and waits for the outcome.
func (s *Session) commit(c *Changes) error {
	outcome := make(result, 1)
	c.Done = outcome
	s.generation.submit(c)
	return s.engine.outcome(outcome, c.Owed)
}

// owedPatience is how often a caller that waits for owed changes checks whether anything
// can be stored.
const owedPatience = 100 * time.Millisecond

// outcome waits for the outcome of changes. For owed changes it returns nil while nothing
// can be stored, because the store stores them later.
func (e *Engine) outcome(r result, owed bool) error {
	if !owed {
		return <-r
	}
	for {
		select {
		case err := <-r:
			return err
		case <-time.After(owedPatience):
			if err := e.store.Err(); err != nil && !errors.Is(err, ErrUncertain) {
				return nil
			}
		}
	}
}

// result is the outcome of changes that a caller waits for.
type result chan error

// Committed wakes the caller that waits.
func (r result) Committed(_ *Changes, err error) { r <- err }
