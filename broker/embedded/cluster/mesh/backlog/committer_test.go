package backlog

import (
	"context"
	"encoding/binary"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"signalbox/broker/storage"
	"signalbox/broker/storage/storagetest"
	"signalbox/scripts/suite"
)

// user is this package as a user of a storage.Committer.
var user = storagetest.User{Open: openUser, LastWrite: "INSERT ON message"}

func TestMain(m *testing.M) {
	if storagetest.RunProcess(user) {
		os.Exit(0)
	}
	suite.Main(m)
}

func TestCommitter(t *testing.T) { storagetest.Run(t, user) }

// queueUser is a store whose entries are the messages for one node, which begin with their numbers.
type queueUser struct {
	*Store
	queue, bad *Queue
}

func openUser(ctx context.Context, dir string, log *slog.Logger) (storagetest.Store, error) {
	s, err := Open(ctx, filepath.Join(dir, "backlog.db"), "uuid", log)
	if err != nil {
		return nil, err
	}
	u := &queueUser{s, s.Queue(1), s.Queue(2)}
	u.queue.Begin(1)
	u.bad.Begin(1)
	return u, nil
}

func (u *queueUser) Put(number, size int, outcome func(error)) {
	data := binary.BigEndian.AppendUint64(make([]byte, 0, 8+size), uint64(number))
	if _, err := u.queue.Put(data[:8+size], outcome); err != nil {
		outcome(err)
	}
}

// PutBad appends a message whose id exists already.
func (u *queueUser) PutBad(outcome func(error)) {
	const q = `INSERT INTO message (id, data) VALUES (?, x'00')`
	if _, err := u.conn.SQL().ExecContext(context.Background(), q, u.bad.id(u.bad.Last()+1)); err != nil {
		panic(err)
	}
	if _, err := u.bad.Put([]byte("bad"), outcome); err != nil {
		outcome(err)
	}
}

func (u *queueUser) Stored(t testing.TB) (numbers []int) {
	t.Helper()
	messages, _, err := u.queue.Read(t.Context(), 0, 1<<30)
	must(t, err)
	for _, m := range messages {
		numbers = append(numbers, int(binary.BigEndian.Uint64(m.Data)))
	}
	return numbers
}

// Check deletes what PutBad has stored, and compares the totals with the file.
func (u *queueUser) Check(t testing.TB) {
	t.Helper()
	_, err := u.conn.SQL().ExecContext(t.Context(), `DELETE FROM message WHERE data = x'00'`)
	must(t, err)
	for _, q := range []*Queue{u.queue, u.bad} {
		var stored Totals
		must(t, u.readers.QueryRowContext(t.Context(), `SELECT count(*), coalesce(sum(length(data)), 0) FROM message WHERE id BETWEEN ? AND ?`,
			q.id(0), q.id(maxNumber)).Scan(&stored.Messages, &stored.Bytes))
		if got := q.Totals(); got != stored {
			t.Errorf("node %d has %+v, and in the file %+v", q.node, got, stored)
		}
	}
}

func (u *queueUser) Conn() *storage.Conn { return u.conn }
func (u *queueUser) Err() error          { return u.commits.Err() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
