package systemtest

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	address := settings{"HTTP_LISTEN": ownAddress(t)}
	p := serve(t, dataDir(t), configured(address))
	env := address.environ(p.dir)
	if got := command(t, env, "healthcheck"); got.code != 0 || got.stderr != "" {
		t.Errorf("of a service that runs: %+v", got)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := (&caller{url: p.API, client: newClient(t)}).status(t, "GET", path, nil); got != 200 {
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
	if flag := command(t, nil, "--version"); flag != got {
		t.Errorf("--version: got %+v, want %+v", flag, got)
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

// TestUnknownCommandIsRefused runs invalid command lines.
func TestUnknownCommandIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		hint string
	}{
		{[]string{"frobnicate"}, "frobnicate"}, {[]string{"serve", "now"}, "now"}, {[]string{"serve", "--http.lissten", "x"}, "http.lissten"},
		{[]string{"import", "foo"}, "foo"}, {[]string{"import", "foo", "file"}, "foo"}, {[]string{"config", "foo"}, "foo"},
		{[]string{"export", "foo"}, "foo"}, {[]string{"data", "foo"}, "foo"}, {[]string{"secret", "foo"}, "foo"},
		{[]string{"help", "nothing"}, "nothing"}, {[]string{"help", "import", "nothing"}, "nothing"},
		{[]string{"import", "passwd"}, "passwd"}, {[]string{"data", "forget"}, "forget"},
	} {
		got := command(t, nil, tc.args...)
		if got.code != 2 || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.HasPrefix(got.stderr, "signalbox: ") || !strings.Contains(got.stderr, tc.hint) {
			t.Errorf("%v: got %+v, want exit code 2 and one sentence with %q", tc.args, got, tc.hint)
		}
	}
}

// TestHelpTopics prints pages of the manual, and lists them with the commands.
func TestHelpTopics(t *testing.T) {
	t.Parallel()
	if got := command(t, nil, "help"); got.code != 0 || !strings.Contains(got.stdout, "\n  streams ") || !strings.Contains(got.stdout, "\n  serve ") {
		t.Errorf("help: %+v", got)
	}
	if got := command(t, nil, "help", "streams"); got.code != 0 || !strings.HasPrefix(got.stdout, "# Streams\n") {
		t.Errorf("help streams: %+v", got)
	}
	if got := command(t, nil, "help", "configuration"); got.code != 0 || !strings.Contains(got.stdout, "\ndata_dir: ./data\n") {
		t.Errorf("help configuration: %+v", got)
	}
}

// TestHelp shows the flags of the service in the help of serve, and in no other; the
// commands for this machine show the flag of the configuration file.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"import"}, {"help", "import", "passwd"}, {"healthcheck", "--help"}, {"data"}} {
		if got := command(t, nil, args...); got.code != 0 || strings.Contains(got.stdout, "--http.listen") || !strings.Contains(got.stdout, "--config") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for _, args := range [][]string{{}, {"help"}, {"--help"}, {"client"}, {"client", "create", "--help"}} {
		if got := command(t, nil, args...); got.code != 0 || strings.Contains(got.stdout, "--http.listen") || strings.Contains(got.stdout, "--config") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	for _, args := range [][]string{{"help", "serve"}, {"serve", "--help"}} {
		got := command(t, nil, args...)
		for _, line := range []string{
			"\nhttp:\n", "\nbroker:\n",
			"\n  --http.listen string  Address of the API and its reference; port 0 takes any free one (default 127.0.0.1:8080)\n",
			"\n  --broker.max_queued_bytes int  What may wait for one client: messages, and bytes of their topics, payloads and properties (default 67108864)\n",
			"\n  --http.read_timeout duration  How long a request may take to come in (default 1m)\n",
			"\n  --broker.enabled bool  False runs the service without a broker of its own (default true)\n",
		} {
			if got.code != 0 || !strings.Contains(got.stdout, line) {
				t.Errorf("%v: %q is not in:\n%s%s", args, line, got.stdout, got.stderr)
			}
		}
		if strings.Contains(got.stdout, "admin_password") {
			t.Error("a secret is a flag")
		}
	}
}

// TestInterruptedCommand interrupts a command that prints a stream of the API.
func TestInterruptedCommand(t *testing.T) {
	t.Parallel()
	p := serve(t, dataDir(t), configured(nil))
	cmd := prepare([]string{"SIGNALBOX_URL=" + p.API, "SIGNALBOX_TOKEN=" + root(t, p).token}, "broker", "events", "embedded", "-o", "jsonl")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(suite.HangLimit, func() { cmd.Process.Kill() }) //nolint:errcheck // it may have ended
	defer late.Stop()
	in := bufio.NewReader(out)
	if first, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(first, "{") {
		t.Errorf("the first event is %q, %v", first, err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("got %v, want exit code 130", err)
	}
}
