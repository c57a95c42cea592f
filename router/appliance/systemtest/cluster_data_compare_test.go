package systemtest

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"signalbox/scripts/suite"
)

// localTables are the tables of signalbox.db that each node has for itself.
var localTables = []string{"probe", "data_directory", "local_state", "shared_keys", "audit_sinks"}

// checkSame waits until the databases of all machines have the same rows, and compares lists of the API.
func (s *dataCampaign) checkSame(t testing.TB) {
	t.Helper()
	var rows map[string]int
	differs := ""
	suite.WaitFor(t, "the databases of all nodes are the same", func() bool {
		var want map[string]string
		want, rows = s.machines[0].content(t)
		for _, m := range s.machines[1:] {
			got, _ := m.content(t)
			for table := range want {
				if got[table] != want[table] {
					differs = fmt.Sprintf("%s at nodes 1 and %d", table, m.id)
					return false
				}
			}
		}
		return true
	})
	if rows["audit"] == 0 || rows["projects"] == 0 || rows["tokens"] == 0 {
		t.Errorf("rows that were compared: %v; last difference: %s", rows, differs)
	}
	for _, path := range []string{"/api/users", "/api/users/admins", "/api/projects", "/api/auth/preferences",
		s.machines[0].api.inProject("/members"), s.machines[0].api.inProject("/tokens")} {
		suite.WaitFor(t, "all nodes return the same for "+path, func() bool { // times of use are stored later
			want := s.machines[0].api.text(t, path)
			return !slices.ContainsFunc(s.machines[1:], func(m *machine) bool { return m.api.text(t, path) != want })
		})
	}
	t.Logf("rows that all nodes have: %v", rows)
}

// content returns the rows of a machine's database that are shared, as text, and their number, by table.
func (m *machine) content(t testing.TB) (all map[string]string, rows map[string]int) {
	t.Helper()
	all, rows = map[string]string{}, map[string]int{}
	d, err := sql.Open("sqlite", "file:"+filepath.Join(m.dir, "signalbox.db")+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close() //nolint:errcheck // it was only read
	tx, err := d.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() //nolint:errcheck // it was only read
	for _, name := range query(t, tx, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'") {
		table := strings.TrimSpace(name)
		if slices.Contains(localTables, table) {
			continue
		}
		columns := strings.Join(query(t, tx, `SELECT '"' || name || '"' FROM pragma_table_info('`+table+`')`), ", ")
		found := query(t, tx, "SELECT "+columns+` FROM "`+table+`"`)
		slices.Sort(found)
		all[table], rows[table] = strings.Join(found, "\n"), len(found)
	}
	return all, rows
}

// query returns the rows of a query as text.
func query(t testing.TB, tx *sql.Tx, text string) (all []string) {
	t.Helper()
	rows, err := tx.QueryContext(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close() //nolint:errcheck // Err reports it
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	values, to := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		to[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSuffix(fmt.Sprintln(values...), "\n"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// auditRow is a row of the audit log.
type auditRow struct {
	RequestID string `json:"request_id"`
	Operation string `json:"operation"`
	Outcome   string `json:"outcome"`
	Status    int    `json:"status"`
}

// done reports whether one of the rows of a request is of a change that was made.
func done(rows []auditRow) bool {
	return slices.ContainsFunc(rows, func(r auditRow) bool { return r.Outcome == "done" })
}

// readAudit returns the rows of the audit log by request. It is the same at all nodes, and intact.
func (s *dataCampaign) readAudit(t testing.TB) map[string][]auditRow {
	t.Helper()
	var want []byte
	suite.WaitFor(t, "all nodes have the same audit log", func() bool { // events that are counted are stored later
		want = s.machines[0].exportAudit(t)
		return !slices.ContainsFunc(s.machines[1:], func(m *machine) bool { return !bytes.Equal(m.exportAudit(t), want) })
	})
	for _, m := range s.machines {
		if got := command(t, m.settings().environ(m.dir), "audit", "verify"); got.code != 0 || !strings.Contains(got.stdout, "the audit log is intact") {
			t.Errorf("node %d: verify the audit log: %+v", m.id, got)
		}
	}
	all := map[string][]auditRow{}
	for line := range bytes.Lines(want) {
		var r auditRow
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("audit log: %s: %v", line, err)
		}
		if r.RequestID != "" {
			all[r.RequestID] = append(all[r.RequestID], r)
		}
	}
	return all
}

// exportAudit returns the audit log of a machine.
func (m *machine) exportAudit(t testing.TB) []byte {
	t.Helper()
	status, text, err := m.api.do(t.Context(), "GET", "/api/audit/export", nil)
	if err != nil || status != 200 {
		t.Fatalf("node %d: export the audit log: %d %v", m.id, status, err)
	}
	return text
}

// checkAudit compares the audit log with what the responses to changes stated: an acknowledged change has one row, and
// what was refused or unavailable has none of a change that was made. What was not confirmed was made once or not at all; no row of
// what was made states that it failed.
func (s *dataCampaign) checkAudit(t testing.TB, audit map[string][]auditRow) {
	t.Helper()
	counts := map[verdict]int{}
	made := 0
	for id, r := range s.data.requests {
		counts[r.verdict]++
		rows := audit[id]
		switch {
		case r.verdict == acknowledged && (len(rows) != 1 || !done(rows)):
			t.Errorf("%s was acknowledged, and the audit log has %+v of it", r.what, rows)
		case r.verdict != acknowledged && r.verdict != unconfirmed && done(rows):
			t.Errorf("%s was not made, and the audit log has %+v of it", r.what, rows)
		case r.verdict == unconfirmed && done(rows):
			made++
			others := slices.DeleteFunc(slices.Clone(rows), func(r auditRow) bool { return r.Outcome == "unknown" })
			if len(others) != 1 {
				t.Errorf("%s was not confirmed, and the audit log has %+v of it", r.what, rows)
			}
		}
	}
	t.Logf("%d changes were acknowledged and have one row in the audit log; %d were refused, %d not made; of %d that were not confirmed %d were made",
		counts[acknowledged], counts[refusedChange], counts[unchanged], counts[unconfirmed], made)
}
