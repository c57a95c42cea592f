package raftlog

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/raft"

	"signalbox/scripts/suite"
)

var update = flag.Bool("update", false, "write schema.sql anew")

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		appendUntilKilled(dir)
		return
	}
	suite.Main(m)
}

// must fails the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// open opens the store of a folder. The caller closes it.
func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dir, slog.New(slog.DiscardHandler))
	must(t, err)
	return s
}

// fresh opens an empty store until the end of the test.
func fresh(t testing.TB) *Store {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "cluster"))
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

// entries makes some that follow each other.
func entries(from uint64, n int) (all []*raft.Log) {
	for i := range uint64(n) {
		all = append(all, &raft.Log{Index: from + i, Term: 1 + (from+i)/7, Type: raft.LogType(i % 3), Data: fmt.Appendf(nil, "entry %d", from+i)})
	}
	return all
}

// contents returns the entries of a log, between its first and last index.
func contents(t testing.TB, s raft.LogStore) (all []raft.Log) {
	t.Helper()
	first, err := s.FirstIndex()
	must(t, err)
	last, err := s.LastIndex()
	must(t, err)
	for i := first; i <= last && i > 0; i++ {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil {
			t.Fatalf("entry %d of %d to %d: %v", i, first, last, err)
		}
		l.Data, l.Extensions = blob(l.Data), blob(l.Extensions)
		l.AppendedAt = l.AppendedAt.Truncate(0)
		all = append(all, l)
	}
	return all
}

// TestSchema compares schema.sql with what the migrations make.
func TestSchema(t *testing.T) {
	t.Parallel()
	rows, err := fresh(t).readers.QueryContext(t.Context(), `
		SELECT sql FROM sqlite_schema
		WHERE sql IS NOT NULL AND name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%'
		ORDER BY type DESC, name`)
	must(t, err)
	defer rows.Close()
	var b strings.Builder
	for rows.Next() {
		var stmt string
		must(t, rows.Scan(&stmt))
		b.WriteString(stmt + ";\n\n")
	}
	must(t, rows.Err())
	if *update {
		must(t, os.WriteFile("schema.sql", []byte(b.String()), 0o644))
	}
	want, err := os.ReadFile("schema.sql")
	must(t, err)
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("schema.sql (-) is not what the migrations make (+); run with -update and read the difference:\n%s", diff)
	}
}

// TestAgainstMemory does the same to this store and to raft's own in memory, as
// raft would, and reopens the file now and then.
func TestAgainstMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, want := open(t, dir), raft.NewInmemStore()
	defer func() { must(t, s.Close()) }()
	recent := NewRecent(s, 1000)
	next := uint64(1)
	for step := range 150 {
		first, _ := want.FirstIndex()
		last, _ := want.LastIndex()
		switch n := rand.IntN(10); {
		case n < 6:
			logs := entries(next, 1+rand.IntN(80))
			logs[0].AppendedAt = time.Unix(int64(step), 7)
			must(t, recent.StoreLogs(logs), want.StoreLogs(logs))
			next += uint64(len(logs))
		case n == 6 && last > 0: // compaction
			to := first + uint64(rand.IntN(int(last-first+2)))
			must(t, recent.DeleteRange(first, to), want.DeleteRange(first, min(to, last)))
		case n == 7 && last > first: // a conflict
			from := first + 1 + uint64(rand.IntN(int(last-first)))
			must(t, recent.DeleteRange(from, last), want.DeleteRange(from, last))
			next = from
		case n == 8: // a snapshot was taken over
			must(t, recent.DeleteRange(first, last))
			want, next = raft.NewInmemStore(), next+uint64(rand.IntN(100))
		case n == 9:
			must(t, s.Close())
			s = open(t, dir)
			recent = NewRecent(s, 1000)
		}
		if first, _ := want.FirstIndex(); first == 0 || first > next {
			want = raft.NewInmemStore() // it keeps its last index when it is emptied
		}
		if diff := cmp.Diff(contents(t, want), contents(t, s)); diff != "" {
			t.Fatalf("after step %d (-memory +file):\n%s", step, diff)
		}
		if diff := cmp.Diff(contents(t, want), contents(t, recent)); diff != "" {
			t.Fatalf("after step %d (-memory +recent):\n%s", step, diff)
		}
	}
}

// TestDeleteLongRange deletes more than fits into one transaction, from either end.
func TestDeleteLongRange(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ from, to, first, last uint64 }{
		"front":           {1, 3 * maxDeletion, 3*maxDeletion + 1, 4 * maxDeletion},
		"back":            {maxDeletion, 4 * maxDeletion, 1, maxDeletion - 1},
		"all":             {0, 9 * maxDeletion, 0, 0},
		"nothing, behind": {5 * maxDeletion, 9 * maxDeletion, 1, 4 * maxDeletion},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t)
			must(t, s.StoreLogs(entries(1, 4*maxDeletion)), s.DeleteRange(tc.from, tc.to))
			if first, last := s.bounds(); first != tc.first || last != tc.last {
				t.Errorf("the log goes from %d to %d, want %d to %d", first, last, tc.first, tc.last)
			}
			if got := uint64(len(contents(t, s))); tc.last > 0 && got != tc.last-tc.first+1 {
				t.Errorf("%d entries are left", got)
			}
		})
	}
}

// TestRefused has what would make a gap refused, and nothing changed by it.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	must(t, s.StoreLogs(entries(5, 10)))
	for name, err := range map[string]error{
		"a gap":        s.StoreLogs(entries(17, 1)),
		"an overwrite": s.StoreLogs(entries(14, 2)),
		"a hole":       s.StoreLogs(append(entries(15, 1), entries(17, 1)...)),
		"the middle":   s.DeleteRange(6, 7),
	} {
		if err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	if diff := cmp.Diff(len(contents(t, s)), 10); diff != "" {
		t.Error(diff)
	}
	if err := s.GetLog(4, &raft.Log{}); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("got %v, want %v", err, raft.ErrLogNotFound)
	}
}

// TestValues stores values across a reopening, and deletes those of raft alone.
func TestValues(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	must(t, s.SetUint64([]byte("CurrentTerm"), 1<<40), s.Set([]byte("LastVoteCand"), []byte("2")),
		s.Update(Changes{"cluster/a": []byte("A"), "cluster/b": []byte("B")}), s.StoreLogs(entries(1, 3)), s.Close())
	s = open(t, dir)
	defer func() { must(t, s.Close()) }()
	term, err := s.GetUint64([]byte("CurrentTerm"))
	must(t, err)
	vote, err := s.Get([]byte("LastVoteCand"))
	must(t, err)
	if term != 1<<40 || string(vote) != "2" {
		t.Errorf("term %d and vote %q", term, vote)
	}
	must(t, s.Clear(Changes{"cluster/a": nil, "cluster/c": []byte("C")}))
	want := map[string]string{"cluster/a": "", "cluster/b": "B", "cluster/c": "C", "raft/CurrentTerm": ""}
	got := map[string]string{}
	for name := range want {
		value, err := s.Value(name)
		must(t, err)
		got[name] = string(value)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	if exists, err := raft.HasExistingState(s, s, s); exists || err != nil {
		t.Errorf("something is left for raft: %v, %v", exists, err)
	}
}

// TestVoteWaitsForSpace makes the file read-only. A vote is not reported as stored
// until it is, or until the store is released.
func TestVoteWaitsForSpace(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Store){
		"until there is space": func(s *Store) { s.pragma(t, `PRAGMA query_only = 0`) },
		"until it is released": func(s *Store) {
			s.Release()
			t.Cleanup(s.Reset)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := fresh(t)
				s.pragma(t, `PRAGMA query_only = 1`)
				done := make(chan error, 1)
				go func() { done <- s.SetUint64([]byte("CurrentTerm"), 7) }()
				<-time.After(5 * s.interval)
				select {
				case err := <-done:
					t.Fatalf("reported as stored: %v", err)
				default:
				}
				end(s)
				must(t, <-done)
				s.pragma(t, `PRAGMA query_only = 0`)
			})
		})
	}
}

// pragma runs a statement on the writing connection.
func (s *Store) pragma(t testing.TB, q string) {
	t.Helper()
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.conn.SQL().ExecContext(context.Background(), q) // t may be outside of the bubble
	must(t, err)
}

// TestForTheOwner looks at what others may do with the files.
func TestForTheOwner(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	snapshot(t, s, 1, "x")
	must(t, filepath.WalkDir(filepath.Dir(s.dir), func(path string, d os.DirEntry, err error) error {
		must(t, err)
		info, err := d.Info()
		must(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	}))
}

// snapshot makes one.
func snapshot(t testing.TB, s *Store, index uint64, what string) raft.SnapshotSink {
	t.Helper()
	c := raft.Configuration{Servers: []raft.Server{{ID: "1", Address: "1@a:1"}}}
	k, err := s.Create(1, index, 2, c, index-1, nil)
	must(t, err)
	_, err = io.WriteString(k, what)
	must(t, err, k.Close(), k.Close(), k.Cancel())
	return k
}

// TestSnapshots has the last two stay, and their contents as they were.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	long := strings.Repeat("many bytes ", 100_000)
	snapshot(t, s, 10, "first")
	unfinished, err := s.Create(1, 12, 2, raft.Configuration{}, 1, nil)
	must(t, err)
	snapshot(t, s, 20, "second")
	snapshot(t, s, 30, long)
	canceled, err := s.Create(1, 40, 2, raft.Configuration{}, 1, nil)
	must(t, err, canceled.Cancel(), s.Close())
	s = open(t, dir)
	defer func() { must(t, s.Close(), unfinished.(*sink).file.Close()) }()
	got, err := s.List()
	must(t, err)
	if len(got) != 2 || got[0].Index != 30 || got[1].Index != 20 || got[0].Configuration.Servers[0].Address != "1@a:1" || got[0].Size != int64(len(long)) {
		t.Fatalf("listed %+v", got)
	}
	meta, r, err := s.Open(got[0].ID)
	must(t, err)
	defer r.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(r)
	if must(t, err); b.String() != long || meta.Index != 30 || r.(*SnapshotReader).Index != 30 {
		t.Errorf("%d bytes of snapshot %d", b.Len(), meta.Index)
	}
	if files, err := os.ReadDir(s.dir); len(files) != 2 || err != nil {
		t.Errorf("%d files are left (%v), want 2", len(files), err)
	}
}

// TestDamagedSnapshot has one refused whose contents are not what they were.
func TestDamagedSnapshot(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	id := snapshot(t, s, 1, "contents").ID()
	for _, damage := range []string{"contentz", "content", ""} {
		must(t, os.WriteFile(s.path(id), []byte(damage), 0o600))
		if _, _, err := s.Open(id); err == nil {
			t.Errorf("%q is taken for what was written", damage)
		}
	}
}

// TestBootstrap makes a snapshot and the term in one transaction, or neither.
func TestBootstrap(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	broken := errors.New("broken")
	err := s.Bootstrap(raft.SnapshotMeta{Version: 1, Index: 1, Term: 1}, func(io.Writer) error { return broken }, TermChange(1))
	if exists, e := raft.HasExistingState(s, s, s); !errors.Is(err, broken) || exists || e != nil {
		t.Fatalf("got %v, and state: %v (%v)", err, exists, e)
	}
	must(t, s.Bootstrap(raft.SnapshotMeta{Version: 1, Index: 1, Term: 1}, func(w io.Writer) error { return nil }, TermChange(1)))
	term, err := s.GetUint64([]byte("CurrentTerm"))
	if all, _ := s.List(); term != 1 || err != nil || len(all) != 1 {
		t.Errorf("term %d (%v), snapshots %v", term, err, all)
	}
}
