package db

import (
	"io/fs"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/storage"
)

// upTo returns the released migrations up to a version.
func upTo(t *testing.T, version string) fs.FS {
	t.Helper()
	steps := fstest.MapFS{}
	names, err := fs.Glob(released(), "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if n[:4] > version {
			continue
		}
		data, err := fs.ReadFile(released(), n)
		if err != nil {
			t.Fatal(err)
		}
		steps[n] = &fstest.MapFile{Data: data}
	}
	return steps
}

// TestOldTokensGetOwners opens a database in which tokens know their makers by name
// only, members have no time (an owner is one since the project was created), and sessions no
// address: they stay valid.
func TestOldTokensGetOwners(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signalbox.db")
	old, err := storage.OpenWriter(t.Context(), path, layout(upTo(t, "0003")), forWriter, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	const fill = `
		INSERT INTO users (id, email, email_key, first_name, last_name, password_hash, sso_type, verified, root, created_at, updated_at) VALUES
			('owner', 'o@x', 'o@x', 'Olga', 'Owner', '', '', 1, 0, 1, 1),
			('ada',   'a@x', 'a@x', 'Ada',  '',      '', '', 1, 0, 1, 1),
			('mail',  'm@x', 'm@x', '',     '',      '', '', 1, 0, 1, 1),
			('root',  'r@x', 'r@x', 'Root', '',      '', '', 1, 1, 1, 1),
			('twin1', '1@x', '1@x', 'Twin', '',      '', '', 1, 0, 1, 1),
			('twin2', '2@x', '2@x', 'Twin', '',      '', '', 1, 0, 1, 1),
			('left',  'l@x', 'l@x', 'Left', '',      '', '', 1, 0, 1, 1);
		INSERT INTO projects (id, name, description, owner_id, organization_id, created_at, updated_at) VALUES ('p', 'p', '', 'owner', '', 1, 1);
		INSERT INTO members (project_id, user_id, role) VALUES ('p', 'owner', 'admin'), ('p', 'ada', 'editor'), ('p', 'mail', 'admin'), ('p', 'twin1', 'admin');
		INSERT INTO tokens (id, project_id, issuer, name, hash, role, type, issued_at, valid_until, last_used_at) VALUES
			('1', 'p', 'Ada',     'ci',      'h1', 'admin',  'unrestricted', 1, 0, 0),
			('2', 'p', 'm@x',     'by mail', 'h2', 'viewer', 'unrestricted', 2, 0, 0),
			('3', 'p', 'Root',    'by root', 'h3', 'editor', 'unrestricted', 3, 0, 0),
			('4', 'p', 'Twin',    'twin',    'h4', 'admin',  'unrestricted', 4, 0, 0),
			('5', 'p', 'Left',    'left',    'h5', 'admin',  'unrestricted', 5, 0, 0),
			('6', 'p', 'Renamed', 'renamed', 'h6', 'admin',  'unrestricted', 6, 0, 0),
			('7', 'p', 'ci',      'second',  'h7', 'admin',  'unrestricted', 7, 0, 0),
			('8', 'p', 'second',  'third',   'h8', 'viewer', 'unrestricted', 8, 0, 0),
			('9', 'p', 'left',    'of left', 'h9', 'viewer', 'unrestricted', 9, 0, 0);
		INSERT INTO sessions (hash, user_id, created_at, expires_at) VALUES ('s', 'ada', 1, 9);`
	if _, err := old.ExecContext(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	d := reopen(t, path, released())
	members, err := d.ListMembers(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		want := time.Time{}
		if m.UserID == "owner" {
			want = time.UnixMilli(1).UTC()
		}
		if m.AddedAt != want {
			t.Errorf("%s was added at %v, want %v", m.UserID, m.AddedAt, want)
		}
	}
	sessions, err := d.SessionsOf(t.Context(), "ada", time.UnixMilli(8))
	if diff := cmp.Diff([]Session{{Hash: "s", UserID: "ada", CreatedAt: time.UnixMilli(1).UTC(), ExpiresAt: time.UnixMilli(9).UTC()}}, sessions); diff != "" || err != nil {
		t.Errorf("old sessions (-want +got):\n%s%v", diff, err)
	}
	all, err := d.ListTokens(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	type owned struct{ Owner, Parent, Role string }
	got := map[string]owned{}
	for _, token := range all {
		got[token.Name] = owned{token.OwnerID, token.ParentID, token.OwnerRole}
	}
	want := map[string]owned{
		"ci":      {"ada", "", "editor"},
		"by mail": {"mail", "", "admin"},
		"by root": {"root", "", "admin"},
		"twin":    {"twin1", "", "admin"}, // the one that is a member
		"left":    {"left", "", ""},       // opens nothing until an administrator takes it
		"renamed": {"owner", "", "admin"},
		"second":  {"ada", "1", "editor"},
		"third":   {"ada", "7", "editor"},
		"of left": {"left", "5", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("owners of old tokens (-want +got):\n%s", diff)
	}
}
