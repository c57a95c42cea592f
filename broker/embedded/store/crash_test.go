package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/storage"
	"signalbox/broker/storage/storagetest"
)

const (
	crashDir   = "STORE_CRASH_DIR"   // set for the process that is killed
	crashKills = "STORE_CRASH_KILLS" // how many processes a test kills; default 12
	queues     = 4
	window     = 10 // queued messages of each session of the process
)

// TestCampaignKill repeatedly kills a process that stores messages in one file. What the
// process reported as committed must be in the file when it is opened again.
//
// The process enqueues one message after the other for each of its sessions, retains it,
// and once window messages are queued, dequeues the oldest. Each step is one change, all
// or nothing.
func TestCampaignKill(t *testing.T) {
	t.Parallel()
	kills := howOften(t)
	dir, total, last := t.TempDir(), 0, uint64(0)
	for range kills {
		settled := runAndKill(t, dir)
		total += settled
		last = verify(t, dir, last, settled)
	}
	t.Logf("%d kills, %d changes settled", kills, total)
}

// howOften returns how many processes are to be killed.
func howOften(t *testing.T) int {
	t.Helper()
	s := os.Getenv(crashKills)
	if s == "" {
		return 12
	}
	n, err := strconv.Atoi(s)
	must(t, err)
	return n
}

// runAndKill runs a process until it has committed some changes, and kills it. It returns
// how many changes the process reported, in order.
func runAndKill(t *testing.T, dir string) (settled int) {
	t.Helper()
	killAfter := 1 + rand.IntN(2000)
	storagetest.Kill(t, crashDir+"="+dir, func(line string) (kill bool) {
		if settled++; line != strconv.Itoa(settled) {
			t.Errorf("change %d was settled as %q, so out of order or not stored", settled, line)
		}
		return settled == killAfter
	})
	return settled
}

// verify checks the file after a kill. The process began after message last and put one
// message with each change. verify returns the last message in the file.
func verify(t *testing.T, dir string, last uint64, settled int) uint64 {
	t.Helper()
	s := open(t, dir, Options{})
	defer shut(t, s)
	if len(s.snapshot.Sessions) != queues || len(s.snapshot.Retained) != 1 {
		t.Fatalf("found %d sessions and %d retained messages", len(s.snapshot.Sessions), len(s.snapshot.Retained))
	}
	newest := s.snapshot.Retained[0].ID
	if atLeast := last + uint64(settled); newest < atLeast {
		t.Errorf("the newest message is %d, but %d was settled", newest, atLeast)
	}
	for _, session := range s.snapshot.Sessions {
		first := newest - min(newest, window) + 1
		for _, r := range session.Queue {
			if r.Seq != first || r.Message.ID != first || string(r.Message.Payload) != fmt.Sprint("payload ", first) {
				t.Fatalf("session %d holds message %d under %d, want %d", session.ID, r.Message.ID, r.Seq, first)
			}
			first++
		}
		if first != newest+1 {
			t.Errorf("session %d ends at message %d, want %d", session.ID, first-1, newest)
		}
	}
	sound(t, s)
	return newest
}

// openPlain opens a store outside of a test.
func openPlain(dir string) (*opened, error) {
	f, err := schema.Open(context.Background(), filepath.Join(dir, "broker.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	s, err := Open(context.Background(), f, Options{Durability: storage.Process})
	if err != nil {
		return nil, err
	}
	snapshot, err := s.Load(context.Background())
	return &opened{s, f, snapshot}, err
}

// crier prints the number of each change that was committed, in one write.
type crier struct{}

func (crier) Committed(c *engine.Changes, err error) {
	fmt.Println(errors.Join(err, errNumber(c.Tag.(int))))
}

type errNumber int

func (n errNumber) Error() string { return strconv.Itoa(int(n)) }

// submitUntilKilled is the process that TestCampaignKill kills.
func submitUntilKilled(dir string) {
	s, err := openPlain(dir)
	if err != nil {
		panic(err)
	}
	begin := &engine.Changes{}
	for id := range uint64(queues) {
		begin.PutSessions = append(begin.PutSessions, session(id+1))
	}
	s.Submit(begin)
	for number, id := 1, s.snapshot.LastMessageID+1; ; number, id = number+1, id+1 {
		s.WaitForCapacity()
		s.Submit(step(number, id))
	}
}

func step(number int, id uint64) *engine.Changes {
	m := message(id, "kept")
	c := &engine.Changes{Done: crier{}, Tag: number, Messages: []*engine.Message{m}, Retained: []engine.RetainedRecord{{Topic: "kept", Message: m}}}
	for session := range uint64(queues) {
		c.Enqueued = append(c.Enqueued, engine.QueueRecord{SessionID: session + 1, Seq: id, Message: m, QoS: 1})
		if id > window {
			c.Dequeued = append(c.Dequeued, engine.QueueRecord{SessionID: session + 1, Seq: id - window})
		}
	}
	return c
}
