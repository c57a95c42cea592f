package db

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each filter of the audit log reads a page from its index, in the order of the page: without
// statistics, and with those of a long log, which say the same of all columns with few values,
// since ANALYZE reads no more than 2,000 entries of an index. Then the index wins that was created
// last: those of refusals, of which there are few, were.
func TestAuditPlans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signalbox.db")
	d := openAudited(t, path)
	testAuditPlans(t, d)
	for _, statement := range []string{
		"ANALYZE",
		`INSERT INTO sqlite_stat1 (tbl, idx, stat)
			SELECT 'audit', name, iif(name IN ('audit_by_outcome', 'audit_by_code'), '10000', '1000000') || iif(name = 'audit_by_request', ' 1', ' 2001 1')
			FROM sqlite_master WHERE type = 'index' AND tbl_name = 'audit' AND sql IS NOT NULL`,
	} {
		if _, err := d.rw.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d = openAudited(t, path)
	defer d.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // only read
	testAuditPlans(t, d)
}

func testAuditPlans(t *testing.T, d *DB) {
	t.Helper()
	now := time.Now()
	for index, filters := range map[string][]AuditFilter{
		"audit_by_time":      {{}},
		"audit_by_kind":      {{ActorKind: "command"}},
		"audit_by_actor":     {{ActorID: "a"}},
		"audit_by_address":   {{Address: "192.0.2.1"}},
		"audit_by_request":   {{RequestID: "r"}},
		"audit_by_operation": {{Operation: "createClient"}},
		"audit_by_project":   {{ProjectID: "p"}},
		"audit_by_broker":    {{BrokerID: "b"}},
		"audit_by_object":    {{Object: "pump-7"}},
		"audit_by_outcome":   {{Outcome: AuditRefused}, {Outcome: AuditRefused, Operation: "createClient", ProjectID: "p", ActorKind: "command"}},
		"audit_by_code":      {{Code: "FORBIDDEN"}, {Code: "FORBIDDEN", Operation: "createClient", ProjectID: "p", ActorKind: "command"}},
	} {
		for _, f := range filters {
			older, between := f, f
			older.Below = 7
			between.Since, between.Until = now.Add(-time.Hour), now
			filters = append(filters, older, between)
		}
		for _, f := range filters {
			query, args := auditPage(&f, 100)
			plan, err := collect(t.Context(), d.ro, func(row scanner) (step string, err error) {
				var id, parent, unused int
				err = row.Scan(&id, &parent, &unused, &step)
				return step, err
			}, "EXPLAIN QUERY PLAN "+query, args...)
			text := strings.Join(plan, "; ")
			if err != nil || !strings.Contains(text, "INDEX "+index) || strings.Contains(text, "TEMP B-TREE") && index != "audit_by_request" {
				t.Errorf("%s: %s, %v: %+v", index, text, err, f)
			}
		}
	}
}
