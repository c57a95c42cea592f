package db

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestCampaignAuditPages reads pages of a long audit log: the last one takes about as long as the
// first one, with and without filters. SIGNALBOX_TEST_AUDIT_ROWS are its rows.
func TestCampaignAuditPages(t *testing.T) {
	n := suite.FromEnvironment(t, "SIGNALBOX_TEST_AUDIT_ROWS", 1_000_000)
	path := filepath.Join(t.TempDir(), "signalbox.db")
	d := openAudited(t, path)
	// A plant: one row a second, by 20 users on 50 connections; one in 100 is a refusal, with a code.
	const fill = `
		INSERT INTO audit (seq, time, actor_kind, actor_id, actor_name, address, user_agent, request_id, operation,
			project_id, broker_id, object, outcome, status, code, change, duration, count, hash)
		WITH RECURSIVE number(i) AS (VALUES (?1) UNION ALL SELECT i + 1 FROM number WHERE i < ?2)
		SELECT i, ?3 + 1000 * i, 'user', 'user-' || (i % 20), 'user-' || (i % 20), '192.0.2.' || (i % 250), 'curl', 'request-' || i,
			iif(i % 3, 'createClient', 'modifyRole'), 'project', 'broker-' || (i % 50), 'pump-' || (i % 10000),
			iif(i % 100, 'done', 'refused'), iif(i % 100, 204, 403), iif(i % 100, '', 'FORBIDDEN'), '', 1000, 1, zeroblob(32)
		FROM number`
	withIndexes := withoutAuditIndexes(t, d) // to fill it in minutes
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const atOnce = 100_000
	for from := 1; from <= n; from += atOnce {
		if _, err := d.rw.ExecContext(t.Context(), fill, from, min(from+atOnce-1, n), millis(start)); err != nil {
			t.Fatal(err)
		}
	}
	withIndexes()
	if err := d.Close(t.Context()); err != nil { // which makes the statistics of the indexes
		t.Fatal(err)
	}
	d = openAudited(t, path)
	defer d.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // only read
	page := func(f AuditFilter) time.Duration {
		var took []time.Duration
		for range 15 {
			began := time.Now()
			rows, err := d.ListAudit(t.Context(), f, 50)
			took = append(took, time.Since(began))
			if err != nil || len(rows) == 0 {
				t.Fatalf("%+v: %d rows, %v", f, len(rows), err)
			}
		}
		return slices.Min(took)
	}
	first := page(AuditFilter{})
	end := int64(n / 2) // of the older half, so that a page of a filter has what it may have
	for name, f := range map[string]AuditFilter{
		"all": {}, "actor": {ActorID: "user-7"}, "operation": {Operation: "modifyRole"}, "refused": {Outcome: AuditRefused},
		"object": {Object: "pump-77"}, "operation and refused": {Operation: "modifyRole", Outcome: AuditRefused},
		"project and object": {ProjectID: "project", Object: "pump-77"}, "actor and code": {ActorID: "user-0", Code: "FORBIDDEN"},
		"broker and time": {BrokerID: "broker-7", Since: start, Until: start.Add(time.Hour)},
		"one request":     {RequestID: "request-77"},
	} {
		older := f
		older.Below = end
		newest, last := page(f), page(older)
		t.Logf("%s: %v, in the older half %v", name, newest, last)
		if limit := 20*first + 2*time.Millisecond; newest > limit || last > limit {
			t.Errorf("%s: a page takes %v, in the older half %v; the first page of all takes %v", name, newest, last, first)
		}
	}
}

// withoutAuditIndexes drops the indexes of the audit log, and returns what creates them again in
// the same order, by which SQLite decides between two that seem alike.
func withoutAuditIndexes(t *testing.T, d *DB) (create func()) {
	t.Helper()
	rows, err := d.rw.QueryContext(t.Context(), "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'audit' AND sql IS NOT NULL ORDER BY rowid")
	if err != nil {
		t.Fatal(err)
	}
	var names, definitions []string
	for rows.Next() {
		var name, definition string
		if err := rows.Scan(&name, &definition); err != nil {
			t.Fatal(err)
		}
		names, definitions = append(names, name), append(definitions, definition)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil || len(names) == 0 {
		t.Fatal(len(names), "indexes:", err)
	}
	execute := func(statement string) {
		if _, err := d.rw.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		execute("DROP INDEX " + name)
	}
	return func() {
		for _, definition := range definitions {
			execute(definition)
		}
	}
}

// openAudited opens a database. The caller closes it.
func openAudited(t *testing.T, path string) *DB {
	t.Helper()
	d, err := Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return d
}
