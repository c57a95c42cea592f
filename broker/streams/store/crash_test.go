package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
)

const (
	crashPath  = "STREAMS_CRASH_PATH"  // set for the process that is killed
	crashKills = "STREAMS_CRASH_KILLS" // how often TestCampaignKill kills; twenty times if not set
	logs       = 3                     // that the process appends to
)

// TestCampaignKill kills a process that appends messages, again and again on the same
// file. What it said was settled must be there when the file is opened again, in
// order, and with it the state that was handed over last.
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
		settled := runAndKill(t, path)
		verify(t, path, settled)
		for _, n := range settled {
			total = max(total, n)
		}
	}
	t.Logf("%d kills, %d messages settled in the longest log", kills, total)
}

// runAndKill lets a process work until it has said some things, and kills it. It
// gives the last message of each log that it said was settled.
func runAndKill(t *testing.T, path string) (settled [logs]int64) {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), crashPath+"="+path)
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	must(t, err, process.Start())
	killAfter := 1 + rand.IntN(200)
	lines := bufio.NewScanner(out)
	for said := 1; lines.Scan(); said++ { // also what was said before it died
		var log int
		var last int64
		if _, err := fmt.Sscanf(lines.Text(), "%d %d", &log, &last); err != nil {
			t.Fatalf("the process says %q", lines.Text())
		}
		if last <= settled[log] {
			t.Errorf("message %d of log %d was settled after %d", last, log, settled[log])
		}
		settled[log] = last
		if said == killAfter {
			must(t, process.Process.Kill())
		}
	}
	if err := process.Wait(); process.ProcessState.Exited() {
		t.Fatalf("the process ended by itself: %v", err)
	}
	return settled
}

// verify opens the file after a kill.
func verify(t *testing.T, path string, settled [logs]int64) {
	t.Helper()
	s := open(t, filepath.Dir(path), Options{})
	defer shut(t, s)
	for i, d := range definitions(t.Context(), s) {
		l := kept(t, s, d.ID)
		var last int64
		must(t, l.Read(t.Context(), everything, false, func(m messaging.Message) bool {
			if m.At != last+1 || string(m.Payload) != fmt.Sprint("payload ", m.At) {
				t.Errorf("log %d: %q of %d comes behind %d", i, m.Payload, m.At, last)
			}
			last = m.At
			return !t.Failed()
		}))
		if last < settled[i] {
			t.Errorf("log %d ends at message %d, but %d was settled", i, last, settled[i])
		}
		if state, err := l.State(t.Context()); err != nil || last > 0 && string(state) != strconv.FormatInt(last, 10) {
			t.Errorf("log %d ends at message %d, and its state is %q (%v)", i, last, state, err)
		}
	}
	sound(t, s)
}

// definitions gives those of the process that is killed, of which there may be
// fewer at first.
func definitions(ctx context.Context, s *Store) []streams.Definition {
	all, err := s.Definitions(ctx, "b")
	if err != nil {
		panic(err)
	}
	return all
}

// appendUntilKilled is the process that TestCampaignKill kills. It goes on behind what
// is stored, with batches of any size, and says what was settled.
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
