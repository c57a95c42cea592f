package db_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"signalbox/db"
	"signalbox/db/dbtest"
	"signalbox/scripts/suite"
)

// replicaEnv is, in the child, the directory with the database, the snapshot and the log.
const replicaEnv = "DB_TEST_REPLICA"

const (
	snapshotIndex = 20 // of the log, in the tests below
	logLength     = 60
)

// makeHistory stores a snapshot and the log after it, one file for each entry, and returns the
// content at its end.
func makeHistory(t *testing.T, dir string) map[string][]string {
	t.Helper()
	f := newFleet(t, 1)
	d, ctx := f.nodes[0].d, t.Context()
	for i := range logLength {
		if i == snapshotIndex {
			s, err := d.Snapshot(ctx)
			must(t, err)
			file, err := os.Create(filepath.Join(dir, "snapshot"))
			must(t, err)
			_, err = s.WriteTo(file)
			must(t, err, file.Close())
			s.Release()
		}
		audited, _ := db.WithAudit(ctx, db.AuditEvent{Time: at(int64(i)), Operation: "createProject"})
		must(t, d.CreateProject(audited, project(fmt.Sprint(i), "owner")))
	}
	f.settle()
	for i, entry := range f.log {
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i+1)), entry, 0o600))
	}
	content, err := d.SharedContent(ctx)
	must(t, err)
	return content
}

// TestCampaignKilledReplica kills a process that restores a snapshot and applies the log after it,
// again and again: its index is always that of its content, and what it has acknowledged stays.
func TestCampaignKilledReplica(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := makeHistory(t, dir)
	path := filepath.Join(dir, "signalbox.db")
	d, err := db.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	must(t, err)
	must(t, d.CreateUser(t.Context(), user("own")), d.Close(t.Context()))
	var acknowledged, restored int
	for range kills(t) {
		index, again := killReplica(t, dir, 1+rand.IntN(25))
		restored += again
		if d, err = db.Open(t.Context(), path, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		applied := d.AppliedIndex()
		projects, err := d.AllProjects(t.Context())
		must(t, err)
		switch {
		case applied == 0: // not restored yet
			if len(projects) != 0 || index > 0 {
				t.Errorf("%d projects at index 0, %d was acknowledged", len(projects), index)
			}
		case uint64(len(projects)) != applied+2: // populate has stored two
			t.Errorf("%d projects at index %d", len(projects), applied)
		case applied != snapshotIndex && applied < index:
			t.Errorf("index %d, %d was acknowledged", applied, index)
		}
		acknowledged++
		must(t, d.Close(t.Context()))
	}
	d = dbtest.Open(t, path)
	must(t, follow(t.Context(), d, dir, io.Discard, false))
	got, err := d.SharedContent(t.Context())
	must(t, err)
	wantEqual(t, got, want)
	t.Logf("killed %d times, restored %d times", acknowledged, restored)
}

// killReplica starts a process that follows the log, kills it after it has acknowledged that many
// steps, and returns the index of the last one and how often it has restored the snapshot.
func killReplica(t *testing.T, dir string, after int) (index uint64, restored int) {
	t.Helper()
	var complaints strings.Builder
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), replicaEnv+"="+dir)
	child.Stderr = &complaints
	out, err := child.StdoutPipe()
	must(t, err, child.Start())
	seen := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		index, err = strconv.ParseUint(lines.Text(), 10, 64)
		must(t, err)
		if index == snapshotIndex {
			restored++
		}
		if seen++; seen == after {
			must(t, child.Process.Kill())
		}
	}
	if err := child.Wait(); seen < after {
		t.Fatalf("the replica ended by itself: %v: %s", err, complaints.String())
	}
	return index, restored
}

// followUntilKilled is the child.
func followUntilKilled(dir string) int {
	err := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), suite.HangLimit)
		defer cancel()
		d, err := db.Open(ctx, filepath.Join(dir, "signalbox.db"), slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		for {
			if err := follow(ctx, d, dir, os.Stdout, true); err != nil {
				return err
			}
		}
	}()
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// follow restores the snapshot, if nothing was applied yet or always, applies the log after it, and
// acknowledges each step by its index.
func follow(ctx context.Context, d *db.DB, dir string, acknowledge io.Writer, always bool) error {
	if d.AppliedIndex() == 0 || always && (d.AppliedIndex() == logLength || rand.IntN(4) == 0) {
		snapshot, err := os.Open(filepath.Join(dir, "snapshot"))
		if err != nil {
			return err
		}
		if err := errors.Join(d.Restore(ctx, snapshotIndex, snapshot), snapshot.Close()); err != nil {
			return err
		}
		fmt.Fprintln(acknowledge, d.AppliedIndex())
	}
	for index := d.AppliedIndex() + 1; index <= logLength; index++ {
		entry, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(index)))
		if err != nil {
			return err
		}
		if result, err := d.Apply(ctx, index, entry); err != nil || len(result) != 1 {
			return fmt.Errorf("entry %d: %v, %w", index, result, err)
		}
		fmt.Fprintln(acknowledge, index)
	}
	return nil
}
