package systemtest

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	p := serve(t, dataDir(t), configured(nil))
	env := settings{"HTTP_LISTEN": strings.TrimPrefix(p.url, "http://")}.environ(p.dir)
	if got := command(t, env, "healthcheck"); got.code != 0 || got.stderr != "" {
		t.Errorf("of a service that runs: %+v", got)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := (&caller{url: p.url, client: newClient(t)}).status(t, "GET", path, nil); got != 200 {
			t.Errorf("%s: got %d without log-in, want 200", path, got)
		}
	}
	p.stop(t)
	wantRefused(t, command(t, env, "healthcheck"), "refused")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	got := command(t, nil, "version")
	if fields := strings.Fields(got.stdout); got.code != 0 || got.stderr != "" || len(fields) < 2 || fields[0] != "signalbox" {
		t.Errorf("got %+v", got)
	}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	if got := command(t, configured(nil).environ(dir), "config", "check"); got.code != 0 || got.stderr != "" {
		t.Errorf("a good one: %+v", got)
	}
	config := filepath.Join(t.TempDir(), "config.yaml")
	write(t, config, "http:\n  lissten: 127.0.0.1:1\n")
	wantRefused(t, command(t, nil, "config", "check", "--config", config), "http.lissten")
	wantRefused(t, command(t, nil, "config", "check", "--config", config+".none"), config+".none")
	wantRefused(t, command(t, settings{"BROKER_ENABLED": "maybe"}.environ(dir), "config", "check"), "SIGNALBOX_BROKER_ENABLED")
	if got := snapshot(t, dir); len(got) != 0 {
		t.Errorf("the data directory was made: %v", got)
	}
}

func TestUnknownCommandIsRefused(t *testing.T) {
	t.Parallel()
	wantRefused(t, command(t, nil, "frobnicate"), "frobnicate")
	wantRefused(t, command(t, nil, "serve", "now"), "now")
	wantRefused(t, command(t, nil, "serve", "--http.lissten", "x"), "http.lissten")
}
