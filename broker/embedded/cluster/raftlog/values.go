package raftlog

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"signalbox/broker/storage"
)

// Changes are values to be stored, by their names; nil deletes a value.
type Changes map[string][]byte

// Update makes changes in one transaction, which is on the disk when it returns.
func (s *Store) Update(c Changes) error {
	if err := s.transact(c.write); err != nil {
		return fmt.Errorf("write to the cluster's database: %w", err)
	}
	return nil
}

// write makes the changes within a transaction.
func (c Changes) write(tx storage.Tx) error {
	for name, value := range c {
		var err error
		if value == nil {
			err = tx.Exec(deleteValue, name)
		} else {
			err = tx.Exec(putValue, name, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Value returns the value that is stored under a name, nil where there is none.
func (s *Store) Value(name string) ([]byte, error) {
	var value []byte
	err := s.read.kept.QueryRow(name).Scan(&value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read %s from the cluster's database: %w", name, err)
	}
	return value, nil
}

// raftName returns the name under which the value of one of raft's own keys is stored.
func raftName(key []byte) string { return "raft/" + string(key) }

// TermChange returns the change that sets raft's term, for a consensus that begins.
func TermChange(term uint64) Changes {
	return Changes{raftName([]byte("CurrentTerm")): binary.BigEndian.AppendUint64(nil, term)}
}

// Get returns raft's value of a key, which is empty where there is none.
func (s *Store) Get(key []byte) ([]byte, error) { return s.Value(raftName(key)) }

// GetUint64 returns raft's value of a key, 0 where there is none.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil || len(value) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// SetUint64 stores raft's value of a key as Set does.
func (s *Store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// Set stores raft's value of a key. raft ends the whole process when a term cannot be
// stored, for example because the disk is full. To the other nodes, a node that waits is
// a node that is down, and it goes on when there is space. So Set tries again until the
// value is stored or the store is released.
func (s *Store) Set(key, value []byte) error {
	defer s.retriedErr.Store(nil)
	for logged := false; ; logged = true {
		err := s.Update(Changes{raftName(key): value})
		if err == nil {
			return nil
		}
		s.retriedErr.Store(&err)
		if !logged {
			s.log.Error("the node waits until its vote can be stored", "error", err)
		}
		if !s.wait() {
			return nil
		}
	}
}

// RetriedErr returns why a term or vote cannot be stored while Set tries again, else nil.
func (s *Store) RetriedErr() error {
	if err := s.retriedErr.Load(); err != nil {
		return *err
	}
	return nil
}

// retryPolicy is how often, and until when, Set tries to store a value.
type retryPolicy struct {
	interval time.Duration
	released chan struct{}
}

func newRetryPolicy() retryPolicy {
	return retryPolicy{interval: time.Second, released: make(chan struct{})}
}

// wait waits before the next attempt. It reports false once the store is released.
func (p *retryPolicy) wait() bool {
	t := time.NewTimer(p.interval)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.released:
		return false
	}
}

// Release makes Set stop trying, so that a consensus can be stopped while nothing can be
// stored. By then the node must be disconnected from all others: Set reports success for
// a value that it has not stored. Reset makes Set try again, for a consensus that is
// started anew.
func (s *Store) Release() { close(s.released) }

// Reset undoes Release, while no consensus runs.
func (s *Store) Reset() { s.retryPolicy.released = make(chan struct{}) }

// ReadValues returns the values of names that the file in a folder has; none if there is no file. It
// reads it as [storage.View] does, also while a node has it open.
func ReadValues(ctx context.Context, dir string, names ...string) (map[string][]byte, error) {
	path, values := filepath.Join(dir, "cluster.db"), map[string][]byte{}
	if info, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return values, nil
	}
	err := storage.View(ctx, path, func(db *sql.DB) error {
		for _, name := range names {
			var value []byte
			err := db.QueryRowContext(ctx, `SELECT value FROM kept WHERE name = ?`, name).Scan(&value)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return err
			}
			values[name] = value
		}
		return nil
	})
	return values, storage.OpenError(path, err)
}
