package systemtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// dataDir returns the path of a data directory that does not exist yet.
func dataDir(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "data")
}

// read returns the content of a file.
func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// write creates a file that only its owner can read.
func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mode(t testing.TB, path string) fs.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// snapshot returns every file below a directory with its mode and a checksum of its
// content; the directory itself need not exist. The lock is omitted: it is empty.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Base(path) == "signalbox.lock" {
			return err
		}
		what := mode(t, path).String()
		if d.Type().IsRegular() {
			what += fmt.Sprintf(" %x", sha256.Sum256([]byte(read(t, path))))
		}
		files[path] = what
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		t.Fatal(err)
	}
	return files
}

// stored is a snapshot without the files that SQLite creates next to one that it only
// reads: the index, and an empty log.
func stored(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := snapshot(t, dir)
	maps.DeleteFunc(files, func(path, _ string) bool {
		if strings.HasSuffix(path, "-shm") {
			return true
		}
		return strings.HasSuffix(path, "-wal") && read(t, path) == ""
	})
	return files
}

// holders lists the files below a directory that contain a text.
func holders(t testing.TB, dir, text string) (names []string) {
	t.Helper()
	for path, what := range snapshot(t, dir) {
		if strings.HasPrefix(what, "-") && strings.Contains(read(t, path), text) {
			names = append(names, filepath.Base(path))
		}
	}
	return names
}
