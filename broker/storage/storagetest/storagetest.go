// Package storagetest has the tests that each user of a storage.Committer must pass: what
// happens to entries when nothing can be stored, when one contradicts what is stored,
// and when the store is closed or the process ends. What is particular to a user is
// tested in its own package.
//
// It is imported by tests only.
package storagetest

import (
	"context"
	"log/slog"
	"testing"

	"signalbox/broker/storage"
)

// User opens the stores of a user of a Committer.
type User struct {
	// Open opens the store in a directory. It is also called outside of a test.
	Open func(ctx context.Context, dir string, log *slog.Logger) (Store, error)
	// LastWrite is the last change that a transaction makes for an entry, as a
	// trigger has it: "UPDATE ON queue".
	LastWrite string
}

// Store is an open store. Its entries have ascending numbers from 1.
type Store interface {
	// Put submits an entry of at least size bytes. outcome receives its outcome.
	Put(number, size int, outcome func(error))
	// PutBad submits an entry that contradicts what is stored.
	PutBad(outcome func(error))
	// Stored returns the numbers of the stored entries.
	Stored(t testing.TB) []int
	// Check fails the test unless the file is sound and agrees with the memory.
	Check(t testing.TB)

	Conn() *storage.Conn // the committer's
	Err() error
	Close(ctx context.Context) error
}

// Run runs all tests for a user, whose TestMain calls RunProcess.
func Run(t *testing.T, u User) {
	for name, test := range map[string]func(*testing.T, User){
		"full":                 full,
		"read-only":            readOnly,
		"one bad entry":        badEntry,
		"order of outcomes":    order,
		"close while it waits": closeWhileCommitting,
		"crash before COMMIT":  crashBeforeCommit,
		"full at COMMIT":       fullAtCommit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, u)
		})
	}
}

// must fails the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// put submits an entry and returns a channel of its outcome.
func put(s Store, number, size int) <-chan error {
	outcome := make(chan error, 1)
	s.Put(number, size, func(err error) { outcome <- err })
	return outcome
}
