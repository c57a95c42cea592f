package systemtest

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestAuditVerify verifies the audit log while the service runs, after it was killed, and after
// a row was changed or rows were cut off.
func TestAuditVerify(t *testing.T) {
	t.Parallel()
	dir, env := dataDir(t), configured(nil)
	p := serve(t, dir, env)
	r := root(t, p)
	for i := range 5 {
		r.must(t, "POST", r.at("/roles"), object{"rolename": fmt.Sprint("r", i)}, nil)
	}
	verify := func(args ...string) outcome {
		return command(t, env.environ(dir), append([]string{"audit", "verify"}, args...)...)
	}
	if got := verify("--data_dir", t.TempDir()); got.code != 1 || !strings.Contains(got.stderr, "there is no database in") {
		t.Errorf("of another directory: %+v", got)
	}
	if got := verify(); got.code != 0 || !strings.Contains(got.stdout, "is intact: rows 1 to") {
		t.Errorf("while the service runs: %+v", got)
	}
	var kept struct {
		Note, Key string
		Seq       int64
	}
	r.must(t, "GET", "/api/audit/checkpoint", nil, &kept)
	note := filepath.Join(t.TempDir(), "checkpoint.txt")
	write(t, note, kept.Note)
	p.Kill()
	if got := verify("--checkpoint", note, "--key", kept.Key); got.code != 0 {
		t.Errorf("after a kill: %+v", got)
	}
	damage(t, dir, "UPDATE audit SET object = 'r9' WHERE object = 'r3'")
	wantRefused(t, verify(), "changed at row")
	damage(t, dir, "UPDATE audit SET object = 'r3' WHERE object = 'r9'")
	damage(t, dir, fmt.Sprintf("DELETE FROM audit WHERE seq > %d; DELETE FROM audit_checkpoints", kept.Seq-2))
	if got := verify(); got.code != 0 {
		t.Errorf("rows missing at the end, without a checkpoint: %+v", got)
	}
	wantRefused(t, verify("--checkpoint", note), fmt.Sprintf("at row %d", kept.Seq-1))
	wantRefused(t, verify("--checkpoint", note+".none"), "no such file")
}

// damage changes the service's database behind its back.
func damage(t *testing.T, dir, statements string) {
	t.Helper()
	d, err := sql.Open("sqlite", filepath.Join(dir, "signalbox.db"))
	if err == nil {
		_, err = d.ExecContext(t.Context(), statements)
	}
	if err != nil || d.Close() != nil {
		t.Fatal(err)
	}
}
