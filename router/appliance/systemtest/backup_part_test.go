package systemtest

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRestoreOfParts changes everything after a backup, and restores one part after the other: each
// is as it was, and the others, with the messages of the broker, are not touched.
func TestRestoreOfParts(t *testing.T) {
	t.Parallel()
	dir, env, file := dataDir(t), configured(nil), filepath.Join(t.TempDir(), "backup")
	p := serve(t, dir, env)
	r := root(t, p)
	create := func(name string) {
		r.must(t, "POST", r.at("/clients"), object{"username": name, "password": "secret"}, nil)
		r.must(t, "POST", r.at("/streams"), object{"streamname": name, "sourceTopic": name + "/#", "targetTopic": "b"}, nil)
		r.must(t, "POST", "/api/users", object{"firstname": "A", "lastname": "B", "email": name + "@example.com", "password": "engine no. 1"}, nil)
		r.must(t, "POST", r.at("/messages"), object{"topic": "kept/" + name, "payload": "1", "qos": 1, "retain": true}, nil)
	}
	create("before")
	if got := command(t, env.environ(dir), "backup", "create", file); got.code != 0 {
		t.Fatalf("create: %+v", got)
	}
	create("later")
	r.must(t, "DELETE", r.at("/clients?username=before"), nil, nil)
	r.must(t, "DELETE", r.at("/streams?streamname=before"), nil, nil)
	p.stop(t)
	wantExit(t, 2, command(t, env.environ(dir), "restore", "--only", "broker", file), "access, streams, platform")
	if got := command(t, env.environ(dir), "restore", "--only", "access", "--dry-run", file); got.code != 0 || !strings.Contains(got.stdout, "would restore access of") {
		t.Errorf("dry run: %+v", got)
	}
	p = wantParts(t, dir, env, "admin later", "later", true)
	restorePart(t, p, dir, env, "access", file)
	p = wantParts(t, dir, env, "admin before", "later", true)
	restorePart(t, p, dir, env, "streams", file)
	p = wantParts(t, dir, env, "admin before", "before", true)
	restorePart(t, p, dir, env, "platform", file)
	wantParts(t, dir, env, "admin before", "before", false).stop(t)
	if kept, err := filepath.Glob(dir + ".before-restore-*/*"); err != nil || len(kept) != 3 {
		t.Errorf("previous parts: %q, %v", kept, err)
	}
}

func restorePart(t *testing.T, p *service, dir string, env settings, part, file string) {
	t.Helper()
	p.stop(t)
	got := command(t, env.environ(dir), "restore", "--only", part, file)
	if got.code != 0 || !strings.Contains(got.stdout, "restored "+part+" of "+dir) {
		t.Fatalf("restore --only %s: %+v", part, got)
	}
}

// wantParts starts the service and checks clients, streams, whether the later user exists, and that
// no retained message was lost.
func wantParts(t *testing.T, dir string, env settings, clients, streams string, laterUser bool) *service {
	t.Helper()
	p := serve(t, dir, env)
	r := root(t, p)
	if got := strings.Join(r.names(t, "clients"), " "); got != clients {
		t.Errorf("clients %q, want %q", got, clients)
	}
	if got := strings.Join(r.names(t, "streams"), " "); got != streams {
		t.Errorf("streams %q, want %q", got, streams)
	}
	if got := strings.Contains(r.text(t, "/api/users"), "later@example.com"); got != laterUser {
		t.Errorf("the later user exists: %t, want %t", got, laterUser)
	}
	var retained []struct{ Topic string }
	r.must(t, "GET", r.at("/messages/retained?filter=kept/%23"), nil, &retained)
	if len(retained) != 2 || !slices.ContainsFunc(retained, func(m struct{ Topic string }) bool { return m.Topic == "kept/later" }) {
		t.Errorf("retained messages: %v", retained)
	}
	return p
}
