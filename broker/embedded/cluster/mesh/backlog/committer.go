package backlog

import (
	"fmt"

	"signalbox/broker/storage"
)

// kind is what an entry changes.
type kind int

const (
	kindPut    kind = iota // adds the message number
	kindRemove             // deletes those up to number
	kindClear              // deletes those up to number, and all filters
	kindBegin              // adds the node, in the generation number
	kindRoutes             // changes filters
)

// entry is a change to be committed.
type entry struct {
	kind     kind
	queue    *Queue
	number   uint64
	data     []byte
	done     func(error)
	routes   []Route
	complete bool
}

// entryOverhead is what an entry counts in addition to its data, in bytes.
const entryOverhead = 100

// submit passes an entry to the committer. It reports false after Close.
func (s *Store) submit(e *entry) bool {
	weight := entryOverhead + len(e.data)
	for _, r := range e.routes {
		weight += entryOverhead + len(r.Filter)
	}
	return s.commits.Put(storage.Submission[*entry]{Entry: e, Weight: weight})
}

// Committed passes on the outcome.
func (e *entry) Committed(err error) {
	if e.kind == kindPut {
		e.queue.settle(e.number, err)
		e.done(err)
	}
}

// write writes a group.
func write(tx storage.Tx, group []*entry) error {
	for _, e := range group {
		if err := e.write(tx); err != nil {
			return err
		}
	}
	return nil
}

func (e *entry) write(tx storage.Tx) error {
	q := e.queue
	switch e.kind {
	case kindPut:
		return tx.Exec(putMessage, q.id(e.number), e.data)
	case kindRemove:
		return tx.Exec(deleteMessages, q.id(0), q.id(e.number))
	case kindClear:
		if err := tx.Exec(deleteMessages, q.id(0), q.id(e.number)); err != nil {
			return err
		}
		if err := tx.Exec(deleteRoutes, q.node); err != nil {
			return err
		}
		return tx.Exec(deleteNode, q.node)
	case kindBegin:
		return tx.Exec(putNode, q.node, int64(e.number))
	}
	return e.writeRoutes(tx)
}

func (e *entry) writeRoutes(tx storage.Tx) error {
	for _, r := range e.routes {
		var err error
		if r.Removed {
			err = tx.Exec(deleteRoute, e.queue.node, r.Filter)
		} else {
			err = tx.Exec(putRoute, e.queue.node, r.Filter, int64(r.Interest))
		}
		if err != nil {
			return err
		}
	}
	if e.complete {
		return tx.Exec(completeNode, e.queue.node)
	}
	return nil
}

// omit logs an entry that contradicts what is stored.
func (s *Store) omit(group []*entry, err error) error {
	s.log.Error("a message for another node contradicts what is stored and was left out", "node", group[0].queue.node, "error", err)
	return fmt.Errorf("store a message for another node: %w", err)
}

// refuse keeps deletions and filters until they can be stored, and refuses messages.
func (s *Store) refuse(group []*entry) (refused []*entry) {
	for _, e := range group {
		if e.kind == kindPut {
			refused = append(refused, e)
		} else {
			s.owed = append(s.owed, e)
		}
	}
	return refused
}

// resume stores what refuse has kept.
func (s *Store) resume() error {
	if err := s.commits.Probe(); err != nil {
		return err
	}
	return s.end()
}

// end is resume at the end, without a probe.
func (s *Store) end() error {
	if len(s.owed) == 0 {
		return nil
	}
	if err := s.commits.Write(s.owed); err != nil {
		return err
	}
	s.owed = nil
	return nil
}
