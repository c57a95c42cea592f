package listen

import (
	"context"
	"errors"
)

// HasAdminOnly reports whether there is a listener for administrators only.
func (s *Set) HasAdminOnly() bool {
	for _, l := range s.listeners {
		if l.config.AdminOnly {
			return true
		}
	}
	return false
}

// Restrict closes all listeners but those for administrators, so that a probe that only
// connects notices, and ends their connections that are not handed over yet; the others
// stay. Or it reopens them at the same addresses: as many as possible, and its error names
// the others, which another call tries again. Before Bind it decides what Bind opens, after
// Close it has no effect.
func (s *Set) Restrict(adminOnly bool) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	s.restrict(adminOnly)
	if !s.opened {
		return nil
	}
	var errs []error
	for _, l := range s.listeners {
		switch open := l.bound.Load() != nil; {
		case s.isShut(l):
			l.close()
		case open:
		default:
			errs = append(errs, s.reopen(l))
		}
	}
	return errors.Join(errs...)
}

// restrict sets which listeners are open.
func (s *Set) restrict(adminOnly bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restricted = adminOnly
	if adminOnly {
		s.shutdownPending(func(l *Listener) bool { return !l.config.AdminOnly })
	}
}

// isShut reports whether a listener must be closed.
func (s *Set) isShut(l *Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped || s.restricted && !l.config.AdminOnly
}

// reopen opens a listener again. The caller holds opening.
func (s *Set) reopen(l *Listener) error {
	if err := l.bind(context.Background()); err != nil {
		return err
	}
	s.serve(l)
	return nil
}
