package router

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"testing"

	"signalbox/db"
	"signalbox/handlers/auth"
)

// unaudited are the operations that change nothing although their method could.
var unaudited = []string{"previewStream", "previewBridge"}

// TestEveryChangeIsAudited calls each operation that changes something without a credential and
// as a root administrator, and expects a row of each. A service has some of them only, since
// callers without a credential have few rows a minute.
func TestEveryChangeIsAudited(t *testing.T) {
	t.Parallel()
	var changes []string
	for _, row := range newFixture(t).router.rows {
		if row.writes() {
			changes = append(changes, row.ID)
		}
	}
	slices.SortStableFunc(changes, func(a, b string) int { return cmp.Compare(slices.Index(lastRows, a), slices.Index(lastRows, b)) })
	for some := range slices.Chunk(changes, 20) {
		f := newFixture(t)
		root := f.login(t)
		for _, id := range some {
			f.checkAudited(t, f.row(t, id), root)
		}
	}
	if len(changes) < 60 {
		t.Errorf("only %d operations were called", len(changes))
	}
}

func (f *fixture) checkAudited(t *testing.T, row *route, root string) {
	t.Helper()
	want := []string{"stranger", "root"}
	if row.Role == auth.Public {
		want = want[:1] // the other one is equal, and counted
	}
	if slices.Contains(unaudited, row.ID) {
		want = want[:1]
	}
	var got []string
	for _, by := range []struct{ name, token string }{{"stranger", ""}, {"root", root}} {
		f.do(t, row.Method, f.path(row.Path), by.token, "", "X-Request-Id", by.name+"-"+row.ID)
		found, err := f.db.ListAudit(t.Context(), db.AuditFilter{Operation: row.ID, RequestID: by.name + "-" + row.ID}, 10)
		must(t, err)
		if len(found) > 0 {
			got = append(got, by.name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s left rows in the audit log by %v, want %v", row.ID, got, want)
	}
}

// secretName matches names of members that probably are secrets, and notSecret those that are
// not.
var (
	secretName = regexp.MustCompile(`(?i)pass|secret|_key|^key|token|payload|credential`)
	notSecret  = map[string]bool{
		"credentials": true, "client_key_file": true, // an object that has secrets, and the path of one
		"key": true, // of a stream, which is returned as it was sent
	}
)

// TestSecretsAreMasked checks that every member of a request whose name is that of a secret is
// masked in the audit log.
func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	found := 0
	var visit func(row *route, s *shape, seen map[*shape]bool)
	visit = func(row *route, s *shape, seen map[*shape]bool) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		for i := range s.members {
			m := &s.members[i]
			if secretName.MatchString(m.name) && !notSecret[m.name] && m.shape.kind != boolean && m.shape.kind != integer {
				found++
				if !m.rules.secret && !m.shape.isSecret() {
					t.Errorf("%s: member %q is not masked", row.ID, m.name)
				}
			}
			visit(row, m.shape, seen)
		}
		for _, inner := range append(s.choices, s.elem, s.inner) {
			visit(row, inner, seen)
		}
	}
	for _, row := range f.router.rows {
		if row.plan != nil && row.plan.body != nil && row.writes() && row.Audit != auditNothing && !row.plan.body.rules.secret {
			visit(row, row.plan.body.shape, map[*shape]bool{})
		}
	}
	if found < 10 {
		t.Errorf("only %d secrets were found", found)
	}
}

// TestPanicIsAudited calls an operation that panics after it was begun at a broker.
func TestPanicIsAudited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	row := f.row(t, "createRole")
	row.Do.call = func(context.Context, any) (any, error) { panic("deliberate") }
	f.do(t, row.Method, f.path(row.Path), f.tokens["editor"], `{"rolename":"r"}`)
	rows, err := f.db.ListAudit(t.Context(), db.AuditFilter{Operation: row.ID}, 10)
	must(t, err)
	if len(rows) != 1 || rows[0].Outcome != db.AuditUnknown || rows[0].Object != "r" {
		t.Errorf("got %+v, want one row with the outcome unknown", rows)
	}
}
