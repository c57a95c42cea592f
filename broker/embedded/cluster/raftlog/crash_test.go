package raftlog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"

	"signalbox/broker/storage/storagetest"
)

// crashDir names the folder of the process that is killed.
const crashDir = "RAFTLOG_CRASH_DIR"

// TestCampaignKill kills a process that appends, compacts and takes snapshots, again and
// again on the same folder. What it said was stored must be there afterwards.
func TestCampaignKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 8 {
		said := runAndKill(t, dir)
		s := open(t, dir)
		last, err := s.LastIndex()
		must(t, err)
		for _, l := range contents(t, s) {
			if string(l.Data) != fmt.Sprint("entry ", l.Index) {
				t.Errorf("entry %d holds %q", l.Index, l.Data)
			}
		}
		term, err := s.GetUint64([]byte("CurrentTerm"))
		must(t, err)
		snapshots, err := s.List()
		must(t, err)
		for _, m := range snapshots {
			_, r, err := s.Open(m.ID)
			must(t, err, r.Close())
		}
		if last < said.last || term < said.last || said.snapshot > 0 && (len(snapshots) == 0 || snapshots[0].Index < said.snapshot) {
			t.Errorf("it said %+v, there is entry %d, term %d, snapshots %v", said, last, term, snapshots)
		}
		must(t, s.Close())
	}
}

// stored is what the process said it had stored.
type stored struct{ last, snapshot uint64 }

func runAndKill(t *testing.T, dir string) (said stored) {
	t.Helper()
	lines, killAfter := 0, 1+rand.IntN(60)
	storagetest.Kill(t, crashDir+"="+dir, func(line string) (kill bool) {
		if _, err := fmt.Sscanf(line, "%d %d", &said.last, &said.snapshot); err != nil {
			t.Fatalf("the process says %q", line)
		}
		lines++
		return lines == killAfter
	})
	return said
}

// appendUntilKilled is the process that TestCampaignKill kills.
func appendUntilKilled(dir string) {
	check := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	s, err := Open(context.Background(), dir, slog.New(slog.DiscardHandler))
	check(err)
	var said stored
	for {
		last, _ := s.LastIndex()
		logs := entries(last+1, 1+rand.IntN(40))
		check(s.StoreLogs(logs))
		said.last = logs[len(logs)-1].Index
		check(s.SetUint64([]byte("CurrentTerm"), said.last))
		if rand.IntN(4) == 0 {
			k, err := s.Create(1, said.last, 1, raft.Configuration{}, 0, nil)
			check(err)
			_, err = io.WriteString(k, fmt.Sprint("up to ", said.last))
			check(err)
			check(k.Close())
			said.snapshot = said.last
			first, _ := s.FirstIndex()
			check(s.DeleteRange(first, said.last-1))
		}
		fmt.Printf("%d %d\n", said.last, said.snapshot)
	}
}
