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

// appendNow appends a message with the current time.
func appendNow(t testing.TB, l *Log) int64 {
	t.Helper()
	at := time.Now().UnixMilli()
	appendAndWait(t, l, messaging.Message{Topic: "t", At: at})
	return at
}

// TestTTL checks that messages are kept for the TTL, and are deleted within
// twice that.
func TestTTL(t *testing.T) {
	t.Parallel()
	for _, ttl := range []int64{1, 7, 3600} {
		t.Run(fmt.Sprint(ttl), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := fresh(t, Options{})
				l, forever := stream(t, s, "s", ttl), stream(t, s, "forever", 0)
				began := appendNow(t, l)
				appendNow(t, forever)
				length := time.Duration(ttl) * time.Second
				batch := []messaging.Message{}
				for i := range int64(10) { // the last is two TTLs later than the first
					batch = append(batch, messaging.Message{At: began + i*2*length.Milliseconds()/9})
				}
				appendAndWait(t, l, batch...)
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
					n := len(read(t, l, allTimes, step%2 == 0))
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
				checkFile(t, s)
			})
		})
	}
}

// TestHiddenByAge checks that messages which are too old are not visible even
// if they are still stored.
func TestHiddenByAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{})
		l := stream(t, s, "s", 60)
		old := appendNow(t, l)
		elapse(30 * time.Second)
		appendNow(t, l)
		must(t, s.file.Lock(t.Context())) // so that nothing can be deleted
		<-time.After(90 * time.Second)
		wantTimes(t, l, old+30_000)
		s.file.Unlock()
	})
}

// TestSetTTL shortens the TTL. It takes effect at once, also for a stream that
// is not open after a restart.
func TestSetTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), Options{})
		l := stream(t, s, "s", 0)
		appendNow(t, l)
		elapse(time.Hour)
		appendNow(t, l)
		l.SetTTL(60)
		synctest.Wait()
		if u := l.Usage(); u.Messages != 1 || u.Expired != 1 {
			t.Errorf("got usage %+v", u)
		}
		id := define(t, s, "other", 30)
		other := openLog(t, s, id)
		appendNow(t, other)
		s = reopen(t, s, Options{})
		elapse(50 * time.Second)
		if n := s.logs.find(id).totals.messages; n != 0 {
			t.Errorf("%d messages are kept of a stream that is not open", n)
		}
	})
}

// largeMessages returns messages of about the given size.
func largeMessages(at int64, n, size int) []messaging.Message {
	ms := messages(at, n)
	for i := range ms {
		ms[i].Payload = make([]byte, size)
	}
	return ms
}

// TestStreamBudget evicts the oldest messages of a stream, and of no other.
func TestStreamBudget(t *testing.T) {
	t.Parallel()
	said := &strings.Builder{}
	const budget = 256 << 10
	s := fresh(t, Options{MaxStreamBytes: budget, Log: textLogger(said)})
	l, small := stream(t, s, "s", 0), stream(t, s, "small", 0)
	appendAndWait(t, small, messages(0, 3)...)
	at := int64(0)
	for range 40 {
		appendAndWait(t, l, largeMessages(at, 50, 1000)...)
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
	appendAndWait(t, l, largeMessages(at, 1, 2*budget)...)
	wantTimes(t, l, at)
	appendAndWait(t, l, largeMessages(at+1, 1, 1)...)
	wantTimes(t, l, at+1)
	if n := strings.Count(said.String(), "level=WARN"); n != 1 {
		t.Errorf("warned %d times, want once: %s", n, said)
	}
	checkFile(t, s)
	shutting := dirOf(s)
	must(t, s.Close(t.Context()))
	again := open(t, shutting, Options{})
	defer closeStore(t, again)
	if u := openLog(t, again, l.stored.stream).Usage(); u.Evicted != 0 || u.Messages != 1 {
		t.Errorf("got usage %+v of a log that was just opened", u)
	}
}

// TestBudget evicts the oldest messages of all streams.
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
			appendAndWait(t, l, largeMessages(at, 10, 1000)...)
			at += 10
		}
	}
	var oldest []int64
	var bytes int64
	for _, l := range logs {
		oldest = append(oldest, read(t, l, allTimes, false)[0].At)
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
	appendAndWait(t, logs[0], largeMessages(at, 1, 2*budget)...)
	for i, l := range logs {
		if n := l.Usage().Messages; n != map[bool]int64{true: 1}[i == 0] {
			t.Errorf("log %d keeps %d messages beside one that is beyond the budget", i, n)
		}
	}
	checkFile(t, s)
}

// TestSmallerBudget opens a store with a smaller budget than before.
func TestSmallerBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, t.TempDir(), Options{Durability: storage.Process})
		l, other := stream(t, s, "s", 0), stream(t, s, "other", 0)
		appendAndWait(t, other, largeMessages(0, 3, 1<<20)...)
		for i := range int64(20) {
			appendAndWait(t, l, largeMessages(i+3, 1, 1<<20)...)
		}
		s = reopen(t, s, Options{MaxBytes: 7 << 20, MaxStreamBytes: 5 << 20})
		synctest.Wait()
		wantTimes(t, openLog(t, s, l.stored.stream), 19, 20, 21, 22)
		wantTimes(t, openLog(t, s, other.stored.stream), 1, 2)
		s = reopen(t, s, Options{MaxBytes: 4 << 20})
		synctest.Wait()
		wantTimes(t, openLog(t, s, l.stored.stream), 20, 21, 22)
		wantTimes(t, openLog(t, s, other.stored.stream))
		checkFile(t, s)
	})
}

// TestFreePagesAreReleased checks that the file shrinks after a large deletion,
// although messages keep arriving.
func TestFreePagesAreReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fresh(t, Options{Durability: storage.Process})
		l := stream(t, s, "s", 0)
		appendAndWait(t, l, largeMessages(0, 40, 1<<20)...)
		elapse(2 * storage.TidyDelay)
		if got := fileSize(t, s, ""); got < 40<<20 {
			t.Errorf("the file has %d bytes, want the size of what it holds", got)
		}
		must(t, l.Clear(t.Context(), allTimes))
		for range 10 {
			elapse(storage.TidyDelay / 3)
			appendNow(t, l)
		}
		execOnWriter(t, s, `PRAGMA wal_checkpoint`)
		if got := fileSize(t, s, ""); got > storage.Spare+2<<20 {
			t.Errorf("the file has %d bytes, want at most %d", got, storage.Spare+2<<20)
		}
		elapse(2 * storage.TidyDelay)
		if got := fileSize(t, s, "-wal"); got != 0 {
			t.Errorf("the log has %d bytes, want none", got)
		}
		checkFile(t, s)
	})
}

func fileSize(t testing.TB, s *Store, suffix string) int64 {
	t.Helper()
	info, err := os.Stat(s.file.Path() + suffix)
	must(t, err)
	return info.Size()
}
