package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/storage"
	"signalbox/broker/storage/storagetest"
	"signalbox/broker/streams"
)

const (
	crashPath  = "STREAMS_CRASH_PATH"  // environment of the process that is killed
	crashKills = "STREAMS_CRASH_KILLS" // number of kills in TestCampaignKill; twenty if not set
	logs       = 3                     // number of logs of the process
)

// TestCampaignKill kills a process that appends messages, again and again on
// the same file. Messages that it reported as committed must exist when the
// file is opened again, in order, with the last state that was appended with
// them.
func TestCampaignKill(t *testing.T) {
	t.Parallel()
	kills := 20
	if s := os.Getenv(crashKills); s != "" {
		n, err := strconv.Atoi(s)
		must(t, err)
		kills = n
	}
	path := filepath.Join(t.TempDir(), "streams.db")
	var total int64
	for range kills {
		committed := runAndKill(t, path)
		verify(t, path, committed)
		for _, n := range committed {
			total = max(total, n)
		}
	}
	t.Logf("%d kills, %d messages committed in the longest log", kills, total)
}

// runAndKill runs a process until it has reported some commits, and kills it.
// It returns the last message of each log that was reported as committed.
func runAndKill(t *testing.T, path string) (committed [logs]int64) {
	t.Helper()
	said, killAfter := 0, 1+rand.IntN(200)
	storagetest.Kill(t, crashPath+"="+path, func(line string) (kill bool) {
		var log int
		var last int64
		if _, err := fmt.Sscanf(line, "%d %d", &log, &last); err != nil {
			t.Fatalf("the process says %q", line)
		}
		if last <= committed[log] {
			t.Errorf("message %d of log %d was committed after %d", last, log, committed[log])
		}
		committed[log] = last
		said++
		return said == killAfter
	})
	return committed
}

// verify checks the file after a kill.
func verify(t *testing.T, path string, committed [logs]int64) {
	t.Helper()
	s := open(t, filepath.Dir(path), Options{})
	defer closeStore(t, s)
	for i, d := range definitions(t.Context(), s) {
		l := openLog(t, s, d.ID)
		var last int64
		must(t, l.Read(t.Context(), allTimes, false, func(m messaging.Message) bool {
			if m.At != last+1 || string(m.Payload) != fmt.Sprint("payload ", m.At) {
				t.Errorf("log %d: %q of %d follows %d", i, m.Payload, m.At, last)
			}
			last = m.At
			return !t.Failed()
		}))
		if last < committed[i] {
			t.Errorf("log %d ends at message %d, but %d was committed", i, last, committed[i])
		}
		if state, err := l.State(t.Context()); err != nil || last > 0 && string(state) != strconv.FormatInt(last, 10) {
			t.Errorf("log %d ends at message %d, and its state is %q (%v)", i, last, state, err)
		}
	}
	checkFile(t, s)
}

// definitions returns those of the killed process, which may be incomplete at
// first.
func definitions(ctx context.Context, s *Store) []streams.Definition {
	all, err := s.Definitions(ctx, "b")
	if err != nil {
		panic(err)
	}
	return all
}

// appendUntilKilled is the process that TestCampaignKill kills. It continues
// after the last stored message, in batches of any size, and reports what was
// committed.
func appendUntilKilled(path string) {
	ctx := context.Background()
	s, err := Open(ctx, path, Options{Durability: storage.Process})
	if err != nil {
		panic(err)
	}
	for n := len(definitions(ctx, s)); n < logs; n++ {
		if _, err := s.Put(ctx, "b", streams.Definition{Stream: broker.Stream{StreamName: fmt.Sprint("log ", n)}}); err != nil {
			panic(err)
		}
	}
	for i, d := range definitions(ctx, s) {
		go appendTo(ctx, s, i, d.ID)
	}
	select {}
}

func appendTo(ctx context.Context, s *Store, log int, id int64) {
	l, err := s.Open(ctx, id)
	if err != nil {
		panic(err)
	}
	last := l.Usage().Messages
	for {
		batch := messages(last+1, 1+rand.IntN(100))
		last += int64(len(batch))
		said := fmt.Sprintf("%d %d\n", log, last)
		if err := l.Append(ctx, batch, strconv.AppendInt(nil, last, 10), func(err error) {
			if err != nil {
				panic(err)
			}
			os.Stdout.WriteString(said)
		}); err != nil {
			panic(err)
		}
	}
}
