package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
	"signalbox/scripts/suite"
)

// TestSchema compares the result of the migrations with schema.sql.
func TestSchema(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	rows, err := s.reader.db.QueryContext(t.Context(), `
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

func TestDefinitions(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	full := streams.Definition{UID: math.MaxInt64, Stream: broker.Stream{
		StreamName: "z/ü", SourceTopic: "s/#", TargetTopic: "t", TargetQoS: -1, TTL: 86400, Key: "k", TextName: "n", TextDescription: "d",
		Active: true, Process: true, Persist: true, Query: json.RawMessage(`{"where":[]}`),
	}}
	id, err := s.Put(t.Context(), "b", full)
	must(t, err)
	full.ID = id
	plain := streams.Definition{Stream: broker.Stream{StreamName: "a", SourceTopic: "s"}}
	plain.ID, err = s.Put(t.Context(), "b", plain)
	must(t, err)
	if _, err := s.Put(t.Context(), "other", streams.Definition{Stream: broker.Stream{StreamName: "a"}}); err != nil {
		t.Errorf("a name is taken by another broker's stream: %v", err)
	}
	plain.TextName, plain.Active, plain.TTL = "changed", true, 7
	if got, err := s.Put(t.Context(), "b", plain); err != nil || got != plain.ID {
		t.Errorf("got %d (%v), want %d", got, err, plain.ID)
	}
	got, err := s.Definitions(t.Context(), "b")
	must(t, err)
	if diff := cmp.Diff([]streams.Definition{plain, full}, got); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
	checkFile(t, s)
}

// TestDefinitionsOutliveTheStore reopens a store with its definitions, and
// checks that no id is used twice.
func TestDefinitionsOutliveTheStore(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	first, second := define(t, s, "first", 3), define(t, s, "second", 0)
	must(t, s.Delete(t.Context(), second))
	s = reopen(t, s, Options{})
	want := []streams.Definition{{ID: first, Stream: broker.Stream{StreamName: "first", TTL: 3}}}
	got, err := s.Definitions(t.Context(), "b")
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions (-want +got):\n%s", diff)
	}
	if third := define(t, s, "third", 0); third <= second {
		t.Errorf("number %d was given after %d", third, second)
	}
}

func TestPutRefuses(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	id := define(t, s, "taken", 0)
	other := define(t, s, "other", 0)
	for name, tc := range map[string]struct {
		broker string
		id     int64
		name   string
		kind   broker.Kind
	}{
		"a name that is taken":              {"b", 0, "taken", broker.Exists},
		"a change to a name that is taken":  {"b", other, "taken", broker.Exists},
		"a number that is not there":        {"b", id + 100, "new", broker.NotFound},
		"a number of another broker's":      {"c", id, "new", broker.NotFound},
		"a name with another one's number ": {"c", other, "taken", broker.NotFound},
	} {
		_, err := s.Put(t.Context(), tc.broker, streams.Definition{ID: tc.id, Stream: broker.Stream{StreamName: tc.name}})
		if broker.KindOf(err) != tc.kind || err == nil {
			t.Errorf("%s: got %v, want kind %d", name, err, tc.kind)
		}
	}
	if err := s.Delete(t.Context(), id+100); broker.KindOf(err) != broker.NotFound {
		t.Errorf("deleting what is not there gives %v", err)
	}
	if _, err := s.Open(t.Context(), id+100); broker.KindOf(err) != broker.NotFound {
		t.Errorf("opening what is not there gives %v", err)
	}
}

// TestOpenOnce checks that a log is open at most once at a time.
func TestOpenOnce(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	l := stream(t, s, "s", 0)
	if _, err := s.Open(t.Context(), l.stored.stream); err == nil {
		t.Error("a log was opened twice")
	}
	appendAndWait(t, l, messages(1, 1)...)
	must(t, l.Close(t.Context()))
	again := openLog(t, s, l.stored.stream)
	must(t, l.Close(t.Context()))
	if _, err := s.Open(t.Context(), l.stored.stream); err == nil {
		t.Error("closing a log twice closes that of another")
	}
	if err := l.Append(t.Context(), messages(2, 1), nil, func(error) {}); !errors.Is(err, errLogClosed) {
		t.Errorf("a closed log answers %v", err)
	}
	appendAndWait(t, again, messages(3, 1)...)
	wantTimes(t, again, 1, 3)
}

// TestDelete deletes a stream with its messages, and no other.
func TestDelete(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	stays, goes, forgotten := stream(t, s, "stays", 0), stream(t, s, "goes", 0), define(t, s, "forgotten", 0)
	appendAndWait(t, stays, messages(1, 3)...)
	appendAndWait(t, goes, messages(1, 3)...)
	must(t, s.Delete(t.Context(), goes.stored.stream))
	if err := goes.Append(t.Context(), messages(9, 1), nil, func(error) {}); !errors.Is(err, errLogClosed) {
		t.Errorf("the log of a deleted stream answers %v", err)
	}
	wantTimes(t, stays, 1, 2, 3)
	must(t, s.Forget(t.Context(), "nobody"), s.Forget(t.Context(), "b"))
	if _, err := s.Open(t.Context(), forgotten); broker.KindOf(err) != broker.NotFound {
		t.Errorf("opening a stream that is forgotten gives %v", err)
	}
	must(t, s.Close(t.Context()))
	wantNothingLeft(t, open(t, filepath.Dir(s.file.Path()), Options{}))
}

// wantNothingLeft waits until the store has no messages, and closes it.
func wantNothingLeft(t *testing.T, s *Store) {
	t.Helper()
	defer closeStore(t, s)
	deadline := time.Now().Add(suite.HangLimit)
	for {
		var blocks, logs, states int
		must(t, s.reader.db.QueryRowContext(t.Context(), `SELECT (SELECT count(*) FROM block), (SELECT count(*) FROM log), (SELECT count(*) FROM state)`).Scan(&blocks, &logs, &states))
		if blocks+logs+states == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d blocks, %d logs and %d states are left", blocks, logs, states)
		}
	}
}

// TestPurgeIsResumed deletes a stream and closes the store at once. The rest is
// deleted when the store is opened again.
func TestPurgeIsResumed(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	l := stream(t, s, "s", 0)
	big := messages(1, 24)
	for i := range big {
		big[i].Payload = make([]byte, 1<<20)
	}
	must(t, l.Append(t.Context(), big, []byte("state"), func(error) {}), l.Close(t.Context()))
	closing := make(chan struct{})
	s.commits.Put(storage.Submission[*entry]{Task: func() { <-closing }}) // so that the purge cannot finish before
	must(t, s.Delete(t.Context(), l.stored.stream))
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(done); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	close(closing)
	closeStore(t, s)
	db, err := sql.Open("sqlite", s.file.Path())
	must(t, err)
	var n int
	must(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM log`).Scan(&n), db.Close())
	if n != 1 {
		t.Errorf("%d journals are left, want 1", n)
	}
	wantNothingLeft(t, open(t, filepath.Dir(s.file.Path()), Options{}))
}

func TestCloseTwice(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	l := stream(t, s, "s", 0)
	committed := appendAsync(t, l, messages(1, 10)...)
	must(t, s.Close(t.Context()), s.Close(t.Context()), <-committed)
	if err := l.Append(t.Context(), messages(11, 1), nil, func(error) {}); !errors.Is(err, errClosed) {
		t.Errorf("a closed store answers %v", err)
	}
	if err := l.Clear(t.Context(), allTimes); !errors.Is(err, errClosed) {
		t.Errorf("a closed store clears with %v", err)
	}
	must(t, l.Close(context.Background()))
}
