package systemtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// bulkImport creates clients from standard input with one command, which is interrupted and repeated.
type bulkImport struct {
	t      *testing.T
	env    []string
	file   string
	result map[string]string // by name: what was reported last
}

func newBulkImport(t *testing.T, p *service, clients int) *bulkImport {
	t.Helper()
	dir := t.TempDir()
	b := &bulkImport{t: t, file: filepath.Join(dir, "clients.jsonl"), result: map[string]string{}}
	token, password := filepath.Join(dir, "token"), filepath.Join(dir, "password")
	write(t, password, rootPassword)
	b.env = append(configured(nil).environ(p.dir), "XDG_CONFIG_HOME="+dir)
	got := command(t, b.env, "user", "login", rootEmail, "--server", p.API, "--password-file", password, "--columns", "token", "--no-header")
	write(t, token, got.stdout)
	if got := command(t, b.env, "context", "add", "here", "--url", p.API, "--token-file", token, "--broker", "embedded"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	var list strings.Builder
	for i := range clients {
		fmt.Fprintf(&list, "{\"username\":\"c%06d\",\"textname\":\"Client %d\"}\n", i, i)
	}
	write(t, b.file, list.String())
	return b
}

// run runs the command until its end or, if after is not 0, until it has reported so many
// results of its own, and ends it with a signal then. It returns the exit code and what the
// command has written to standard error.
func (b *bulkImport) run(after int, with syscall.Signal, args ...string) (code int, errors string) {
	b.t.Helper()
	in, err := os.Open(b.file)
	if err != nil {
		b.t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // it was only read
	cmd := prepare(b.env, append([]string{"client", "create", "-f", "-", "-o", "jsonl", "--parallel", "16"}, args...)...)
	r, w := io.Pipe() // no file: each line is read as it is written
	var errs strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, w, &errs
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(r, func(n int) {
			if n == after {
				cmd.Process.Signal(with) //nolint:errcheck // the exit code shows whether it came
			}
		})
	}()
	_ = cmd.Wait() //nolint:errcheck // the exit code is what counts
	_ = w.Close()  //nolint:errcheck // it returns none
	<-read
	if strings.ContainsAny(errs.String(), "\r\x1b") {
		b.t.Errorf("standard error, which is no terminal, has a bar: %q", errs.String())
	}
	return cmd.ProcessState.ExitCode(), errs.String()
}

// read reads results, and reports the number of those that are new. What was created before must
// not be created again.
func (b *bulkImport) read(from io.Reader, each func(n int)) {
	n := 0
	for lines := bufio.NewScanner(from); lines.Scan(); {
		var r struct{ Name, Result string }
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // cut off by the end of the command
		}
		if was := b.result[r.Name]; r.Result == "failed" || was != "" && r.Result != "exists" {
			b.t.Errorf("%s: was reported as %q, then as %q", r.Name, was, r.Result)
		}
		if b.result[r.Name] == "" {
			n++
			each(n)
		}
		b.result[r.Name] = r.Result
	}
}

// TestCampaignBulkImport imports clients with the command line, through a pipe: the command is
// killed, interrupted and repeated, and each client is created once.
func TestCampaignBulkImport(t *testing.T) {
	n := suite.FromEnvironment(t, "SIGNALBOX_TEST_IMPORTED_CLIENTS", 100_000)
	p := serve(t, dataDir(t), configured(settings{"LOG_LEVEL": "warn"}))
	defer p.stop(t)
	b := newBulkImport(t, p, n)
	began := time.Now()
	random := suite.Rand(t)
	b.run(1+random.IntN(n/3), syscall.SIGKILL)
	if code, errs := b.run(1+random.IntN(n/3), syscall.SIGINT, "--skip-existing"); code != 130 || !strings.Contains(errs, "repeat the command with --skip-existing") {
		t.Errorf("interrupted: exit code %d, %s", code, errs)
	}
	t.Logf("%d of %d clients after the command was killed and interrupted", len(b.result), n)
	if code, errs := b.run(0, 0, "--skip-existing"); code != 0 || !strings.HasSuffix(errs, fmt.Sprintf("signalbox: %d done, 0 failed\n", n)) {
		t.Fatalf("resumed: exit code %d, %s", code, errs)
	}
	took := time.Since(began)
	began = time.Now()
	if code, _ := b.run(0, 0, "--skip-existing"); code != 0 || len(b.result) != n {
		t.Errorf("repeated: exit code %d, %d results", code, len(b.result))
	}
	t.Logf("%d clients in %v, %.0f a second; all skipped in %v", n, took.Round(time.Millisecond), float64(n)/took.Seconds(), time.Since(began).Round(time.Millisecond))
	b.wantAll(n)
}

// wantAll checks that the broker has each client once, beside that of the service.
func (b *bulkImport) wantAll(n int) {
	b.t.Helper()
	got := command(b.t, b.env, "client", "list", "--all", "-o", "name")
	names := strings.Fields(got.stdout)
	seen := map[string]bool{}
	for _, name := range names {
		seen[name] = true
	}
	for name := range b.result {
		if !seen[name] {
			b.t.Errorf("%s was created, and does not exist", name)
		}
	}
	if len(names) != n+1 || len(seen) != n+1 {
		b.t.Errorf("%d clients, %d different ones, want %d", len(names), len(seen), n+1)
	}
}
