package systemtest

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestResetPassword replaces a lost password on the machine: the old one and the sessions
// end, and the audit log has the change without the password.
func TestResetPassword(t *testing.T) {
	t.Parallel()
	dir, env := dataDir(t), configured(nil)
	reset := func(stdin string, args ...string) outcome {
		cmd := prepare(env.environ(dir), append([]string{"user", "reset-password"}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		return finish(t, cmd)
	}
	wantRefused(t, reset("brand-new-1", rootEmail, "--password-file", "-"), "data_dir")
	p := serve(t, dir, env)
	old := root(t, p)
	wantRefused(t, reset("brand-new-1", rootEmail, "--password-file", "-"), "another signalbox is running")
	p.stop(t)

	wantExit(t, 2, reset("", rootEmail), "not a terminal")
	wantExit(t, 2, reset("two\nlines\n", rootEmail, "--password-file", "-"), "one line")
	wantExit(t, 3, reset("brand-new-1", "unknown@localhost", "--password-file", "-"), "no user", "unknown@localhost")
	wantRefused(t, reset("short", rootEmail, "--password-file", "-"), "at least 8")
	if got := reset("brand-new-1\n", strings.ToUpper(rootEmail), "--password-file", "-"); got.code != 0 || got.stdout != "" {
		t.Fatalf("reset: %+v", got)
	}
	p = serve(t, dir, env)
	old.url = p.API
	if got := old.status(t, "GET", "/api/auth/me", nil); got != http.StatusUnauthorized {
		t.Errorf("with the old session: %d", got)
	}
	signIn(t, p, rootEmail, "brand-new-1")
	p.stop(t)

	damage(t, dir, "UPDATE users SET verified = 0")
	wantRefused(t, reset("", rootEmail, "--generate"), "--unblock")
	got := reset("", rootEmail, "--generate", "--unblock")
	if got.code != 0 || len(strings.TrimSpace(got.stdout)) != 20 {
		t.Fatalf("generated: %+v", got)
	}
	p = serve(t, dir, env)
	var page struct {
		Events []struct {
			Object string
			Kind   string `json:"actor_type"`
		}
	}
	signIn(t, p, rootEmail, strings.TrimSpace(got.stdout)).must(t, "GET", "/api/audit?operation=resetPassword", nil, &page)
	if len(page.Events) != 2 || page.Events[0].Object != rootEmail || page.Events[0].Kind != "command" {
		t.Errorf("the audit log has %+v", page.Events)
	}
	p.stop(t)
	if strings.Contains(read(t, filepath.Join(dir, "signalbox.db")), "brand-new-1") {
		t.Error("the password is in the database")
	}
}
