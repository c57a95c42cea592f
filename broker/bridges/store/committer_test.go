package store

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"signalbox/broker/storage"
	"signalbox/broker/storage/storagetest"
)

// user is this package as a user of a storage.Committer.
var user = storagetest.User{Open: openUser, LastWrite: "UPDATE ON queue"}

func TestCommitter(t *testing.T) { storagetest.Run(t, user) }

// queueUser is a store whose entries are those of one queue. The other queue contradicts
// the file when the first entry is put into it.
type queueUser struct {
	*Store
	queue, bad *Queue
}

func openUser(ctx context.Context, dir string, log *slog.Logger) (storagetest.Store, error) {
	s, err := Open(ctx, filepath.Join(dir, "bridges.db"), Options{Seal: newSealer(1), Log: log})
	if err != nil {
		return nil, err
	}
	if err := s.PutConfig(ctx, "b", "x", document, []string{"queue", "bad"}); err != nil {
		return nil, err
	}
	u := &queueUser{Store: s}
	for name, q := range map[string]**Queue{"queue": &u.queue, "bad": &u.bad} {
		opened, err := s.Queue(ctx, "b", "x", name, wide)
		if err != nil {
			return nil, err
		}
		*q = opened.(*Queue)
	}
	return u, nil
}

func (u *queueUser) Put(number, size int, outcome func(error)) {
	e := entry(number)
	e.Payload = append(e.Payload, make([]byte, size)...)
	u.queue.Put(e, outcome)
}

// PutBad puts an entry whose block exists already.
func (u *queueUser) PutBad(outcome func(error)) {
	const q = `INSERT INTO block (id, count, bytes, entries) VALUES (?, 0, 0, x'00')`
	if _, err := u.conn.SQL().ExecContext(context.Background(), q, rowID(u.bad.state.queue, 1)); err != nil {
		panic(err)
	}
	u.bad.Put(entry(1), outcome)
}

func (u *queueUser) Stored(t testing.TB) []int {
	t.Helper()
	return numbers(peek(t, u.queue, 0))
}

// Check deletes what PutBad has stored.
func (u *queueUser) Check(t testing.TB) {
	t.Helper()
	within(t, u.Store, `DELETE FROM block WHERE count = 0`)
	barrier(t, u.queue)
	checkStore(t, u.Store)
}

func (u *queueUser) Conn() *storage.Conn { return u.conn }
