package cluster

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// compact checks periodically whether the log has become too large, until the membership
// stops. raft itself checks the number of entries.
func (s *membership) compact() {
	ticks := time.NewTicker(min(time.Second, s.node.options.Timing.SnapshotEvery))
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			if err := s.shrink(); err != nil {
				s.node.log.Warn("the log of the cluster cannot be compacted at the moment", "error", err)
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// shrink takes a snapshot if one is due, and sets how much of the log stays after each
// snapshot. A snapshot is due when the entries since the last one have more bytes than
// it, or the schema of the Shared's content has changed since; twice its bytes stay for
// followers that are behind. So what is written is at most doubled, the log is at most three
// times as large as the state, and a node that was sent a snapshot finds what was appended
// meanwhile in the log.
func (s *membership) shrink() error {
	all, err := s.node.store.List()
	if err != nil || len(all) == 0 {
		return err
	}
	last, t := all[0], s.node.options.Timing
	c := s.raft.ReloadableConfig()
	trailing := min(t.Trailing, s.node.store.Tail(max(t.TrailingBytes, 2*last.Size)))
	if c.TrailingLogs != trailing {
		c.TrailingLogs = trailing
		if err := s.raft.ReloadConfig(c); err != nil {
			return err
		}
	}
	changed, err := s.schemaChanged(last.ID)
	if err != nil || !changed && s.node.store.Since(last.Index) <= max(t.SnapshotBytes, last.Size) {
		return err
	}
	err = s.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) || errors.Is(err, raft.ErrRaftShutdown) {
		return nil
	}
	return err
}

// snapshotSchema is the schema of the Shared's content in a snapshot, 0 if it has none.
type snapshotSchema struct {
	id     string
	schema int64
}

// schemaChanged reports whether the Shared's content has another schema than in a snapshot.
func (s *membership) schemaChanged(id string) (bool, error) {
	if s.fsm.shared == nil {
		return false, nil
	}
	if s.latest.id != id {
		_, r, err := s.node.store.Open(id)
		if err != nil {
			return false, err
		}
		defer r.Close()
		h, err := readHeader(r)
		if err != nil {
			return false, err
		}
		s.latest = snapshotSchema{id, h.Schema}
	}
	stored, _ := s.fsm.shared.Schema()
	return s.latest.schema != 0 && stored != s.latest.schema, nil
}

// contextReadWriter reads and writes until a context ends: a snapshot may take long, and
// a node that closes does not wait for it.
type contextReadWriter struct {
	ctx context.Context
	io.Reader
	io.Writer
}

// Read reads unless the context has ended.
func (l contextReadWriter) Read(p []byte) (int, error) {
	if l.ctx.Err() != nil {
		return 0, context.Cause(l.ctx)
	}
	return l.Reader.Read(p)
}

// Write writes unless the context has ended.
func (l contextReadWriter) Write(p []byte) (int, error) {
	if l.ctx.Err() != nil {
		return 0, context.Cause(l.ctx)
	}
	return l.Writer.Write(p)
}
