package store

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/storage"
	"signalbox/broker/storage/storagetest"
	"signalbox/broker/streams"
)

// user is this package as a user of a storage.Committer.
var user = storagetest.User{Open: openUser, LastWrite: "UPDATE ON log"}

func TestCommitter(t *testing.T) { storagetest.Run(t, user) }

// logUser is a store whose entries are the messages of one log. The other log contradicts
// the file when the first message is appended to it.
type logUser struct {
	*Store
	log, bad *Log
}

func openUser(ctx context.Context, dir string, log *slog.Logger) (storagetest.Store, error) {
	s, err := Open(ctx, filepath.Join(dir, "streams.db"), Options{Log: log})
	if err != nil {
		return nil, err
	}
	for n := len(definitions(ctx, s)); n < 2; n++ {
		if _, err := s.Put(ctx, "b", streams.Definition{Stream: broker.Stream{StreamName: fmt.Sprint("log ", n)}}); err != nil {
			return nil, err
		}
	}
	u := &logUser{Store: s}
	for i, l := range []**Log{&u.log, &u.bad} {
		opened, err := s.Open(ctx, definitions(ctx, s)[i].ID)
		if err != nil {
			return nil, err
		}
		*l = opened.(*Log)
	}
	return u, nil
}

func (u *logUser) Put(number, size int, outcome func(error)) {
	all := messages(int64(number), 1)
	all[0].Payload = append(all[0].Payload, make([]byte, size)...)
	u.append(u.log, all, outcome)
}

// append appends messages, and reports an error of Append as their outcome.
func (u *logUser) append(l *Log, all []messaging.Message, outcome func(error)) {
	if err := l.Append(context.Background(), all, nil, outcome); err != nil {
		outcome(err)
	}
}

// PutBad appends a message whose block exists already.
func (u *logUser) PutBad(outcome func(error)) {
	const q = `INSERT INTO block (id, first_at, last_at, count, bytes, messages) VALUES (?, 0, 0, 0, 0, x'00')`
	if _, err := u.conn.SQL().ExecContext(context.Background(), q, blockID(u.bad.stored.stream, 0)); err != nil {
		panic(err)
	}
	u.append(u.bad, messages(1, 1), outcome)
}

func (u *logUser) Stored(t testing.TB) (numbers []int) {
	t.Helper()
	for _, m := range read(t, u.log, allTimes, false) {
		numbers = append(numbers, int(m.At))
	}
	return numbers
}

// Check deletes what PutBad has stored.
func (u *logUser) Check(t testing.TB) {
	t.Helper()
	execOnWriter(t, u.Store, `DELETE FROM block WHERE count = 0`)
	checkFile(t, u.Store)
}

func (u *logUser) Conn() *storage.Conn { return u.conn }
