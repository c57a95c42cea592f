//go:build !linux

package poll

import (
	"errors"
	"time"
)

// Set does not exist on this system.
type Set[T comparable] struct{}

// NewSet returns an error.
func NewSet[T comparable]() (*Set[T], error) { return nil, errors.ErrUnsupported }

// Add is never called.
func (*Set[T]) Add(*Conn, T) error { return errors.ErrUnsupported }

// Remove is never called.
func (*Set[T]) Remove(*Conn) {}

// CloseMember is never called.
func (*Set[T]) CloseMember(*Conn) {}

// Wait is never called.
func (*Set[T]) Wait([]T) ([]T, error) { return nil, errors.ErrUnsupported }

// Sleep is never called.
func (*Set[T]) Sleep(time.Duration) error { return errors.ErrUnsupported }

// Close is never called.
func (*Set[T]) Close() {}
