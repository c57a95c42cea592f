package store

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges"
)

// TestSchema compares the migrations with schema.sql.
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

// TestIdentity checks that each store has an identity of its own, and keeps it.
func TestIdentity(t *testing.T) {
	t.Parallel()
	s, other := fresh(t, Options{}), fresh(t, Options{})
	before := s.Identity()
	if s = reopen(t, s, Options{}); s.Identity() != before || len(before) < 20 || other.Identity() == before {
		t.Errorf("was %q, is %q, another one is %q", before, s.Identity(), other.Identity())
	}
}

// TestConfigs stores the configurations of each broker, sealed.
func TestConfigs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := fresh(t, Options{})
	const secret = "correct horse battery staple"
	doc := json.RawMessage(`{"password":"` + secret + `"}`)
	must(t, s.PutConfig(ctx, "b", "x", doc, nil), s.PutConfig(ctx, "b", "y", document, nil), s.PutConfig(ctx, "other", "x", document, nil))
	must(t, s.PutConfig(ctx, "b", "y", nil, nil))
	wantNoSecret(t, filepath.Dir(s.file.Path()), secret)
	s = reopen(t, s, Options{})
	wantConfigs(t, s, "b", map[string]json.RawMessage{"x": doc})
	wantConfigs(t, s, "other", map[string]json.RawMessage{"x": document})
	must(t, s.Forget(ctx, "b"))
	wantConfigs(t, s, "b", map[string]json.RawMessage{})
	wantConfigs(t, s, "other", map[string]json.RawMessage{"x": document})
	wantNoSecret(t, filepath.Dir(s.file.Path()), secret)
}

func wantConfigs(t *testing.T, s *Store, brokerID string, want map[string]json.RawMessage) {
	t.Helper()
	got, err := s.Configs(t.Context(), brokerID)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configurations of %s (-want +got):\n%s", brokerID, diff)
	}
}

// wantNoSecret searches all files of a directory for a text.
func wantNoSecret(t *testing.T, dir, secret string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	must(t, err)
	if len(files) < 2 {
		t.Errorf("found %d files, want the file and its log", len(files))
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		must(t, err)
		if strings.Contains(string(b), secret) {
			t.Errorf("%s holds the secret", f.Name())
		}
	}
}

// TestConfigOfAnother moves a configuration to another row, or changes the key: it cannot be
// opened, and the others can.
func TestConfigOfAnother(t *testing.T) {
	t.Parallel()
	s := fresh(t, Options{})
	for _, id := range []string{"x", "y", "z"} {
		must(t, s.PutConfig(t.Context(), "b", id, document, nil))
	}
	within(t, s, `UPDATE config SET document = (SELECT document FROM config WHERE bridge_id = 'z') WHERE bridge_id = 'y'`)
	got, err := s.Configs(t.Context(), "b")
	if len(got) != 2 || got["y"] != nil || err == nil || !strings.Contains(err.Error(), "the configuration of y") {
		t.Errorf("got %v, %v", got, err)
	}
	s = reopen(t, s, Options{Seal: newSealer(2)})
	if got, err := s.Configs(t.Context(), "b"); len(got) != 0 || err == nil {
		t.Errorf("with another key: got %v, %v", got, err)
	}
}

// TestQueuesOfConfig checks that exactly the queues of a configuration exist.
func TestQueuesOfConfig(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := fresh(t, Options{})
	_, err := s.Queue(ctx, "b", "x", "c", wide)
	if broker.KindOf(err) != broker.NotFound {
		t.Errorf("a queue that does not exist: %v", err)
	}
	connect(t, s, "c", "d")
	c, d := queueOf(t, s, "c", wide), queueOf(t, s, "d", wide)
	if _, err := s.Queue(ctx, "b", "x", "c", wide); err == nil {
		t.Error("a queue was opened twice")
	}
	putAll(t, c, 1, 10)
	putAll(t, d, 20, 30)
	reject(t, d, "no", 25)
	before := ids(t, c, 9)
	connect(t, s, "e", "c")
	wantHeld(t, c, upTo(1, 10)...)
	wantGone(t, d)
	connect(t, s, "c", "d")
	if _, err := s.Queue(ctx, "b", "x", "e", wide); broker.KindOf(err) != broker.NotFound {
		t.Errorf("a queue that is not named any more: %v", err)
	}
	d = queueOf(t, s, "d", wide)
	wantHeld(t, d)
	s = reopen(t, s, Options{})
	c = queueOf(t, s, "c", wide)
	wantHeld(t, c, upTo(1, 10)...)
	if diff := cmp.Diff(before, ids(t, c, 9)); diff != "" {
		t.Errorf("IDs have changed (-want +got):\n%s", diff)
	}
	must(t, s.Forget(ctx, "b"))
	wantGone(t, c)
	checkStore(t, s)
}

// wantGone checks that a queue does not exist and accepts nothing.
func wantGone(t *testing.T, q *Queue) {
	t.Helper()
	putAll(t, q, 100, 103)
	q.Put(entry(103), nil)
	wantNothing(t, q)
	must(t, q.Close(t.Context()))
	for q.store.queues.find(q.state.queue) != nil {
		barrier(t, q)
	}
	var rows int
	must(t, q.store.reader.db.QueryRowContext(t.Context(), `
		SELECT (SELECT count(*) FROM block WHERE id >> 43 = ?1) + (SELECT count(*) FROM dead WHERE id >> 43 = ?1)
			+ (SELECT count(*) FROM removed WHERE block >> 43 = ?1) + (SELECT count(*) FROM queue WHERE id = ?1)`, q.state.queue).Scan(&rows))
	if rows != 0 {
		t.Errorf("%d rows are left", rows)
	}
}

// wantNothing checks that a queue is empty.
func wantNothing(t *testing.T, q *Queue) {
	t.Helper()
	if list := peek(t, q, 0); len(list) != 0 {
		t.Errorf("holds %d messages", len(list))
	}
	if total, list, err := q.DeadLetters(t.Context(), 0, 10); total != 0 || len(list) != 0 || err != nil {
		t.Errorf("has %d dead letters, %v (%v)", total, list, err)
	}
}

// TestNoSealer checks that a Sealer is required.
func TestNoSealer(t *testing.T) {
	t.Parallel()
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "bridges.db"), Options{}); err == nil {
		t.Error("opened without anything to seal with")
	}
}

// TestClosed checks that a closed store refuses everything.
func TestClosed(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), Options{})
	q := onlyQueue(t, s, wide)
	putAll(t, q, 1, 3)
	must(t, q.Close(t.Context()), q.Close(t.Context()))
	if err := <-putAsync(t, q, entry(3)); err == nil {
		t.Error("a queue that is closed took an entry")
	}
	again := queueOf(t, s, "c", wide)
	wantHeld(t, again, 1, 2)
	shut(t, s)
	shut(t, s)
	if err := <-putAsync(t, again, entry(3)); err == nil {
		t.Error("a store that is closed took an entry")
	}
	again.Put(entry(4), nil)
	again.Remove([]uint64{1})
	if err := again.Reject(context.Background(), []bridges.Rejection{{ID: 1}}); err == nil {
		t.Error("a store that is closed rejected an entry")
	}
	must(t, again.Close(t.Context()))
}
