package store

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/messaging"
	"signalbox/broker/storage"
)

// now appends a message that came now.
func now(t testing.TB, l *Log) int64 {
	t.Helper()
	at := time.Now().UnixMilli()
	keep(t, l, messaging.Message{Topic: "t", At: at})
	return at
}

// TestTTL keeps messages for the TTL, and not for twice that.
func TestTTL(t *testing.T) {
	t.Parallel()
	for _, ttl := range []int64{1, 7, 3600} {
		t.Run(fmt.Sprint(ttl), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := fresh(t, Options{})
				l, forever := stream(t, s, "s", ttl), stream(t, s, "forever", 0)
				began := now(t, l)
				now(t, forever)
				length := time.Duration(ttl) * time.Second
				batch := []messaging.Message{}
				for i := range int64(10) { // of which the last comes two TTLs after the first
					batch = append(batch, messaging.Message{At: began + i*2*length.Milliseconds()/9})
				}
				keep(t, l, batch...)
				for step := range 20 {
					elapse(length / 4)
					passed := time.Now().UnixMilli() - began
					fewest, most := 0, 0
					for _, m := range append(batch, messaging.Message{At: began}) {
						age := passed - (m.At - began)
						if age <= length.Milliseconds() {
							fewest++
						}
						if age < 2*length.Milliseconds() {
							most++
						}
					}
					n := len(read(t, l, everything, step%2 == 0))
					if n < fewest || n > most {
						t.Errorf("after %d ms %d messages are kept, want %d to %d", passed, n, fewest, most)
					}
					if u := l.Usage(); u.Messages+u.Expired != 11 || u.Messages < int64(fewest) || u.Messages > int64(most) || u.Evicted != 0 {
						t.Errorf("after %d ms got usage %+v", passed, u)
					}
				}
				if n := forever.Usage().Messages; n != 1 {
					t.Errorf("%d messages are kept for ever, want 1", n)
				}
				sound(t, s)
			})
		})
	}
}

// TestHiddenByAge does not show what is too old even if it is stored still.
func TestHiddenByAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		l := stream(t, s, "s", 60)
		old := now(t, l)
		elapse(30 * time.Second)
		now(t, l)
		must(t, s.file.Lock(t.Context())) // so that nothing can be deleted
		<-time.After(90 * time.Second)
		wantTimes(t, l, old+30_000)
		s.file.Unlock()
	})
}

// TestSetTTL shortens the TTL, which holds at once, also for a stream that is not
// open after a restart.
func TestSetTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), Options{})
		l := stream(t, s, "s", 0)
		now(t, l)
		elapse(time.Hour)
		now(t, l)
		l.SetTTL(60)
		synctest.Wait()
		if u := l.Usage(); u.Messages != 1 || u.Expired != 1 {
			t.Errorf("got usage %+v", u)
		}
		id := define(t, s, "other", 30)
		other := kept(t, s, id)
		now(t, other)
		s = reopen(t, s, Options{})
		elapse(50 * time.Second)
		if n := s.books.find(id).tally.messages; n != 0 {
			t.Errorf("%d messages are kept of a stream that nobody has opened", n)
		}
	})
}

// weighty makes messages of about a size.
func weighty(at int64, n, size int) []messaging.Message {
	ms := messages(at, n)
	for i := range ms {
		ms[i].Payload = make([]byte, size)
	}
	return ms
}

// TestStreamBudget lets go of the oldest messages of a stream, and of no other.
func TestStreamBudget(t *testing.T) {
	t.Parallel()
	said := &strings.Builder{}
	const budget = 256 << 10
	s := fresh(t, Options{MaxStreamBytes: budget, Log: toText(said)})
	l, small := stream(t, s, "s", 0), stream(t, s, "small", 0)
	keep(t, small, messages(0, 3)...)
	at := int64(0)
	for range 40 {
		keep(t, l, weighty(at, 50, 1000)...)
		at += 50
		u := l.Usage()
		if u.Bytes > budget || u.Messages+u.Evicted != at {
			t.Fatalf("after %d messages got usage %+v", at, u)
		}
		if at > 300 && u.Bytes < budget*3/4 {
			t.Fatalf("kept %d bytes only", u.Bytes)
		}
	}
	wantTimes(t, l, times(at-l.Usage().Messages, at)...)
	wantTimes(t, small, 0, 1, 2)
	keep(t, l, weighty(at, 1, 2*budget)...)
	wantTimes(t, l, at)
	keep(t, l, weighty(at+1, 1, 1)...)
	wantTimes(t, l, at+1)
	if n := strings.Count(said.String(), "level=WARN"); n != 1 {
		t.Errorf("warned %d times, want once: %s", n, said)
	}
	sound(t, s)
	shutting := dirOf(s)
	must(t, s.Close(t.Context()))
	again := open(t, shutting, Options{})
	defer shut(t, again)
	if u := kept(t, again, l.journal.stream).Usage(); u.Evicted != 0 || u.Messages != 1 {
		t.Errorf("got usage %+v of a log that was just opened", u)
	}
}

// TestBudget lets go of the oldest messages of all streams.
func TestBudget(t *testing.T) {
	t.Parallel()
	const budget, streamsOf = 512 << 10, 4
	s := fresh(t, Options{MaxBytes: budget})
	var logs []*Log
	for i := range streamsOf {
		logs = append(logs, stream(t, s, fmt.Sprint(i), 0))
	}
	var at int64
	for range 60 {
		for _, l := range logs {
			keep(t, l, weighty(at, 10, 1000)...)
			at += 10
		}
	}
	var oldest []int64
	var bytes int64
	for _, l := range logs {
		oldest = append(oldest, read(t, l, everything, false)[0].At)
		bytes += l.Usage().Bytes
	}
	if bytes > budget || bytes < budget*3/4 {
		t.Errorf("%d bytes are kept", bytes)
	}
	for i := range oldest {
		if oldest[i] < oldest[0]-10*streamsOf || oldest[i] > oldest[0]+10*streamsOf {
			t.Errorf("the streams begin at %v: not the oldest messages went", oldest)
		}
	}
	keep(t, logs[0], weighty(at, 1, 2*budget)...)
	for i, l := range logs {
		if n := l.Usage().Messages; n != map[bool]int64{true: 1}[i == 0] {
			t.Errorf("log %d keeps %d messages beside one that is beyond the budget", i, n)
		}
	}
	sound(t, s)
}

// TestSmallerBudget holds what was stored before against a budget that is new.
func TestSmallerBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), Options{Durability: storage.Process})
		l, other := stream(t, s, "s", 0), stream(t, s, "other", 0)
		keep(t, other, weighty(0, 3, 1<<20)...)
		for i := range int64(20) {
			keep(t, l, weighty(i+3, 1, 1<<20)...)
		}
		s = reopen(t, s, Options{MaxBytes: 7 << 20, MaxStreamBytes: 5 << 20})
		synctest.Wait()
		wantTimes(t, kept(t, s, l.journal.stream), 19, 20, 21, 22)
		wantTimes(t, kept(t, s, other.journal.stream), 1, 2)
		s = reopen(t, s, Options{MaxBytes: 4 << 20})
		synctest.Wait()
		wantTimes(t, kept(t, s, l.journal.stream), 20, 21, 22)
		wantTimes(t, kept(t, s, other.journal.stream))
		sound(t, s)
	})
}

// TestSpaceIsGivenBack has the file shrink after much was deleted, although
// messages keep coming.
func TestSpaceIsGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{Durability: storage.Process})
		l := stream(t, s, "s", 0)
		keep(t, l, weighty(0, 40, 1<<20)...)
		elapse(2 * storage.TidyDelay)
		if got := fileSize(t, s, ""); got < 40<<20 {
			t.Errorf("the file has %d bytes, want the size of what it holds", got)
		}
		must(t, l.Clear(t.Context(), everything))
		for range 10 {
			elapse(storage.TidyDelay / 3)
			now(t, l)
		}
		within(t, s, `PRAGMA wal_checkpoint`)
		if got := fileSize(t, s, ""); got > storage.Spare+2<<20 {
			t.Errorf("the file has %d bytes, want at most %d", got, storage.Spare+2<<20)
		}
		elapse(2 * storage.TidyDelay)
		if got := fileSize(t, s, "-wal"); got != 0 {
			t.Errorf("the log has %d bytes, want none", got)
		}
		sound(t, s)
	})
}

func fileSize(t testing.TB, s *Store, suffix string) int64 {
	t.Helper()
	info, err := os.Stat(s.file.Path() + suffix)
	must(t, err)
	return info.Size()
}
