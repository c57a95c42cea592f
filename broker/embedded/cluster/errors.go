package cluster

import (
	"context"
	"errors"
	"fmt"
)

// The errors of operations. After all except ErrUnconfirmed and ErrWaiting, nothing has
// happened.
var (
	ErrClosed       = errors.New("the node is closed")
	ErrClustered    = errors.New("this broker is already part of a cluster")
	ErrNotClustered = errors.New("this broker is not part of a cluster")
	ErrNotLeader    = errors.New("this broker is not the cluster leader")
	ErrNoLeader     = errors.New("the cluster has no leader at the moment")
	ErrUnknownNode  = errors.New("the cluster has no such node")
	ErrMember       = errors.New("the node is a member already, and answers")
	ErrLastNode     = errors.New("the node is the only one of its cluster, which can be deleted instead")
	ErrNotVoter     = errors.New("the node has no vote at the moment, so it cannot lead")
	ErrInvitation   = errors.New("the invitation is not, or no longer, valid")
	ErrInvalid      = errors.New("the description of the cluster is not valid")
	ErrBusy         = errors.New("too many requests wait for the other node")
	ErrUnreachable  = errors.New("the node cannot be reached at the moment")

	// ErrUnconfirmed reports that an operation was begun and its outcome is not known.
	ErrUnconfirmed = errors.New("it is not known whether it was done")

	// ErrWaiting reports that a node has joined, and continues to wait for the other members.
	ErrWaiting = errors.New("the node has joined and waits for the cluster's leader")
)

// RemoteError is an error of Serve or Answer at another node. Its text may be shown to the user
// who made the request.
type RemoteError struct{ Text string }

// Error returns the text.
func (e *RemoteError) Error() string { return e.Text }

// invalid is an ErrInvalid with a description.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// unconfirmed is an ErrUnconfirmed with its cause.
func unconfirmed(cause error) error { return fmt.Errorf("%w: %w", ErrUnconfirmed, cause) }

// notBegun reports whether a request was not begun, so that it can go to the next leader. The
// cause of an ErrUnconfirmed may be ErrNoLeader; such a request was begun.
func notBegun(err error) bool {
	return (errors.Is(err, ErrNotLeader) || errors.Is(err, ErrNoLeader)) && !errors.Is(err, ErrUnconfirmed)
}

// overloaded is an ErrNoLeader of a caller whose deadline has passed before raft
// accepted its request.
func overloaded(ctx context.Context) error {
	return fmt.Errorf("%w: it has too much to do: %w", ErrNoLeader, context.Cause(ctx))
}
