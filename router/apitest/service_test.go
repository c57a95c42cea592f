package apitest_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/handlers"
	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// TestSystem reads what is known about the process. Only root administrators may.
func TestSystem(t *testing.T) {
	t.Parallel()
	dir, before := t.TempDir(), time.Now()
	a := apitest.New(t, apitest.In(dir))
	var got handlers.SystemRecord
	a.Root.Get("/api/system").Want(200).Decode(&got)
	if got.Version != "test" || got.PID != os.Getpid() || got.Platform != runtime.GOOS+"/"+runtime.GOARCH || got.DataDir != dir || got.Install != "program" || got.Upgrade != nil ||
		got.Started.Before(before) || !slices.Contains(got.Addresses, a.URL) || got.Processors < 1 {
		t.Errorf("got %+v", got)
	}
	var names []string
	for _, p := range got.Parts {
		names = append(names, p.Name)
		if !p.Ready || p.Problem != "" {
			t.Errorf("part %+v", p)
		}
	}
	slices.Sort(names)
	if want := []string{"bridges", "broker", "database", "files", "streams"}; !slices.Equal(names, want) {
		t.Errorf("parts %q", names)
	}
	for _, name := range []string{"signalbox.db", "streams.db", "bridges.db", "broker.db", "history.db"} {
		i := slices.IndexFunc(got.Databases, func(d handlers.SystemDatabase) bool { return d.Name == name })
		if i < 0 {
			t.Errorf("%s is missing in %+v", name, got.Databases)
		} else if d := got.Databases[i]; d.Size == 0 || d.Schema == 0 {
			t.Errorf("%+v", d)
		}
	}
	upgraded := `{"state":"installed","time":"2026-01-31T03:00:00Z","from":{"version":{"name":"v1","date":"2026-01-01T00:00:00Z"}},"to":{"version":{"name":"v2","date":"2026-01-30T00:00:00Z"}}}`
	if err := os.WriteFile(filepath.Join(dir, "upgrade.json"), []byte(upgraded), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Root.Get("/api/system").Want(200).Decode(&got)
	if u := got.Upgrade; u == nil || u.State != "installed" || !strings.HasPrefix(u.From, "v1 ") || !strings.HasPrefix(u.To, "v2 ") {
		t.Errorf("last upgrade: %+v", u)
	}
	for _, path := range []string{"/api/system", "/api/log", "/api/system/support-bundle"} {
		a.Token("admin").Get(path).WantError(403, "FORBIDDEN")
	}
}

// TestLog reads the last lines of the log, from a service that logs to standard error.
func TestLog(t *testing.T) {
	t.Parallel()
	a := apitest.NewLogged(t, slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})))
	lines := func(query string) (all []handlers.LogLine) {
		t.Helper()
		a.Root.Get("/api/log" + query).Want(200).Decode(&all)
		return all
	}
	all := lines("?count=1000")
	if len(all) < 3 {
		t.Fatalf("got %+v", all)
	}
	for i, l := range all {
		if l.Message == "" || l.Level == "" || l.Time.IsZero() || i > 0 && l.Time.Before(all[i-1].Time) {
			t.Errorf("line %d: %+v", i, l)
		}
	}
	if last := lines("?count=1&level=info"); len(last) != 1 || last[0].Level != "info" {
		t.Errorf("got %+v", last)
	}
	if got := lines("?level=error"); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	for _, query := range []string{"?count=0", "?count=1001", "?level=loud"} {
		a.Root.Get("/api/log"+query).WantError(400, "INVALID_REQUEST")
	}
}

// TestSupportBundle downloads a bundle while the service runs, of which the download is in the
// audit log.
func TestSupportBundle(t *testing.T) {
	t.Parallel()
	const secret = "never-in-a-bundle-2746"
	a := apitest.NewLogged(t, slog.New(slog.NewTextHandler(t.Output(), nil)), func(c *appliance.Config) { c.HTTP.MetricsToken = secret })
	a.Root.Post(a.At("/clients"), object{"username": "pump-seven", "password": secret}).Want(204)
	got := a.Root.Get("/api/system/support-bundle?hide_names=true&offline=true").Want(200)
	files := filesOf(t, got.Body)
	for name, part := range map[string]string{"doctor.txt": "is ready", "configuration.yaml": "metrics_token: '***'", "log.txt": "level=INFO", "metrics.txt": "signalbox_info", "goroutines.txt": "(...)",
		"versions.txt": "signalbox test", "files.txt": "signalbox.db", "service.json": `"pid"`} {
		if !strings.Contains(files[name], part) {
			t.Errorf("%s has no %q: %.2000s", name, part, files[name])
		}
	}
	for name, text := range files {
		if strings.Contains(text, secret) || strings.Contains(text, "pump-seven") {
			t.Errorf("%s has a secret or a name", name)
		}
	}
	if rows := auditOf(t, a.Root, "/api/audit", "operation=getSupportBundle"); len(rows) != 1 || rows[0].Outcome != "done" {
		t.Errorf("audit: %+v", rows)
	}
	if disposition := got.Header.Get("Content-Disposition"); !strings.HasPrefix(disposition, "attachment; filename=signalbox-support-") || !strings.HasSuffix(disposition, ".tar.gz") {
		t.Errorf("disposition %q", disposition)
	}
	a.Root.Post(a.At("/clients"), object{"username": "after", "password": "the databases are as they were"}).Want(204)
}

// filesOf returns the files of a compressed archive.
func filesOf(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	packed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for in := tar.NewReader(packed); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(header.Name)] = string(text)
	}
}
