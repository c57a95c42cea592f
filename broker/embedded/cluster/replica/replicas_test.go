package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/embedded/store"
	"signalbox/broker/storage"
	"signalbox/scripts/suite"
)

// member is a node with a real store.
type member struct {
	*Store
	disk *store.Store
}

func newMember(t testing.TB) *member {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	f, err := schema.Open(t.Context(), filepath.Join(t.TempDir(), "broker.db"), log)
	must(t, err)
	disk, err := store.Open(t.Context(), f, store.Options{Durability: storage.Process})
	must(t, err)
	m := &member{Open(Options{Local: disk, Encode: store.AppendChanges, Decode: store.DecodeChanges}), disk}
	t.Cleanup(func() { must(t, m.Close(context.Background()), f.Close()) })
	return m
}

// queued is what the tests below read of a snapshot: the messages of the queue of session
// 1, by sequence number.
type queued struct {
	Seq, ID uint64
	Payload string
}

func (m *member) load(t testing.TB) (queue []queued, last uint64) {
	t.Helper()
	snapshot, err := m.disk.Load(t.Context())
	must(t, err)
	for _, s := range snapshot.Sessions {
		for _, r := range s.Queue {
			read, err := m.disk.Messages(t.Context(), []uint64{r.Stub.ID})
			must(t, err)
			queue = append(queue, queued{r.Seq, r.Stub.ID, string(read[0].Payload)})
		}
	}
	return queue, snapshot.LastMessageID
}

// replicas are the members of a cluster whose consensus is a list.
type replicas struct {
	members []*member
	mu      sync.Mutex
	index   uint64
}

// commit applies a command everywhere.
func (r *replicas) commit(command []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.index++
	for _, m := range r.members {
		if err := m.Apply(r.index, command); err != nil {
			return err
		}
	}
	return nil
}

// term is a leadership that ends with one of its commands. The leader does not learn
// whether that command is committed.
type term struct {
	*replicas
	begun     int
	last      int
	committed bool
}

func (t *term) Begin(command []byte) func(context.Context) error {
	t.begun++
	number := t.begun
	return func(context.Context) error {
		if number < t.last || number == t.last && t.committed {
			if err := t.commit(command); err != nil {
				return err
			}
		}
		if number >= t.last {
			return errLost
		}
		return nil
	}
}

// TestReplicas makes members lead in turn, and lose the leadership under load. Afterwards
// all have the same: every committed change, once.
func TestReplicas(t *testing.T) {
	t.Parallel()
	seed := suite.Seed(t)
	random := rand.New(rand.NewPCG(seed, 0))
	r := &replicas{}
	for range 3 {
		r.members = append(r.members, newMember(t))
	}
	for _, m := range r.members {
		must(t, m.Follow(t.Context()))
	}
	begin := &engine.Changes{PutSessions: []engine.SessionRecord{{ID: 1, ClientID: "c"}}}
	must(t, r.commit(store.AppendChanges(nil, []*engine.Changes{begin})))

	made, kept := 0, map[string]bool{}
	for range 12 {
		leader := r.members[random.IntN(len(r.members))]
		leadership := &term{replicas: r, last: 1 + random.IntN(8), committed: random.IntN(2) == 0}
		for payload, err := range leader.publish(t, leadership, &made) {
			kept[payload] = kept[payload] || err == nil
		}
		must(t, leader.Follow(t.Context()))
	}
	r.compare(t, kept)
}

// publish leads until the leadership is lost, and returns the outcome of each message. Up
// to 32 are pending.
func (m *member) publish(t *testing.T, leadership *term, made *int) map[string]error {
	t.Helper()
	lost, err := m.Lead(t.Context(), leadership.Begin)
	must(t, err)
	_, last := m.load(t)
	type published struct {
		payload string
		receipt outcome
	}
	outcomes := map[string]error{}
	settle := func(o published) { outcomes[o.payload] = <-o.receipt }
	var pending []published
	for over := false; !over; {
		last++
		*made++
		message := &engine.Message{ID: last, Topic: "a", Payload: fmt.Append(nil, *made), QoS: 1}
		c := &engine.Changes{Messages: []*engine.Message{message}}
		c.Enqueued = []engine.QueueRecord{{SessionID: 1, Seq: last, Message: message, QoS: 1}}
		pending = append(pending, published{string(message.Payload), submit(m.Store, c)})
		select {
		case <-lost:
			over = true
		default:
		}
		for ; len(pending) > 32 || over && len(pending) > 0; pending = pending[1:] {
			settle(pending[0])
		}
	}
	if err := m.Err(); !errors.Is(err, engine.ErrUncertain) {
		t.Errorf("after the leadership: %v", err)
	}
	return outcomes
}

// compare compares all members with each other and with what was committed.
func (r *replicas) compare(t *testing.T, kept map[string]bool) {
	t.Helper()
	want, _ := r.members[0].load(t)
	for _, m := range r.members[1:] {
		if got, _ := m.load(t); !cmp.Equal(want, got) {
			t.Errorf("a member differs from the first (-first +other):\n%s", cmp.Diff(want, got))
		}
	}
	stored := map[string]bool{}
	for _, q := range want {
		if stored[q.Payload] {
			t.Errorf("message %s is stored twice", q.Payload)
		}
		stored[q.Payload] = true
	}
	lost, unasked := 0, 0
	for payload, settled := range kept {
		if settled && !stored[payload] {
			lost++
		}
		if !settled && stored[payload] {
			unasked++
		}
	}
	t.Logf("%d messages, %d stored, %d of them uncertain", len(kept), len(stored), unasked)
	if lost > 0 {
		t.Errorf("%d of %d messages that were settled are lost", lost, len(kept))
	}
}

// TestJoinAndLeave keeps what a member stored before it joined the others and after it
// left them.
func TestJoinAndLeave(t *testing.T) {
	t.Parallel()
	m := newMember(t)
	r := &replicas{members: []*member{m}}
	put := func(id uint64) *engine.Changes {
		return &engine.Changes{PutSessions: []engine.SessionRecord{{ID: id, ClientID: fmt.Sprint(id)}}}
	}
	must(t, <-submit(m.Store, put(1)))
	lead(t, m.Store, (&term{replicas: r, last: 100}).Begin)
	must(t, <-submit(m.Store, put(2)), m.Follow(t.Context()), <-submit(m.Store, put(3)))
	must(t, m.Alone(t.Context()), m.disk.Detach(t.Context()), <-submit(m.Store, put(4)))
	snapshot, err := m.Load(t.Context())
	must(t, err)
	var ids []uint64
	for _, s := range snapshot.Sessions {
		ids = append(ids, s.ID)
	}
	if want := []uint64{1, 2, 4}; !cmp.Equal(want, ids) {
		t.Errorf("got sessions %v, want %v", ids, want)
	}
}
