package db_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"signalbox/db"
	"signalbox/db/dbtest"
)

// restoreSnapshot restores a copy from a snapshot, as it is sent.
func restoreSnapshot(ctx context.Context, s io.WriterTo, to *db.DB, index uint64) error {
	r, w := io.Pipe()
	go func() {
		_, err := s.WriteTo(w)
		w.CloseWithError(err)
	}()
	err := to.Restore(ctx, index, r)
	r.Close()
	return err
}

// TestSnapshotIsOneMoment takes a snapshot and writes on.
func TestSnapshotIsOneMoment(t *testing.T) {
	t.Parallel()
	from, to, ctx := world(t), dbtest.New(t), t.Context()
	s, err := from.Snapshot(ctx)
	must(t, err, from.CreateUser(ctx, user("later")), restoreSnapshot(ctx, s, to, 1))
	s.Release()
	_, err = to.UserByID(ctx, "guest")
	must(t, err)
	_, err = to.UserByID(ctx, "later")
	wantErr(t, err, db.ErrNotFound)
}

// TestRestore replaces the content of a database while it is read: a reader sees all of the former
// content or all of the new one, and after Restore only the latter.
func TestRestore(t *testing.T) {
	t.Parallel()
	path, ctx := filepath.Join(t.TempDir(), "signalbox.db"), t.Context()
	from, to := world(t), dbtest.Open(t, path)
	for _, id := range strings.Split("abcdefgh", "") {
		must(t, from.CreateProject(ctx, project("new"+id, "owner")), from.CreateToken(ctx, token("t"+id, "p")))
	}
	must(t, to.CreateUser(ctx, user("own")), to.CreateProject(ctx, project("mine", "own")))
	_, err := to.OpenAuditSinks(ctx, []string{"syslog"})
	must(t, err)
	local, err := to.LocalContent(ctx)
	must(t, err)
	own, err := to.Snapshot(ctx)
	must(t, err)
	defer own.Release()

	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				all, err := to.AllProjects(ctx)
				if n := len(all); err != nil || n != 1 && n != 10 || n == 1 && all[0].OwnerID != "own" || n == 10 && all[9].OwnerID != "owner" {
					t.Errorf("read %d projects, %v", n, err)
					return
				}
			}
		})
	}
	must(t, restoreFrom(t, from, to, 42))
	all, err := to.AllProjects(ctx)
	must(t, err)
	wantEqual(t, len(all), 10)
	close(stop)
	readers.Wait()

	wantEqual(t, to.AppliedIndex(), uint64(42))
	want, err := from.SharedContent(ctx)
	must(t, err)
	got, err := to.SharedContent(ctx)
	must(t, err)
	delete(want, "shared_state") // the index is another one
	delete(got, "shared_state")
	wantEqual(t, got, want)
	after, err := to.LocalContent(ctx)
	must(t, err)
	wantEqual(t, after, local)
	checkFiles(t, path, "signalbox.db", "signalbox.db-shm", "signalbox.db-wal", "signalbox.db.before-join")

	// A later snapshot does not replace what was kept.
	must(t, restoreFrom(t, from, to, 43))
	must(t, db.View(ctx, path+".before-join", func(kept *db.DB) error {
		_, err := kept.UserByEmail(ctx, user("own").Email)
		return err
	}))

	// What was the node's own before comes back.
	must(t, to.Unshare(ctx), restoreSnapshot(ctx, own, to, 0))
	wantEqual(t, to.AppliedIndex(), uint64(0))
	_, err = to.UserByID(ctx, "guest")
	wantErr(t, err, db.ErrNotFound)
	must(t, to.CreateProject(ctx, project("more", "own")))
	after, err = to.LocalContent(ctx)
	must(t, err)
	wantEqual(t, after, local)
}

func checkFiles(t *testing.T, path string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
		info, err := e.Info()
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", e.Name(), info.Mode())
		}
	}
	wantEqual(t, names, want)
}

// TestRestoreRefused receives what is not a snapshot. Nothing changes.
func TestRestoreRefused(t *testing.T) {
	t.Parallel()
	path, ctx := filepath.Join(t.TempDir(), "signalbox.db"), t.Context()
	d := dbtest.Open(t, path)
	populate(t, d)
	before, err := d.SharedContent(ctx)
	must(t, err)
	s, err := d.Snapshot(ctx)
	must(t, err)
	var whole bytes.Buffer
	_, err = s.WriteTo(&whole)
	must(t, err)
	s.Release()
	damaged := bytes.Clone(whole.Bytes())
	copy(damaged[len(damaged)/2:], make([]byte, 3*4096))
	for name, r := range map[string]io.Reader{
		"nothing":      strings.NewReader(""),
		"other bytes":  strings.NewReader(strings.Repeat("no database", 1000)),
		"a part":       bytes.NewReader(whole.Bytes()[:whole.Len()/2]),
		"damage":       bytes.NewReader(damaged),
		"a broken end": io.MultiReader(bytes.NewReader(whole.Bytes()), brokenReader{}),
	} {
		if err := d.Restore(ctx, 7, r); err == nil {
			t.Errorf("%s was restored", name)
		}
	}
	after, err := d.SharedContent(ctx)
	must(t, err)
	wantEqual(t, after, before)
	wantEqual(t, d.AppliedIndex(), uint64(0))
	must(t, d.CreateUser(ctx, user("u")))
	checkFiles(t, path, "signalbox.db", "signalbox.db-shm", "signalbox.db-wal")
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("the connection was cut") }

// TestStagedFilesAreDeleted opens a database whose process was killed while it received a snapshot.
func TestStagedFilesAreDeleted(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "signalbox.db")
	for _, name := range []string{".staged-X", ".staged-X-wal"} {
		must(t, os.WriteFile(path+name, nil, 0o600))
	}
	d, err := db.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	must(t, err)
	must(t, d.Close(t.Context()))
	checkFiles(t, path, "signalbox.db")
}
