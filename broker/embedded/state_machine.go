package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"

	"signalbox/broker/embedded/access"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/store"
)

// The first byte of a command in the cluster's log, and of a request to the leader.
const (
	kindAccess   = 'A' // the access control
	kindMessages = 'M' // in syncmode full: sessions, queues and retained messages
	kindRetained = 'R' // in syncmode hp: retained messages
)

// machine is the state that the cluster replicates: the access control and, depending on
// the syncmode, messages.
type machine struct{ *member }

var _ cluster.BatchMachine = machine{}

// Apply applies one command, as ApplyBatch does.
func (m machine) Apply(index uint64, command []byte) any {
	return m.ApplyBatch([]cluster.Command{{Index: index, Data: command}})[0]
}

// ApplyBatch applies commands, and disconnects the clients that must be. Consecutive
// commands about messages are stored together.
func (m machine) ApplyBatch(commands []cluster.Command) []any {
	answers := make([]any, len(commands))
	for from := 0; from < len(commands); {
		to := from + 1
		for isMessages(commands[from]) && to < len(commands) && isMessages(commands[to]) {
			to++
		}
		if err := m.applyRun(commands[from:to]); err != nil {
			for i := from; i < len(commands); i++ {
				answers[i] = cluster.ApplyError{Err: err}
			}
			return answers
		}
		from = to
	}
	return answers
}

func isMessages(c cluster.Command) bool { return len(c.Data) > 0 && c.Data[0] == kindMessages }

// applyRun applies one command, or several about messages, all or none.
func (m machine) applyRun(run []cluster.Command) error {
	if !isMessages(run[0]) {
		return m.applyOne(run[0].Index, run[0].Data)
	}
	bodies := make([][]byte, len(run))
	for i, c := range run {
		bodies[i] = c.Data[1:]
	}
	return m.broker.replica.Apply(run[len(run)-1].Index, bodies...)
}

// applyOne applies a command that is not about messages.
func (m machine) applyOne(index uint64, command []byte) error {
	kind, body, err := splitKind(command)
	if err != nil {
		return err
	}
	switch kind {
	case kindAccess:
		disconnects, err := m.broker.control.ApplyChange(index, body)
		if err == nil {
			m.broker.disconnect(m.deferDisconnects(disconnects))
		}
		return err
	case kindRetained:
		return m.applyRetained(index, body)
	}
	return fmt.Errorf("a command of kind %q in the cluster's log is not supported by this release", kind)
}

// splitKind splits off the first byte of a command or a request.
func splitKind(text []byte) (kind byte, body []byte, err error) {
	if len(text) == 0 {
		return 0, nil, errors.New("it is empty")
	}
	return text[0], text[1:], nil
}

// withKind prepends the first byte to a command or a request.
func withKind(kind byte, body []byte) []byte {
	return append(append(make([]byte, 0, 1+len(body)), kind), body...)
}

// Applied returns the index of the last applied command. Changes of access control and of
// messages are stored one after the other in one file, so whatever is stored was stored
// after everything before it.
func (m machine) Applied() uint64 {
	return max(m.broker.control.AppliedIndex(), m.broker.store.AppliedIndex())
}

// The first byte of a snapshot: what is shared in addition to the access control, which
// follows it.
const (
	holdsAccess     = 'a'
	holdsEverything = 'f'
	holdsRetained   = 'h'
)

// storeParts are what is shared in addition to the access control, by the first byte of a
// snapshot.
var storeParts = map[byte]store.Part{holdsEverything: store.Everything, holdsRetained: store.RetainedOnly}

// snapshot is a consistent view of all shared state.
type snapshot struct {
	holds    byte
	access   *access.Snapshot
	messages *store.Snapshot // nil for none
}

// Snapshot returns a snapshot of the shared state. The log's commands are the only changes
// of the access control, and none is applied meanwhile, so both parts are of the same
// moment.
func (m machine) Snapshot(ctx context.Context) (cluster.Snapshot, error) {
	s := &snapshot{holds: m.sharing().snapshotKind()}
	var err error
	if s.access, err = m.broker.control.Snapshot(ctx); err != nil {
		return nil, err
	}
	if part, ok := storeParts[s.holds]; ok {
		if s.messages, err = m.broker.store.Snapshot(ctx, part); err != nil {
			s.access.Release()
			return nil, err
		}
	}
	return s, nil
}

// WriteTo writes the snapshot as Restore reads it.
func (s *snapshot) WriteTo(w io.Writer) (written int64, err error) {
	n, err := w.Write([]byte{s.holds})
	written = int64(n)
	for _, part := range []io.WriterTo{s.messages, s.access} {
		if err != nil || part == (*store.Snapshot)(nil) {
			continue
		}
		var n int64
		n, err = part.WriteTo(w)
		written += n
	}
	return written, err
}

// Release releases both parts.
func (s *snapshot) Release() {
	s.access.Release()
	if s.messages != nil {
		s.messages.Release()
	}
}

// partialIndex is the index of the part that is restored first: until the other one is
// restored too, Applied is the old index, and both are restored again.
const partialIndex = 1

// Restore replaces the shared state by a snapshot.
func (m machine) Restore(ctx context.Context, index uint64, r io.Reader) error {
	var holds [1]byte
	if _, err := io.ReadFull(r, holds[:]); err != nil {
		return fmt.Errorf("read what the snapshot holds: %w", err)
	}
	if want := m.sharing().snapshotKind(); holds[0] != want {
		return fmt.Errorf("the syncmode of the cluster is not that of this node (the snapshot is of kind %q, not %q): let the node leave, and join it with the syncmode of the cluster", holds[0], want)
	}
	if err := m.broker.kept.markReplaced(); err != nil {
		return err
	}
	if err := m.restoreMessages(ctx, holds[0], r); err != nil {
		return err
	}
	disconnects, err := m.broker.control.ImportState(ctx, index, r)
	if err == nil {
		m.disconnect(disconnects)
	}
	return err
}

// restoreMessages replaces what is shared in addition to the access control.
func (m machine) restoreMessages(ctx context.Context, holds byte, r io.Reader) error {
	part, ok := storeParts[holds]
	if !ok {
		return nil
	}
	retained, err := m.broker.store.Restore(ctx, partialIndex, part, r, m.broker.engine.NextMessageID)
	if err == nil && part == store.RetainedOnly {
		m.broker.engine.ReplaceRetained(retained)
	}
	return err
}
