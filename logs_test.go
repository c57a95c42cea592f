package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/router/appliance"
	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// TestLogs follows a log over rotations: of one file and of several at once, and over its renaming and
// truncation by another program. Each line is printed once, in order.
func TestLogs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "service.log")
	l, err := appliance.OpenLog(appliance.LogConfig{File: path, MaxSize: 1000, MaxFiles: 9, Level: "debug", Format: "json"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() }) //nolint:errcheck // of a test
	written := 0
	write := func(lines int) {
		for range lines {
			written++
			l.Logger.Warn(fmt.Sprintf("line %d.", written))
			l.Logger.Info("not printed")
		}
	}
	write(3)
	ctx, interrupt := context.WithCancel(t.Context())
	var out, errs process.Output
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"logs", "-f", "--level", "warn", "--lines", "2", "--log.file", path, "--log.max_files", "9"}, nil, strings.NewReader(""), &out, &errs)
	}()
	printed := func() {
		t.Helper()
		suite.WaitFor(t, "all lines are printed", func() bool { return strings.Contains(out.String(), fmt.Sprintf("line %d.", written)) })
	}
	for _, lines := range []int{1, 10, 40, 1} { // 40 fill six files
		printed()
		write(lines)
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	write(1)
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	write(5)
	printed()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	write(1)
	printed()
	interrupt()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, line := range got {
		if !strings.Contains(line, fmt.Sprintf("line %d.", i+2)) {
			t.Fatalf("line %d is %q", i+2, line)
		}
	}
	if len(got) != written-1 {
		t.Errorf("%d lines were printed of %d", len(got), written-1)
	}
}

// TestLogs_refuses names what is wrong.
func TestLogs_refuses(t *testing.T) {
	t.Parallel()
	u := &terminal{t: t, dir: t.TempDir()}
	u.refused(1, "log.file is not set", "logs")
	u.refused(1, "name the configuration", "logs", "--log.file", filepath.Join(u.dir, "none"))
	u.refused(2, "--level: must be", "logs", "--log.file", u.file("log", ""), "--level", "loud")
	u.refused(2, "--lines: must be", "logs", "--log.file", u.file("log", ""), "--lines", "-1")
}
