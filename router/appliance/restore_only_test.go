package appliance

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/broker/storage"
	"signalbox/router/appliance/backup"
)

// stoppedService returns the configuration of a service that has run, and a backup of it.
func stoppedService(t *testing.T) (c Config, file string) {
	t.Helper()
	c = DefaultConfig()
	c.DataDir = filepath.Join(t.TempDir(), "data")
	c.HTTP.Listen, c.Broker.Listen = "127.0.0.1:0", "127.0.0.1:0"
	a, err := Start(t.Context(), c, Program{Version: "test"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	id, err := storage.Scan(t.Context(), filepath.Join(c.DataDir, databaseFile), `SELECT id FROM brokers`)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, filepath.Join(c.DataDir, streamsFile), strings.Replace(insertStream, "BROKER", id, 1))
	file = filepath.Join(t.TempDir(), "backup")
	if _, err = Backup(t.Context(), c, file, backup.Options{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return c, file
}

const insertStream = `INSERT INTO stream (broker_id, streamname, sourcetopic, targettopic, targetqos, ttl, active, process, persist, key, textname, textdescription, query)
	VALUES ('BROKER', 's', 'a', 'b', 0, 0, 0, 0, 0, '', '', '', '')`

// TestRestoreRefusesContradictions restores parts that would not fit the rest of the data
// directory. Each is refused, and nothing is changed.
func TestRestoreRefusesContradictions(t *testing.T) {
	t.Parallel()
	c, file := stoppedService(t)
	in := func(name string) string { return filepath.Join(c.DataDir, name) }
	for name, refusal := range map[string]struct {
		only   string
		change func(t *testing.T)
		want   string
	}{
		"streams_of_another_directory": {OnlyStreams, func(t *testing.T) { replaceText(t, in("identity"), `"id": "`, `"id": "other`) }, "without --only"},
		"platform_without_a_broker_of_the_streams": {OnlyPlatform, func(t *testing.T) {
			execute(t, in(streamsFile), strings.Replace(insertStream, "BROKER", "added-later", 1))
		}, "added-later"},
		"platform_without_a_broker_of_the_bridges": {OnlyPlatform, func(t *testing.T) {
			execute(t, in(bridgesFile), `INSERT INTO config (broker_id, bridge_id, document) VALUES ('added-later', 'mqtt', x'00')`)
		}, "added-later"},
		"streams_of_a_deleted_broker": {OnlyStreams, func(t *testing.T) { execute(t, in(databaseFile), `DELETE FROM brokers`) }, "one of them is older"},
		"platform_with_another_key": {OnlyPlatform, func(t *testing.T) {
			if err := os.WriteFile(in(keyFile), make([]byte, 32), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "another secret.key"},
		"access_of_a_node":                 {OnlyAccess, becomeNode(in(clusterFile)), "node of a cluster"},
		"platform_from_before_the_cluster": {OnlyPlatform, becomeNode(in(clusterFile)), "joined or left a cluster"},
	} {
		t.Run(name, func(t *testing.T) {
			keep := filepath.Join(t.TempDir(), "keep")
			if err := os.CopyFS(keep, os.DirFS(c.DataDir)); err != nil {
				t.Fatal(err)
			}
			refusal.change(t)
			_, err := Restore(t.Context(), c, file, backup.Identities{}, RestoreOptions{Only: refusal.only})
			if err == nil || !strings.Contains(err.Error(), refusal.want) {
				t.Errorf("got %v, want %q", err, refusal.want)
			}
			if left, _ := filepath.Glob(c.DataDir + ".*"); len(left) > 0 {
				t.Errorf("left %q", left)
			}
			if err := errors.Join(os.RemoveAll(c.DataDir), os.CopyFS(c.DataDir, os.DirFS(keep)), os.Chmod(in(keyFile), 0o600)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func becomeNode(path string) func(*testing.T) {
	return func(t *testing.T) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func replaceText(t *testing.T, path, old, with string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), old, with, 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func execute(t *testing.T, path, statement string) {
	t.Helper()
	pool := storage.OpenPool(path, 1, "mode=rw")
	_, err := pool.Exec(statement)
	if err := errors.Join(err, pool.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRestoreOfAPartIsRepeated ends restores of parts at each step, as when the process is
// killed: the part is the previous or the restored one, and a further restore succeeds. A
// damaged database is replaced like an intact one.
func TestRestoreOfAPartIsRepeated(t *testing.T) {
	t.Parallel()
	c, file := stoppedService(t)
	for step, only := range map[string]string{
		"keep the previous access control": OnlyAccess, "replace the access control": OnlyAccess,
		"keep the previous streams.db": OnlyStreams, "replace streams.db": OnlyStreams,
		"keep the previous signalbox.db": OnlyPlatform, "replace signalbox.db": OnlyPlatform,
	} {
		addLater(t, c)
		r := newRestore(c, file, backup.Identities{}, RestoreOptions{Only: only})
		r.step = func(name string) error {
			if name == step {
				return errStep
			}
			return nil
		}
		if _, err := r.run(t.Context()); !errors.Is(err, errStep) {
			t.Fatalf("%s: got %v", step, err)
		}
		if !hasLater(t, c, only) {
			t.Errorf("%s: the previous part is lost", step)
		}
		if _, err := Restore(t.Context(), c, file, backup.Identities{}, RestoreOptions{Only: only}); err != nil || hasLater(t, c, only) {
			t.Errorf("%s: the next restore: %v", step, err)
		}
	}
	if err := os.WriteFile(filepath.Join(c.DataDir, streamsFile), []byte("SQLite format 3\x00 and then nothing of the kind"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), c, file, backup.Identities{}, RestoreOptions{Only: OnlyStreams}); err != nil || hasLater(t, c, OnlyStreams) {
		t.Errorf("of a damaged database: %v", err)
	}
}

// laterRows write a row that the backup lacks, by part.
var laterRows = map[string][2]string{
	OnlyAccess:   {brokerFile, `INSERT INTO access_clients (username, clientid, disabled) VALUES ('later', '', 0)`},
	OnlyStreams:  {streamsFile, `INSERT INTO state (stream, state) VALUES (77, x'00')`},
	OnlyPlatform: {databaseFile, `INSERT INTO audit_sinks (name, seq, checkpoint_time) VALUES ('later', 0, 0)`},
}

// addLater writes the rows, which may be there.
func addLater(t *testing.T, c Config) {
	t.Helper()
	for _, row := range laterRows {
		execute(t, filepath.Join(c.DataDir, row[0]), strings.Replace(row[1], "INSERT", "INSERT OR IGNORE", 1))
	}
}

func hasLater(t *testing.T, c Config, only string) bool {
	t.Helper()
	query := map[string]string{
		OnlyAccess:   `SELECT count(*) FROM access_clients WHERE username = 'later'`,
		OnlyStreams:  `SELECT count(*) FROM state WHERE stream = 77`,
		OnlyPlatform: `SELECT count(*) FROM audit_sinks WHERE name = 'later'`,
	}[only]
	n, err := storage.Scan(context.Background(), filepath.Join(c.DataDir, laterRows[only][0]), query)
	if err != nil {
		t.Fatal(err)
	}
	return n != "0"
}
