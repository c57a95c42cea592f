package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/storage"
	"signalbox/broker/storage/storagetest"
	"signalbox/scripts/suite"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		submitUntilKilled(dir)
		return
	}
	if dir := os.Getenv(followDir); dir != "" {
		followUntilKilled(dir)
		return
	}
	if storagetest.RunProcess(user) {
		return
	}
	suite.Main(m)
}

// must fails the test on the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// opened is a store with its file and the snapshot that was loaded.
type opened struct {
	*Store
	file     *storage.File
	snapshot *engine.Snapshot
}

// open opens the store in a directory. The caller closes it.
func open(t testing.TB, dir string, o Options) *opened {
	t.Helper()
	s := &opened{}
	var err error
	s.file, err = schema.Open(context.Background(), filepath.Join(dir, "broker.db"), slog.New(slog.DiscardHandler))
	must(t, err)
	s.Store, err = Open(context.Background(), s.file, o)
	must(t, err)
	s.snapshot = whole(t, s.Store)
	return s
}

// whole loads a snapshot and reads the messages of the queues. Records that refer to the
// same message share it.
func whole(t testing.TB, s *Store) *engine.Snapshot {
	t.Helper()
	snapshot, err := s.Load(context.Background())
	must(t, err)
	known := map[uint64]*engine.Message{}
	for _, m := range snapshot.Retained {
		known[m.ID] = m
	}
	for _, session := range snapshot.Sessions {
		for i := range session.Queue {
			r := &session.Queue[i]
			if known[r.Stub.ID] == nil {
				read, err := s.Messages(context.Background(), []uint64{r.Stub.ID})
				must(t, err)
				known[r.Stub.ID] = read[0]
			}
			m := known[r.Stub.ID]
			if want := (engine.Stub{ID: m.ID, ExpiresAt: m.ExpiresAt, Size: int32(len(m.Topic) + len(m.Payload) + len(m.Properties))}); r.Stub != want {
				t.Errorf("loaded %+v of a message that is %+v", r.Stub, want)
			}
			r.Message, r.Stub = m, engine.Stub{}
		}
	}
	return snapshot
}

// fresh opens an empty store, which the end of the test closes.
func fresh(t testing.TB, o Options) *opened {
	t.Helper()
	s := open(t, t.TempDir(), o)
	t.Cleanup(func() { shut(t, s) })
	return s
}

func shut(t testing.TB, s *opened) {
	t.Helper()
	must(t, s.Close(context.Background()), s.file.Close())
}

// reopen closes a store and opens it again.
func reopen(t testing.TB, s *opened) *opened {
	t.Helper()
	dir := filepath.Dir(s.file.Path())
	shut(t, s)
	return open(t, dir, Options{})
}

// receipt is a CommitNotifier that passes on the outcome.
type receipt chan error

func (r receipt) Committed(_ *engine.Changes, err error) { r <- err }

// submit submits changes and returns a channel with their outcome.
func submit(s *opened, c *engine.Changes) receipt {
	r := make(receipt, 1)
	c.Done = r
	s.Submit(c)
	return r
}

// store submits changes and waits until they are stored.
func store(t testing.TB, s *opened, cs ...*engine.Changes) {
	t.Helper()
	for _, c := range cs {
		must(t, <-submit(s, c))
	}
}

// message returns a message with every field set.
func message(id uint64, topic string) *engine.Message {
	return &engine.Message{
		ID: id, Topic: topic, Payload: fmt.Appendf(nil, "payload %d", id), Properties: []byte{1, 1}, QoS: 1, Retain: true,
		CreatedAt: 1_700_000_000_000 + int64(id), ExpiresAt: 1_800_000_000_000, Publisher: "publisher", Username: "user",
	}
}

func session(id uint64) engine.SessionRecord {
	return engine.SessionRecord{ID: id, ClientID: fmt.Sprint("client", id), Username: "user", Version: 5}
}

// queued returns changes that enqueue messages for a session, with their IDs as sequence
// numbers.
func queued(session uint64, ms ...*engine.Message) *engine.Changes {
	c := &engine.Changes{Messages: ms}
	for _, m := range ms {
		c.Enqueued = append(c.Enqueued, engine.QueueRecord{SessionID: session, Seq: m.ID, Message: m, QoS: 1})
	}
	return c
}

func dequeued(session uint64, seqs ...uint64) *engine.Changes {
	c := &engine.Changes{Owed: true}
	for _, seq := range seqs {
		c.Dequeued = append(c.Dequeued, engine.QueueRecord{SessionID: session, Seq: seq})
	}
	return c
}

// describe returns a snapshot as sorted text. Messages are numbered by address, which
// shows which records share one.
func describe(s *engine.Snapshot) string {
	var b strings.Builder
	names := map[*engine.Message]int{}
	name := func(m *engine.Message) string {
		if _, ok := names[m]; !ok {
			names[m] = len(names)
		}
		return fmt.Sprintf("#%d(%d %q %q %x %d %t %d %d %q %q)", names[m], m.ID, m.Topic, m.Payload, m.Properties, m.QoS, m.Retain,
			m.CreatedAt, m.ExpiresAt, m.Publisher, m.Username)
	}
	for _, st := range slices.SortedFunc(slices.Values(s.Sessions), func(a, b engine.StoredSession) int { return cmp.Compare(a.ID, b.ID) }) {
		record, _ := json.Marshal(st.SessionRecord)
		fmt.Fprintf(&b, "session %s\n", record)
		for _, sub := range slices.SortedFunc(slices.Values(st.Subscriptions), func(a, b engine.SubscriptionRecord) int { return cmp.Compare(a.Filter, b.Filter) }) {
			fmt.Fprintf(&b, "  subscription %+v\n", sub)
		}
		for _, r := range st.Queue {
			fmt.Fprintf(&b, "  queued %d %d %s %d %t %t %v %q\n", r.SessionID, r.Seq, name(r.Message), r.QoS, r.Retain, r.Released, r.SubscriptionIDs, r.Share)
		}
		fmt.Fprintf(&b, "  incoming %v\n", slices.Sorted(slices.Values(st.Incoming)))
	}
	for _, m := range slices.SortedFunc(slices.Values(s.Retained), func(a, b *engine.Message) int { return cmp.Compare(a.Topic, b.Topic) }) {
		fmt.Fprintf(&b, "retained %s\n", name(m))
	}
	return b.String()
}

// rows returns the number of rows of every table of this package.
func rows(t testing.TB, s *opened) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, table := range []string{"message", "session", "subscription", "queue", "incoming"} {
		var count int
		must(t, s.conn.SQL().QueryRowContext(context.Background(), "SELECT count(*) FROM "+table).Scan(&count))
		n[table] = count
	}
	return n
}

func wantRows(t testing.TB, s *opened, want map[string]int) {
	t.Helper()
	all := map[string]int{"message": 0, "session": 0, "subscription": 0, "queue": 0, "incoming": 0}
	maps.Copy(all, want)
	if got := rows(t, s); !maps.Equal(got, all) {
		t.Errorf("got rows %v, want %v", got, all)
	}
}

// sound checks the integrity of the file, and that the reference counts match it.
func sound(t testing.TB, s *opened) {
	t.Helper()
	var verdict string
	must(t, s.conn.SQL().QueryRowContext(context.Background(), `PRAGMA integrity_check`).Scan(&verdict))
	if verdict != "ok" {
		t.Errorf("the file is damaged: %s", verdict)
	}
	l, err := load(context.Background(), s.conn)
	must(t, err)
	if l.dropped != (dropped{}) {
		t.Errorf("the file holds what refers to nothing: %+v", l.dropped)
	}
	if !maps.Equal(l.counts.refs, s.counts.refs) || !maps.Equal(l.counts.retained, s.counts.retained) {
		t.Errorf("memory counts %v and %v, the file holds %v and %v", s.counts.refs, s.counts.retained, l.counts.refs, l.counts.retained)
	}
}

// elapse advances the time of a synctest bubble.
func elapse(t testing.TB, d time.Duration) {
	t.Helper()
	<-time.After(d)
	synctest.Wait()
}

func fileSize(t testing.TB, s *opened, suffix string) int64 {
	t.Helper()
	info, err := os.Stat(s.file.Path() + suffix)
	must(t, err)
	return info.Size()
}

// within runs a statement on the store's own connection.
func within(t testing.TB, s *opened, q string) {
	t.Helper()
	_, err := s.conn.SQL().ExecContext(context.Background(), q)
	must(t, err)
}
