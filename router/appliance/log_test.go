package appliance

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func openTestLog(t *testing.T, maxSize int64, maxFiles int) (l *Log, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "log")
	l, err := OpenLog(LogConfig{File: path, MaxSize: maxSize, MaxFiles: maxFiles, Level: "info", Format: "text"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, path
}

func readLog(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestLogRotates writes more than fits: the newest lines are in the files that are kept, none of
// which is too large, and no line is cut.
func TestLogRotates(t *testing.T) {
	t.Parallel()
	const lines, size = 100, 500
	l, path := openTestLog(t, size, 3)
	for n := range lines {
		l.Logger.Info(fmt.Sprintf("line-%03d", n))
	}
	all, err := filepath.Glob(path + "*")
	if err != nil || len(all) != 3 {
		t.Fatalf("got %q, %v, want 3 files", all, err)
	}
	text := readLog(t, path+".2") + readLog(t, path+".1") + readLog(t, path)
	for _, file := range all {
		info, err := os.Stat(file)
		if err != nil || info.Size() > size || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	kept := strings.Count(text, "\n")
	for n := lines - kept; n < lines; n++ {
		line, rest, _ := strings.Cut(text, "\n")
		if text = rest; !strings.HasSuffix(line, fmt.Sprintf("msg=line-%03d", n)) {
			t.Fatalf("got %q, want line %d", line, n)
		}
	}
	if kept < 10 {
		t.Errorf("only %d lines were kept", kept)
	}
}

// TestLogContinues begins with a file that is full, with one file only, and when the file was renamed
// by another program.
func TestLogContinues(t *testing.T) {
	t.Parallel()
	l, path := openTestLog(t, 100, 1)
	l.Logger.Info("first" + strings.Repeat("x", 200))
	l.Logger.Info("second")
	if text := readLog(t, path); strings.Contains(text, "first") || !strings.Contains(text, "second") {
		t.Errorf("got %q", text)
	}
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	l.Logger.Info("third")
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Logger.Info("fourth")
	if text := readLog(t, path); !strings.Contains(text, "fourth") {
		t.Errorf("got %q", text)
	}
}

// TestLogWithoutRotation keeps on writing where no file can be renamed, and at any size.
func TestLogWithoutRotation(t *testing.T) {
	t.Parallel()
	l, path := openTestLog(t, 100, 2)
	if err := os.MkdirAll(filepath.Join(path+".1", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		l.Logger.Info("line")
	}
	unlimited, other := openTestLog(t, 0, 2)
	for range 50 {
		unlimited.Logger.Info("line")
	}
	for _, file := range []string{path, other} {
		if n := strings.Count(readLog(t, file), "\n"); n != 50 {
			t.Errorf("%s has %d lines, want 50", file, n)
		}
	}
}
