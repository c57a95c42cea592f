package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"signalbox/router/cli"
	"signalbox/scripts/suite"
)

// TestPubAndTail publishes from the argument, a file and the lines of standard input, and
// prints what was published.
func TestPubAndTail(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	u.done("pub", "plant/1", "4.2", "--retain", "--qos", "1")
	u.done("pub", "plant/2", "-f", u.file("binary", "\xff\x00\x1b"), "--retain")
	u.stdin = strings.NewReader("first\n\x1b[2Jlast")
	u.done("pub", "plant/3", "--lines", "--retain")
	u.stdin = nil
	if got, want := u.done("tail", "plant/#", "--retained", "--count", "3"), "plant/1  4.2\nplant/2  0xff001b\nplant/3  \\x1b[2Jlast\n"; got != want {
		t.Errorf("text: got %q, want %q", got, want)
	}
	if got := u.done("sub", "plant/1", "--retained", "--count", "1", "-o", "jsonl"); !strings.HasPrefix(got, `{"topic":"plant/1","payload":"4.2"`) {
		t.Errorf("jsonl: %s", got)
	}
	if got := u.run("tail", "nothing/#", "--timeout", "100ms"); got.code != 0 || got.out != "" {
		t.Errorf("for a time: %+v", got)
	}
	u.refused(7, "deadline", "tail", "nothing/#", "--timeout", "100ms", "--count", "1")
	u.refused(2, "must be one of text", "tail", "a", "-o", "xml")
	u.refused(2, "expects FILTER", "tail")
	u.refused(2, "exclude each other", "pub", "a", "b", "--lines")
	u.refused(2, "INVALID_REQUEST", "pub", "a/#", "b")
	got := make(chan finished, 1)
	go func() { got <- u.run("tail", "live/#", "--count", "1") }()
	var live finished
	suite.WaitFor(t, "a message is printed", func() bool {
		u.done("message", "publish", "live/1", "--payload", "now")
		select {
		case live = <-got:
			return true
		default:
			return false
		}
	})
	if live.code != 0 || live.out != "live/1  now\n" {
		t.Errorf("live: %+v", live)
	}
}

// TestTop prints one page where there is no terminal.
func TestTop(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	if got := u.done("top"); !strings.HasPrefix(got, "CLIENTID") || strings.Contains(got, "\x1b") {
		t.Errorf("table: %q", got)
	}
	if got := u.done("top", "-o", "json", "--by", "subscriptions"); !strings.HasPrefix(got, `{"by":"subscriptions"`) {
		t.Errorf("json: %s", got)
	}
	u.refused(2, "must be one of queue", "top", "--by", "age")
	u.refused(2, "at least a second", "top", "--interval", "1ms")
	u.refused(2, "INVALID_REQUEST", "top", "--count", "101")
}

// TestTopAtTerminal prints pages at a terminal until it is interrupted.
func TestTopAtTerminal(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	env := clientEnv(u.env, strings.NewReader(""))
	env.Terminal = func(any) bool { return true }
	root := &cobra.Command{Use: "signalbox", SilenceErrors: true, SilenceUsage: true}
	if err := cli.AddTo(root, env); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	root.SetArgs([]string{"top", "--interval", "1s"})
	root.SetOut(w)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx); w.Close() }()
	part := make([]byte, 1<<16)
	for page := range 2 {
		n, err := r.Read(part)
		if text := string(part[:n]); err != nil || !strings.HasPrefix(text, "\x1b[H\x1b[2J") || !strings.Contains(text, "CLIENTID") {
			t.Errorf("page %d: %q, %v", page, text, err)
		}
	}
	interrupt()
	go io.Copy(io.Discard, r) //nolint:errcheck // until the command ends
	if err := <-ended; cli.ExitCode(err) != cli.CodeInterrupted {
		t.Errorf("interrupted: %v", err)
	}
}

// TestCompletionOfPlaces completes the names of brokers and projects.
func TestCompletionOfPlaces(t *testing.T) {
	t.Parallel()
	u := newTerminal(t)
	for _, args := range [][]string{{"tail", "a", "--broker", "emb"}, {"check", "queues", "--project", "default", "--broker", ""}} {
		if got := u.completed(false, args...); !strings.HasPrefix(got, "embedded\n") {
			t.Errorf("%v: %q", args, got)
		}
	}
}
