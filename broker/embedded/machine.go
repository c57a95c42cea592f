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

// The first byte of a command of the cluster's log says what it is about, and so
// does that of a request to the leader.
const (
	aboutAccess   = 'A' // the access control
	aboutMessages = 'M' // in syncmode full: sessions, queues and retained messages
	aboutRetained = 'R' // in syncmode hp: retained messages
)

// machine is what the cluster replicates: the access control and, as the syncmode
// says, messages.
type machine struct{ *member }

var _ cluster.BatchMachine = machine{}

// Apply applies one command, as ApplyBatch does.
func (m machine) Apply(index uint64, command []byte) any {
	return m.ApplyBatch([]cluster.Command{{Index: index, Data: command}})[0]
}

// ApplyBatch applies commands, and cuts off whom they concern. Those about messages that follow each other are
// stored together.
func (m machine) ApplyBatch(commands []cluster.Command) []any {
	answers := make([]any, len(commands))
	for from := 0; from < len(commands); {
		to := from + 1
		for aboutMessage(commands[from]) && to < len(commands) && aboutMessage(commands[to]) {
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

func aboutMessage(c cluster.Command) bool { return len(c.Data) > 0 && c.Data[0] == aboutMessages }

// applyRun applies one command, or some about messages: all of them or none.
func (m machine) applyRun(run []cluster.Command) error {
	if !aboutMessage(run[0]) {
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
	about, body, err := parted(command)
	if err != nil {
		return err
	}
	switch about {
	case aboutAccess:
		cuts, err := m.broker.control.ApplyChange(index, body)
		if err == nil {
			m.broker.cut(m.spare(cuts))
		}
		return err
	case aboutRetained:
		return m.applyRetained(index, body)
	}
	return fmt.Errorf("a command about %q in the cluster's log is not known to this release", about)
}

// parted takes the first byte off a command or a request.
func parted(text []byte) (about byte, body []byte, err error) {
	if len(text) == 0 {
		return 0, nil, errors.New("it is empty")
	}
	return text[0], text[1:], nil
}

// with puts the first byte before a command or a request.
func with(about byte, body []byte) []byte {
	return append(append(make([]byte, 0, 1+len(body)), about), body...)
}

// Applied gives the index of the last command. What is about access control and
// what is about messages is stored one after the other in one file, so that
// whatever was stored was so with all before it.
func (m machine) Applied() uint64 {
	return max(m.broker.control.AppliedIndex(), m.broker.store.AppliedIndex())
}

// The first byte of a snapshot says what is in it: what is shared beside the access
// control, and behind it the access control.
const (
	holdsAccess     = 'a'
	holdsEverything = 'f'
	holdsRetained   = 'h'
)

// parts are what is shared beside the access control, by the first byte of a
// snapshot.
var parts = map[byte]store.Part{holdsEverything: store.Everything, holdsRetained: store.RetainedOnly}

// snapshot is a view of all that is shared.
type snapshot struct {
	holds    byte
	access   *access.Snapshot
	messages *store.Snapshot // nil for none
}

// Snapshot gives what is shared as it is now.
func (m machine) Snapshot(ctx context.Context) (cluster.Snapshot, error) {
	s := &snapshot{holds: m.sharing().holds()}
	var err error
	if s.access, err = m.broker.control.Snapshot(ctx); err != nil {
		return nil, err
	}
	if part, ok := parts[s.holds]; ok {
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

// Release ends the views.
func (s *snapshot) Release() {
	s.access.Release()
	if s.messages != nil {
		s.messages.Release()
	}
}

// begun is the index of what is restored first: as long as the rest is not, Applied
// is that of before, and all is restored again.
const begun = 1

// Restore takes over what the others share.
func (m machine) Restore(ctx context.Context, index uint64, r io.Reader) error {
	var holds [1]byte
	if _, err := io.ReadFull(r, holds[:]); err != nil {
		return fmt.Errorf("read what the snapshot holds: %w", err)
	}
	if want := m.sharing().holds(); holds[0] != want {
		return fmt.Errorf("the cluster has another syncmode than this node was told (it sends %q, not %q): let the node leave, and join it with that of the cluster", holds[0], want)
	}
	if err := m.restoreMessages(ctx, holds[0], r); err != nil {
		return err
	}
	cuts, err := m.broker.control.ImportState(ctx, index, r)
	if err == nil {
		m.cut(cuts)
	}
	return err
}

// restoreMessages takes over what is shared beside the access control.
func (m machine) restoreMessages(ctx context.Context, holds byte, r io.Reader) error {
	part, ok := parts[holds]
	if !ok {
		return nil
	}
	retained, err := m.broker.store.Restore(ctx, begun, part, r, m.broker.engine.NextMessageID)
	if err == nil && part == store.RetainedOnly {
		m.broker.engine.ReplaceRetained(retained)
	}
	return err
}
