package appliance

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/router/appliance/backup"
)

var errStep = errors.New("the step failed")

// TestRestoreFailsAtEachStep fails a restore at each of its steps: the previous data is
// under its name again. A restore that ends without that, as when its process is killed,
// leaves the previous or the restored data there, or a message.
func TestRestoreFailsAtEachStep(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	c.DataDir = filepath.Join(t.TempDir(), "data")
	c.HTTP.Listen, c.Broker.Listen = "127.0.0.1:0", "127.0.0.1:0"
	a, err := Start(t.Context(), c, Program{Version: "test"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup")
	_, err = Backup(t.Context(), c, file, backup.Options{Version: "test"})
	if err := errors.Join(err, a.Stop()); err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(c.DataDir, "certs", "previous")
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"extract", "name the complete directory", "move the previous directory", "move the restored directory"} {
		t.Run(name, func(t *testing.T) { failAt(t, c, file, name, mark) })
		t.Run("killed: "+name, func(t *testing.T) { killAt(t, c, file, name, mark) })
	}
	if _, err := Restore(context.Background(), c, file, backup.Identities{}, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Errorf("the previous data was not replaced: %v", err)
	}
}

func failAt(t *testing.T, c Config, file, name, mark string) {
	r := newRestore(c, file, backup.Identities{}, RestoreOptions{})
	r.step = func(step string) error {
		if step == name {
			return errStep
		}
		return nil
	}
	if _, err := r.run(t.Context()); !errors.Is(err, errStep) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Stat(mark); err != nil {
		t.Error("the previous data is not in its place:", err)
	}
	if left, _ := filepath.Glob(c.DataDir + ".*"); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// killAt leaves the directories as they are when the process is killed before a step.
func killAt(t *testing.T, c Config, file, name, mark string) {
	r := newRestore(c, file, backup.Identities{}, RestoreOptions{})
	defer func() {
		if recover() == nil {
			t.Fatal("the step was not reached")
		}
		_, err := os.Stat(mark)
		if name != "move the restored directory" {
			if err != nil {
				t.Error("the previous data is not in its place:", err)
			}
		} else {
			_, err = lockData(c.DataDir)
			if err == nil || !strings.Contains(err.Error(), r.beside(restoredMark)) || !strings.Contains(err.Error(), r.beside(previousMark)) {
				t.Errorf("the next start: %v", err)
			}
			if err := os.Rename(r.beside(previousMark), c.DataDir); err != nil {
				t.Error(err)
			}
		}
		for _, mark := range []string{partialMark, restoredMark} {
			if err := os.RemoveAll(r.beside(mark)); err != nil {
				t.Error(err)
			}
		}
	}()
	r.step = func(step string) error {
		if step == name {
			panic("killed")
		}
		return nil
	}
	_, err := r.run(t.Context())
	t.Errorf("the restore ended: %v", err)
}
