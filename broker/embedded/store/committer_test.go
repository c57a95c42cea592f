package store

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/storage"
	"signalbox/broker/storage/storagetest"
)

// user is this package as a user of a storage.Committer.
var user = storagetest.User{Open: openUser, LastWrite: "INSERT ON queue"}

func TestCommitter(t *testing.T) { storagetest.Run(t, user) }

// queueUser is a store whose entries are the queued messages of one session.
type queueUser struct {
	*opened
	bad uint64 // messages of PutBad
}

func openUser(ctx context.Context, dir string, log *slog.Logger) (storagetest.Store, error) {
	f, err := schema.Open(ctx, filepath.Join(dir, "broker.db"), log)
	if err != nil {
		return nil, err
	}
	s, err := Open(ctx, f, Options{Log: log})
	if err != nil {
		return nil, err
	}
	u := &queueUser{opened: &opened{Store: s, file: f}}
	return u, <-submit(u.opened, &engine.Changes{PutSessions: []engine.SessionRecord{session(1)}})
}

// outcomeFunc is a CommitNotifier.
type outcomeFunc func(error)

func (f outcomeFunc) Committed(_ *engine.Changes, err error) { f(err) }

func (u *queueUser) Put(number, size int, outcome func(error)) {
	m := message(uint64(number), "t")
	m.Payload = append(m.Payload, make([]byte, size)...)
	c := queued(1, m)
	c.Done = outcomeFunc(outcome)
	u.Submit(c)
}

// PutBad queues a message twice under one number.
func (u *queueUser) PutBad(outcome func(error)) {
	u.bad++
	c := queued(1, message(1<<30+u.bad, "t"))
	c.Enqueued = append(c.Enqueued, c.Enqueued[0])
	c.Done = outcomeFunc(outcome)
	u.Submit(c)
}

func (u *queueUser) Stored(t testing.TB) (numbers []int) {
	t.Helper()
	for _, r := range whole(t, u.Store).Sessions[0].Queue {
		numbers = append(numbers, int(r.Message.ID))
	}
	return numbers
}

func (u *queueUser) Check(t testing.TB) {
	t.Helper()
	sound(t, u.opened)
}

func (u *queueUser) Conn() *storage.Conn { return u.conn }

func (u *queueUser) Close(ctx context.Context) error {
	if err := u.Store.Close(ctx); err != nil {
		return err
	}
	return u.file.Close()
}
