package db

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each filter of the audit log reads a page from its index, in the order of the page.
func TestAuditPlans(t *testing.T) {
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "signalbox.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // only read
	now := time.Now()
	for index, f := range map[string]AuditFilter{
		"audit_by_time":      {},
		"audit_by_kind":      {ActorKind: "command"},
		"audit_by_actor":     {ActorID: "a"},
		"audit_by_address":   {Address: "192.0.2.1"},
		"audit_by_request":   {RequestID: "r"},
		"audit_by_operation": {Operation: "createClient"},
		"audit_by_project":   {ProjectID: "p"},
		"audit_by_broker":    {BrokerID: "b"},
		"audit_by_object":    {Object: "pump-7"},
		"audit_by_outcome":   {Outcome: AuditRefused},
		"audit_by_code":      {Code: "FORBIDDEN"},
	} {
		older, between := f, f
		older.Below = 7
		between.Since, between.Until = now.Add(-time.Hour), now
		for _, f := range []AuditFilter{f, older, between} {
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
