package store

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/storage/storagetest"
)

const followDir = "STORE_FOLLOW_DIR" // set for the process that follows a log and is killed

// backward is how many changes the process applies after a snapshot before it restores
// it; it does so after every period changes.
const backward, period = 5, 10

// TestCampaignKillFollower repeatedly kills a process that applies a log to one file and
// restores snapshots. The index and the data in the file must match each other, and be
// what the process reported last or was about to report.
func TestCampaignKillFollower(t *testing.T) {
	t.Parallel()
	dir, restoring, said := t.TempDir(), 0, uint64(0)
	for range howOften(t) {
		last, during := followAndKill(t, dir, said)
		if during {
			restoring++
		}
		said = verifyFollower(t, dir, last, during)
	}
	t.Logf("%d of the kills were while a snapshot was restored; applied up to %d", restoring, said)
}

// followAndKill runs a process for some time and kills it, half of the times when it
// begins to restore. It returns the last index that the process reported.
func followAndKill(t *testing.T, dir string, last uint64) (_ uint64, restoring bool) {
	t.Helper()
	killAfter, atRestore := 1+rand.IntN(40), rand.IntN(2) == 0
	storagetest.Kill(t, followDir+"="+dir, func(line string) (kill bool) {
		if restoring = line == "restore"; !restoring {
			var err error
			last, err = strconv.ParseUint(line, 10, 64)
			must(t, err)
		}
		killAfter--
		return (killAfter == 0 || killAfter < 0 && restoring) && (!atRestore || restoring)
	})
	return last, restoring
}

// verifyFollower checks the file after a kill. Every change puts a message with its own
// index as ID, so the newest message shows what was applied.
func verifyFollower(t *testing.T, dir string, last uint64, restoring bool) uint64 {
	t.Helper()
	s := open(t, dir, Options{})
	defer shut(t, s)
	index := s.AppliedIndex()
	if index != last && (restoring || index != last+1) && (!restoring || index != last-backward) {
		t.Errorf("applied up to %d, but %d was said last (before a restoration: %t)", index, last, restoring)
	}
	if index == 0 {
		return 0
	}
	newest := uint64(0)
	for _, m := range s.snapshot.Retained {
		if m.Topic == "kept" {
			newest = m.ID
		}
	}
	if newest != index || len(s.snapshot.Retained) != ballast+1 || len(s.snapshot.Sessions) != queues {
		t.Errorf("applied up to %d, and found message %d, %d retained and %d sessions",
			index, newest, len(s.snapshot.Retained), len(s.snapshot.Sessions))
	}
	for _, session := range s.snapshot.Sessions {
		if n := len(session.Queue); n != int(min(index, window)) || session.Queue[n-1].Seq != index {
			t.Errorf("applied up to %d, and session %d has %d messages", index, session.ID, n)
		}
	}
	sound(t, s)
	return index
}

// ballast is the number of additional retained messages, which make a restore take a
// while.
const ballast = 300

// followUntilKilled is the process that TestCampaignKillFollower kills. It reports each
// index that it applied, and when it begins to restore.
func followUntilKilled(dir string) {
	s, err := openPlain(dir)
	if err != nil {
		panic(err)
	}
	for {
		for range period {
			follow(s)
		}
		v, err := s.Snapshot(context.Background(), Everything)
		if err != nil {
			panic(err)
		}
		var b bytes.Buffer
		if _, err := v.WriteTo(&b); err != nil {
			panic(err)
		}
		index := v.Index()
		v.Release()
		for range backward {
			follow(s)
		}
		fmt.Println("restore")
		if _, err := s.Restore(context.Background(), index, Everything, &b, nil); err != nil {
			panic(err)
		}
		fmt.Println(index)
	}
}

// follow applies the next change.
func follow(s *opened) {
	index := s.AppliedIndex() + 1
	c := step(0, index)
	c.Done = nil
	group := []*engine.Changes{c}
	if index == 1 {
		begin := &engine.Changes{}
		for id := range uint64(queues) {
			begin.PutSessions = append(begin.PutSessions, session(id+1))
		}
		for i := range uint64(ballast) {
			m := message(1<<40+i, fmt.Sprint("ballast/", i))
			m.Payload = make([]byte, 4096)
			begin.Retained = append(begin.Retained, engine.RetainedRecord{Topic: m.Topic, Message: m})
		}
		group = []*engine.Changes{begin, c}
	}
	if err := s.Apply(index, group); err != nil {
		panic(err)
	}
	fmt.Println(index)
}
