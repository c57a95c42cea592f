package store

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/storage"
)

// TestRoundTrip stores every kind of record, with every field set and with none.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	full := engine.SessionRecord{
		ID: 7, ClientID: "ü/c", Username: "u", Anonymous: true, Version: 4, Clean: true, KeepAlive: 65535, ExpiryInterval: 4294967295,
		CreatedAt: 1, ConnectedAt: 2, DisconnectedAt: 3, Address: "127.0.0.1:1", WillDueAt: 4, SentSeq: 5,
		Will: &engine.WillRecord{
			Topic: "w/ü", Payload: []byte{0, 255}, Properties: []byte{38, 0}, QoS: 2, Retain: true, Delay: 5, Expiry: 6, HasExpiry: true,
		},
	}
	shared, kept, plain := message(1, "a/ü"), message(2, "kept"), &engine.Message{ID: 4, Topic: "plain"}
	s := fresh(t, Options{})
	store(t, s, &engine.Changes{
		PutSessions: []engine.SessionRecord{full, session(8)},
		Subscribed:  []engine.SubscriptionRecord{{SessionID: 7, Filter: "$share/g/a/#", Options: 0x2e, ID: 268435455}, {SessionID: 7, Filter: "b"}},
		Messages:    []*engine.Message{shared, kept, plain},
		Enqueued: []engine.QueueRecord{
			{SessionID: 7, Seq: 1 << 40, Message: shared, QoS: 2, Retain: true, Released: true, SubscriptionIDs: []uint32{1, 268435455}, Share: "$share/g/a/#"},
			{SessionID: 7, Seq: 1<<40 + 5, Message: plain, QoS: 1},
			{SessionID: 8, Seq: 1, Message: shared, QoS: 1},
			{SessionID: 8, Seq: 2, Message: shared, QoS: 1},
		},
		Received: []engine.IncomingRecord{{SessionID: 7, PacketID: 65535}, {SessionID: 7, PacketID: 1}},
		Retained: []engine.RetainedRecord{{Topic: "kept", Message: kept}, {Topic: "a/ü", Message: shared}},
	})
	want := &engine.Snapshot{
		Sessions: []engine.StoredSession{
			{
				SessionRecord: full,
				Subscriptions: []engine.SubscriptionRecord{{SessionID: 7, Filter: "$share/g/a/#", Options: 0x2e, ID: 268435455}, {SessionID: 7, Filter: "b"}},
				Queue: []engine.QueueRecord{
					{SessionID: 7, Seq: 1 << 40, Message: shared, QoS: 2, Retain: true, Released: true, SubscriptionIDs: []uint32{1, 268435455}, Share: "$share/g/a/#"},
					{SessionID: 7, Seq: 1<<40 + 5, Message: plain, QoS: 1},
				},
				Incoming: []uint16{1, 65535},
			},
			{SessionRecord: session(8), Queue: []engine.QueueRecord{{SessionID: 8, Seq: 1, Message: shared, QoS: 1}, {SessionID: 8, Seq: 2, Message: shared, QoS: 1}}},
		},
		Retained: []*engine.Message{shared, kept},
	}
	again := reopen(t, s)
	s.file, s.Store = again.file, again.Store // what the cleanup shuts
	if diff := cmp.Diff(describe(want), describe(again.snapshot)); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
	if again.snapshot.LastMessageID != 4 || again.snapshot.LastSessionID != 8 {
		t.Errorf("got last numbers %d and %d, want 4 and 8", again.snapshot.LastMessageID, again.snapshot.LastSessionID)
	}
	wantRows(t, again, map[string]int{"message": 3, "session": 2, "subscription": 2, "queue": 4, "incoming": 2})
	sound(t, again)
}

// TestChangesOfRecords changes and deletes stored records.
func TestChangesOfRecords(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	m, n := message(1, "t"), message(2, "t")
	store(t, s,
		&engine.Changes{
			PutSessions: []engine.SessionRecord{session(1), session(2)},
			Subscribed:  []engine.SubscriptionRecord{{SessionID: 1, Filter: "a"}, {SessionID: 1, Filter: "b"}, {SessionID: 2, Filter: "a"}},
			Received:    []engine.IncomingRecord{{SessionID: 1, PacketID: 1}, {SessionID: 2, PacketID: 1}, {SessionID: 2, PacketID: 1}},
			Retained:    []engine.RetainedRecord{{Topic: "t", Message: m}},
			Messages:    []*engine.Message{m},
		},
		queued(1, m), queued(2, m, n),
		&engine.Changes{
			PutSessions:  []engine.SessionRecord{{ID: 1, ClientID: "client1", Address: "moved"}},
			Subscribed:   []engine.SubscriptionRecord{{SessionID: 1, Filter: "b", Options: 1, ID: 9}},
			Unsubscribed: []engine.SubscriptionRecord{{SessionID: 1, Filter: "a"}},
			Released:     []engine.QueueRecord{{SessionID: 1, Seq: 1}, {SessionID: 1, Seq: 99}},
			Retained:     []engine.RetainedRecord{{Topic: "t", Message: n}},
			Forgotten:    []engine.IncomingRecord{{SessionID: 1, PacketID: 1}},
		},
		&engine.Changes{EndedSessions: []uint64{2}, Owed: true},
	)
	want := &engine.Snapshot{
		Sessions: []engine.StoredSession{{
			SessionRecord: engine.SessionRecord{ID: 1, ClientID: "client1", Address: "moved"},
			Subscriptions: []engine.SubscriptionRecord{{SessionID: 1, Filter: "b", Options: 1, ID: 9}},
			Queue:         []engine.QueueRecord{{SessionID: 1, Seq: 1, Message: m, QoS: 1, Released: true}},
		}},
		Retained: []*engine.Message{n},
	}
	if diff := cmp.Diff(describe(want), describe(whole(t, s.Store))); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	wantRows(t, s, map[string]int{"message": 2, "session": 1, "subscription": 1, "queue": 1})
	sound(t, s)
	store(t, s, dequeued(1, 1, 1, 99), &engine.Changes{Retained: []engine.RetainedRecord{{Topic: "t"}, {Topic: "none"}}})
	wantRows(t, s, map[string]int{"session": 1, "subscription": 1})
}

// TestMessageOutlivesItsFirstReference adds a reference to a message whose last reference
// was removed: the message must be stored again.
func TestMessageOutlivesItsFirstReference(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	m := message(1, "t")
	store(t, s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}}, queued(1, m), dequeued(1, 1))
	wantRows(t, s, map[string]int{"session": 1})
	store(t, s, &engine.Changes{Enqueued: []engine.QueueRecord{{SessionID: 1, Seq: 2, Message: m, QoS: 1}}})
	wantRows(t, s, map[string]int{"session": 1, "queue": 1, "message": 1})
	sound(t, s)
}

// hold stops the committer from writing until the returned function is called.
func hold(t testing.TB, s *opened) (release func()) {
	t.Helper()
	must(t, s.file.Lock(context.Background()))
	release = sync.OnceFunc(s.file.Unlock)
	t.Cleanup(release)
	return release
}

// journal records the order in which changes were committed.
type journal struct {
	mu   sync.Mutex
	tags []string
}

func (j *journal) Committed(c *engine.Changes, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.tags = append(j.tags, fmt.Sprint(c.Tag, " ", err))
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.tags)
}

// TestGroup submits while the file is locked: what is put and deleted within a group is
// not written, and all changes are committed in order.
func TestGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		release := hold(t, s)
		j, want := &journal{}, []string{}
		put := func(c *engine.Changes) {
			c.Done, c.Tag = j, len(want)
			want = append(want, fmt.Sprint(c.Tag, " ", nil))
			s.Submit(c)
			synctest.Wait()
		}
		put(&engine.Changes{PutSessions: []engine.SessionRecord{session(1), session(2)}}) // the committer waits with this one
		m, n := message(1, "t"), message(2, "u")
		put(queued(1, m, n))
		put(queued(2, m))
		put(&engine.Changes{Released: []engine.QueueRecord{{SessionID: 2, Seq: 1}}})
		put(dequeued(1, 2))
		put(&engine.Changes{Received: []engine.IncomingRecord{{SessionID: 2, PacketID: 1}}, EndedSessions: []uint64{1}})
		before := changes(t, s)
		release()
		synctest.Wait()
		if diff := cmp.Diff(want, j.all()); diff != "" {
			t.Errorf("settled (-want +got):\n%s", diff)
		}
		wantRows(t, s, map[string]int{"session": 1, "queue": 1, "message": 1, "incoming": 1})
		if got := changes(t, s) - before; got != 6 { // two sessions, one of them deleted, a packet identifier, a queue row, a message
			t.Errorf("wrote %d rows, want 6", got)
		}
		sound(t, s)
	})
}

// changes counts the rows written since the connection was opened.
func changes(t testing.TB, s *opened) (n int) {
	t.Helper()
	must(t, s.conn.SQL().QueryRowContext(context.Background(), `SELECT total_changes()`).Scan(&n))
	return n
}

// TestFaultyChangesAreAlone submits changes that contradict what is stored together with
// others: the others are stored, in order.
func TestFaultyChangesAreAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		release := hold(t, s)
		j := &journal{}
		twice := message(3, "t")
		for i, c := range []*engine.Changes{
			{PutSessions: []engine.SessionRecord{session(1)}},
			queued(1, message(1, "t")),
			{Owed: true, Enqueued: []engine.QueueRecord{{SessionID: 1, Seq: 3, Message: twice}, {SessionID: 1, Seq: 3, Message: twice}}},
			queued(1, message(2, "t")),
		} {
			c.Done, c.Tag = j, i
			s.Submit(c)
		}
		release()
		synctest.Wait()
		tags := j.all()
		for i, wantErr := range []bool{false, false, true, false} {
			if failed := !strings.HasSuffix(tags[i], "<nil>"); failed != wantErr || !strings.HasPrefix(tags[i], fmt.Sprint(i)) {
				t.Errorf("changes %d: settled as %q, want an error: %t", i, tags[i], wantErr)
			}
		}
		if err := s.Err(); err != nil {
			t.Errorf("the store as a whole fails: %v", err)
		}
		wantRows(t, s, map[string]int{"session": 1, "queue": 2, "message": 2})
		sound(t, s)
	})
}

// TestLoadDropsOrphans inserts rows that refer to a missing row, or to which none refers,
// and expects them to be deleted and counted.
func TestLoadDropsOrphans(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	store(t, s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}}, queued(1, message(1, "t")))
	for _, q := range []string{
		`INSERT INTO message (id, topic, qos, retain, retained, created_at, expires_at) VALUES (2, 'alone', 0, 0, 0, 0, 0), (3, 'r', 0, 0, 1, 0, 0), (4, 'r', 0, 0, 1, 0, 0)`,
		`INSERT INTO queue (message, session, seq, qos, retain, released) VALUES (1, 9, 1, 1, 0, 0), (9, 1, 9, 1, 0, 0)`,
		`INSERT INTO subscription (session, filter, options, id) VALUES (9, 'a', 0, 0)`,
		`INSERT INTO incoming (session, packet_id) VALUES (9, 1)`,
	} {
		_, err := s.conn.SQL().ExecContext(t.Context(), q)
		must(t, err)
	}
	dir := strings.TrimSuffix(s.file.Path(), "broker.db")
	shut(t, s)
	var text bytes.Buffer
	*s = *open(t, dir, Options{Log: slog.New(slog.NewTextHandler(&text, nil))})
	wantRows(t, s, map[string]int{"session": 1, "queue": 1, "message": 2})
	sound(t, s)
	if got := text.String(); !strings.Contains(got, "messages=2 queued=2 other=2") {
		t.Errorf("logged %s, want 2 messages, 2 queued and 2 others", got)
	}
	if r := s.snapshot.Retained; len(r) != 1 || r[0].ID != 4 {
		t.Errorf("got retained %v, want the newer message", r)
	}
}

// TestWaitForCapacity fills the queue of the committer beyond its bounds while the file is locked.
func TestWaitForCapacity(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string]func(s *opened){
		"changes": func(s *opened) {
			for range maxPendingChanges + 2 {
				s.Submit(&engine.Changes{})
			}
		},
		"bytes": func(s *opened) {
			s.Submit(&engine.Changes{Messages: []*engine.Message{{Payload: make([]byte, storage.MaxPending)}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := fresh(t, Options{})
				s.WaitForCapacity()
				release := hold(t, s)
				fill(s)
				entered := make(chan struct{})
				go func() {
					s.WaitForCapacity()
					close(entered)
				}()
				synctest.Wait()
				select {
				case <-entered:
					t.Error("there is capacity though nothing was committed")
				default:
				}
				release()
				<-entered
			})
		})
	}
}

// TestClose expects what was submitted before to be stored, and nothing to be accepted
// after.
func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), Options{})
		release := hold(t, s)
		var receipts []receipt
		for id := range uint64(3 * groupChanges) {
			receipts = append(receipts, submit(s, &engine.Changes{PutSessions: []engine.SessionRecord{session(id + 1)}}))
		}
		bounded, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Close(bounded); err == nil {
			t.Error("close does not honour its context")
		}
		late := submit(s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1 << 20)}})
		release()
		for _, r := range receipts {
			must(t, <-r)
		}
		must(t, s.Close(t.Context()), s.Close(t.Context()), s.file.Close())
		if err := <-late; err == nil {
			t.Error("what came after the end is said to be stored")
		}
		again := open(t, strings.TrimSuffix(s.file.Path(), "broker.db"), Options{})
		defer shut(t, again)
		if n := len(again.snapshot.Sessions); n != 3*groupChanges {
			t.Errorf("found %d sessions, want %d", n, 3*groupChanges)
		}
	})
}

// TestCloseWithoutLoad closes a store that was never used.
func TestCloseWithoutLoad(t *testing.T) {
	t.Parallel()
	f, err := schema.Open(t.Context(), t.TempDir()+"/broker.db", slog.New(slog.DiscardHandler))
	must(t, err)
	s, err := Open(t.Context(), f, Options{Durability: storage.Process})
	must(t, err, s.Close(t.Context()), f.Close())
}

// TestIdle expects the WAL to be checkpointed, and the file to shrink after much was
// deleted, once the store is idle.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		store(t, s, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}})
		const messages, size = 80, 256 << 10
		for id := range uint64(messages) {
			m := message(id+1, "t")
			m.Payload = make([]byte, size)
			store(t, s, queued(1, m))
		}
		store(t, s, &engine.Changes{Owed: true, EndedSessions: []uint64{1}})
		if got := fileSize(t, s, ""); got < messages*size/2 {
			t.Errorf("the file has %d bytes, want the size of what it held", got)
		}
		elapse(t, storage.TidyDelay*5)
		if got := fileSize(t, s, "-wal"); got != 0 {
			t.Errorf("the log has %d bytes, want none", got)
		}
		if got, want := fileSize(t, s, ""), int64(storage.Spare+200*4096); got > want {
			t.Errorf("the file has %d bytes, want at most %d", got, want)
		}
		sound(t, s)
	})
}

func TestSequenceNumbersOutOfOrder(t *testing.T) {
	t.Parallel()
	q := &sessionQueue{}
	for _, seq := range []uint64{5, 9, 7, 7, 1} {
		q.push(queuedRef{seq, seq * 10})
	}
	q.remove(7)
	q.remove(8)
	if want := []queuedRef{{1, 10}, {5, 50}, {7, 0}, {9, 90}}; !slices.Equal(q.waiting, want) {
		t.Errorf("got %v, want %v", q.waiting, want)
	}
	q.remove(1)
	q.remove(5)
	if want := []queuedRef{{9, 90}}; !slices.Equal(q.waiting, want) {
		t.Errorf("got %v, want %v", q.waiting, want)
	}
}
