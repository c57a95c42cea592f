package flood

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"signalbox/scripts/process"
)

// The credentials of the service under test.
const (
	adminName     = "admin"
	adminPassword = "staple for brokers"
	scrapeToken   = "token of the scraper"
)

// server is a running service.
type server struct{ *process.Service }

// configure writes a configuration file, with what the test sets below broker.
func configure(t *testing.T, broker string) (path string) {
	t.Helper()
	dir := t.TempDir()
	text := fmt.Sprintf("data_dir: %s\nhttp: {listen: 127.0.0.1:0, metrics_token: %s}\n"+
		"admin: {password: correct horse battery}\nlog: {level: warn}\nbroker:\n  listen: 127.0.0.1:0\n  admin_password: %s\n"+
		"  password_iterations: 1000\n%s", filepath.Join(dir, "data"), scrapeToken, adminPassword, broker)
	path = filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// serve starts the program and waits until it is ready.
func serve(t *testing.T, config string) *server {
	t.Helper()
	cmd := exec.Command(process.Program, "serve", "--config", config)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	s, err := process.Serve(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if err := s.Panic(); err != nil {
			t.Error(err)
		}
	})
	if err := s.AwaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &server{s}
}

// metric returns one of the metrics of the service, 0 if it is absent.
func (s *server) metric(ctx context.Context, name string) (float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.API+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+scrapeToken)
	r.Close = true // so that no idle connection counts as left over
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	if res.StatusCode != http.StatusOK {
		return 0, errors.New(res.Status)
	}
	return 0, nil
}

// memory returns a line of the kernel's status of the process, in bytes: VmRSS is
// what is resident, VmHWM its peak.
func (s *server) memory(t *testing.T, what string) float64 {
	t.Helper()
	path := fmt.Sprintf("/proc/%d/status", s.Pid())
	status, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == what+":" {
			n, err := strconv.ParseFloat(fields[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			return n * 1024
		}
	}
	t.Fatalf("%s has no %s", path, what)
	return 0
}

// mib formats bytes.
func mib(bytes float64) string { return fmt.Sprintf("%.1f MiB", bytes/(1<<20)) }
