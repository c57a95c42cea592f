package raftlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"signalbox/broker/storage"
)

// IsMonotonic reports true: the log has no gaps, so raft empties it when it has
// restored a snapshot.
func (s *Store) IsMonotonic() bool { return true }

// FirstIndex returns the number of the first entry, 0 where there is none.
func (s *Store) FirstIndex() (uint64, error) {
	first, _ := s.bounds()
	return first, nil
}

// LastIndex returns the number of the last entry, 0 where there is none.
func (s *Store) LastIndex() (uint64, error) {
	_, last := s.bounds()
	return last, nil
}

// GetLog reads an entry, or returns raft.ErrLogNotFound.
func (s *Store) GetLog(index uint64, l *raft.Log) error {
	if first, last := s.bounds(); index < first || index > last || index == 0 {
		return raft.ErrLogNotFound
	}
	var at int64
	e := raft.Log{Index: index}
	err := s.read.entry.QueryRow(int64(index)).Scan(&e.Term, &e.Type, &e.Data, &e.Extensions, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return raft.ErrLogNotFound // deleted meanwhile
	}
	if err != nil {
		return fmt.Errorf("read entry %d of the cluster's log: %w", index, err)
	}
	if at != 0 {
		e.AppendedAt = time.Unix(0, at)
	}
	*l = e
	return nil
}

// StoreLog appends an entry.
func (s *Store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries in one transaction, which is on the disk when it
// returns. They follow each other and the last one, if there is one.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.checkOrder(logs)
	if err == nil {
		err = s.conn.Transact(context.Background(), func(tx storage.Tx) error {
			for _, l := range logs {
				if err := insert(tx, l); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("append to the cluster's log: %w", err)
	}
	for _, l := range logs {
		s.extend(l.Index, len(l.Data))
	}
	return nil
}

func (s *Store) checkOrder(logs []*raft.Log) error {
	_, last := s.bounds()
	for _, l := range logs {
		if l.Index == 0 || last != 0 && l.Index != last+1 {
			return fmt.Errorf("entry %d does not follow entry %d", l.Index, last)
		}
		last = l.Index
	}
	return nil
}

func insert(tx storage.Tx, l *raft.Log) error {
	var at int64
	if !l.AppendedAt.IsZero() {
		at = l.AppendedAt.UnixNano()
	}
	return tx.Exec(insertEntry, int64(l.Index), int64(l.Term), int64(l.Type), blob(l.Data), blob(l.Extensions), at)
}

// blob returns an empty value for nil, which would be NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// DeleteRange deletes entries from either end of the log, from and to included.
// It does so in several transactions, in an order that leaves no gap if it ends early.
func (s *Store) DeleteRange(from, to uint64) error {
	first, last := s.bounds()
	from, to = max(from, first), min(to, last)
	if first == 0 || from > to {
		return nil
	}
	if from != first && to != last {
		return fmt.Errorf("entries %d to %d are in the middle of the cluster's log", from, to)
	}
	front := from == first
	for from <= to {
		n := s.deletionSize(from, to, front)
		lo, hi := from, from+n-1
		if !front {
			lo, hi = to-n+1, to
		}
		if err := s.deletePart(lo, hi); err != nil {
			return fmt.Errorf("delete from the cluster's log: %w", err)
		}
		if front {
			from = hi + 1
		} else {
			to = lo - 1
		}
	}
	return s.shrinkFile()
}

// deletePart deletes entries at one end in one transaction.
func (s *Store) deletePart(lo, hi uint64) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.conn.Transact(context.Background(), func(tx storage.Tx) error { return tx.Exec(deleteEntries, int64(lo), int64(hi)) })
	if err == nil {
		s.shrink(lo, hi)
	}
	return err
}

// shrinkFile makes the file smaller by some of the pages that became free.
func (s *Store) shrinkFile() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if _, err := s.conn.ReleasePages(context.Background()); err != nil {
		return fmt.Errorf("shrink the cluster's database: %w", err)
	}
	return nil
}

// Incomplete reports whether entries are missing between the latest snapshot and
// the log, and returns the last entry if they are.
func (s *Store) Incomplete() (last raft.Log, missing bool, err error) {
	first, end := s.bounds()
	if first == 0 {
		return last, false, nil
	}
	all, err := s.rows()
	if err != nil {
		return last, false, err
	}
	var snapshot uint64
	if len(all) > 0 {
		snapshot = all[0].Index
	}
	if first <= snapshot+1 {
		return last, false, nil
	}
	return last, true, s.GetLog(end, &last)
}

// ClearLog deletes all entries and changes other stored values, in one transaction.
func (s *Store) ClearLog(c Changes) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	err := s.conn.Transact(context.Background(), func(tx storage.Tx) error { return errors.Join(tx.Exec(deleteAllEntries), c.write(tx)) })
	if err != nil {
		return fmt.Errorf("clear the cluster's log: %w", err)
	}
	s.clear()
	return nil
}
