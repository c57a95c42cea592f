package raftlog

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// Changes are values to be kept by their names; nil deletes what is kept.
type Changes map[string][]byte

// Keep makes changes in one transaction, which is on the disk when it returns.
func (s *Store) Keep(c Changes) error {
	if err := s.transact(func() error { return s.put(c) }); err != nil {
		return fmt.Errorf("write to the cluster's database: %w", err)
	}
	return nil
}

// put makes changes within a transaction.
func (s *Store) put(c Changes) error {
	for name, value := range c {
		var err error
		if value == nil {
			err = s.conn.Exec(dropKept, name)
		} else {
			err = s.conn.Exec(putKept, name, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Kept gives what is kept under a name, nil where there is nothing.
func (s *Store) Kept(name string) ([]byte, error) {
	var value []byte
	err := s.read.kept.QueryRow(name).Scan(&value)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read %s from the cluster's database: %w", name, err)
	}
	return value, nil
}

// ofRaft is the name under which raft's own keys are kept.
func ofRaft(key []byte) string { return "raft/" + string(key) }

// TermChange is the change that sets raft's term, for a consensus that begins.
func TermChange(term uint64) Changes {
	return Changes{ofRaft([]byte("CurrentTerm")): binary.BigEndian.AppendUint64(nil, term)}
}

// Get gives raft's value of a key, which is empty where there is none.
func (s *Store) Get(key []byte) ([]byte, error) { return s.Kept(ofRaft(key)) }

// GetUint64 gives raft's value of a key, 0 where there is none.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	value, err := s.Get(key)
	if err != nil || len(value) != 8 {
		return 0, err
	}
	return binary.BigEndian.Uint64(value), nil
}

// SetUint64 keeps raft's value of a key as Set does.
func (s *Store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// Set keeps raft's value of a key. raft ends the whole process when a term cannot
// be kept, on a full disk, say. A node that waits is to the others as one that is
// down, and goes on when there is room. So Set tries again until the value is
// kept or the store is released.
func (s *Store) Set(key, value []byte) error {
	defer s.waitsFor.Store(nil)
	for complained := false; ; complained = true {
		err := s.Keep(Changes{ofRaft(key): value})
		if err == nil {
			return nil
		}
		s.waitsFor.Store(&err)
		if !complained {
			s.log.Error("the node waits until its vote can be stored", "err", err)
		}
		if !s.wait() {
			return nil
		}
	}
}

// WaitsFor returns why a term or vote cannot be kept, while Set waits for that.
func (s *Store) WaitsFor() error {
	if err := s.waitsFor.Load(); err != nil {
		return *err
	}
	return nil
}

// patience bounds how long raft's values are tried to be kept.
type patience struct {
	retry    time.Duration
	released chan struct{}
}

func newPatience() patience {
	return patience{retry: time.Second, released: make(chan struct{})}
}

// wait waits before the next attempt. It is false once there shall be none.
func (p *patience) wait() bool {
	t := time.NewTimer(p.retry)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.released:
		return false
	}
}

// Release ends the waiting of Set, so that a consensus can be stopped while
// nothing can be stored. By then the node must be cut off from all others: what
// Set gives up it reports as kept. Rearm makes Set wait again, for a consensus
// that is started anew.
func (s *Store) Release() { close(s.released) }

// Rearm undoes Release, while no consensus runs.
func (s *Store) Rearm() { s.patience.released = make(chan struct{}) }
