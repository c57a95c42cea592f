package systemtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLostHistoryBeginsAnew takes or spoils the metric history before the start, and while
// the service runs: it starts, is ready and continues.
func TestLostHistoryBeginsAnew(t *testing.T) {
	t.Parallel()
	remove := func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	for what, c := range map[string]struct {
		spoil func(t *testing.T, path string)
		aside bool // the file is kept
	}{
		"deleted":        {remove, false},
		"emptied":        {func(t *testing.T, path string) { write(t, path, "") }, false},
		"copied":         {func(t *testing.T, path string) { write(t, path, read(t, filepath.Join(used(t), "history.db"))) }, false},
		"not a database": {func(t *testing.T, path string) { write(t, path, strings.Repeat("text", 1000)) }, true},
		"newer":          {func(t *testing.T, path string) { raiseSchema(t, path) }, true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			dir := used(t)
			path := filepath.Join(dir, "history.db")
			c.spoil(t, path)
			p := serve(t, dir, configured(nil))
			_, err := os.Stat(path + ".unusable")
			if moved := err == nil; moved != c.aside || moved != strings.Contains(p.Stderr.String(), path+".unusable") {
				t.Errorf("moved aside: %v, want %v; the log has: %s", moved, c.aside, lastLines(p.Stderr.String()))
			}
			remove(t, path)
			r := root(t, p)
			r.must(t, "GET", r.at("/metrics/history"), nil, nil)
			if _, err := os.Stat(path); err != nil {
				t.Errorf("while the service runs: %v", err)
			}
			p.stop(t)
		})
	}
}
