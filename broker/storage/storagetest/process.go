package storagetest

import (
	"bufio"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"modernc.org/sqlite"

	"signalbox/broker/storage"
)

// The environment of a process that a test starts: the directory of its store, and what
// it does with that.
const (
	dirVariable  = "STORAGETEST_DIR"
	roleVariable = "STORAGETEST_ROLE"
)

// roles are what a process may do.
var roles = map[string]func(u User, dir string) error{"crash": crash, "limit": limit}

// RunProcess runs the process of a test, and reports whether this is one.
func RunProcess(u User) bool {
	role := roles[os.Getenv(roleVariable)]
	if role == nil {
		return false
	}
	if err := role(u, os.Getenv(dirVariable)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// start returns a process of this test's binary with some role.
func start(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	process.Stderr = os.Stderr
	return process
}

// crashBeforeCommit kills a process in a transaction in which everything is written that
// is not yet committed. The file has what was committed before, and nothing else.
func crashBeforeCommit(t *testing.T, u User) {
	dir := t.TempDir()
	process := start(t, "crash", dir)
	if err := process.Run(); process.ProcessState.Exited() {
		t.Fatalf("the process ended by itself: %v", err)
	}
	reopen(t, u, dir, 1, 2, 3)
}

// reopen expects entries to be stored, and stores one more.
func reopen(t *testing.T, u User, dir string, stored ...int) {
	t.Helper()
	s, err := u.Open(t.Context(), dir, slog.New(slog.DiscardHandler))
	must(t, err)
	r := &rig{Store: s, t: t}
	r.wantStored(stored...)
	must(t, <-put(r, 10, 0))
	r.wantStored(append(stored, 10)...)
	must(t, r.Close(t.Context()))
}

// crash is the process of crashBeforeCommit: a trigger kills it after the last change of
// a transaction.
func crash(u User, dir string) error {
	err := sqlite.RegisterScalarFunction("kill_process", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err == nil {
			select {}
		}
		return nil, err
	})
	if err != nil {
		return err
	}
	s, err := u.Open(context.Background(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	for n := 1; n <= 3; n++ {
		if err := <-put(s, n, 0); err != nil {
			return err
		}
	}
	const trigger = `CREATE TEMP TRIGGER crash AFTER %s BEGIN SELECT kill_process(); END`
	if _, err := s.Conn().SQL().ExecContext(context.Background(), fmt.Sprintf(trigger, u.LastWrite)); err != nil {
		return err
	}
	return errors.Join(errors.New("a transaction ended"), <-put(s, 4, storage.ProbeBytes))
}

// fullAtCommit runs a process whose files cannot grow: SQLite gets an I/O error when it
// writes its WAL at COMMIT.
func fullAtCommit(t *testing.T, u User) {
	if !limitsFiles {
		t.Skip("this system cannot bound the size of a process's files")
	}
	dir := t.TempDir()
	must(t, start(t, "limit", dir).Run())
	reopen(t, u, dir, 1, 3)
}

// limit is the process of fullAtCommit.
func limit(u User, dir string) error {
	s, err := u.Open(context.Background(), dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := <-put(s, 1, 0); err != nil {
		return err
	}
	if err := limitFiles(storage.ProbeBytes); err != nil { // so that it does not recover by itself
		return err
	}
	if err := <-put(s, 2, 2*storage.ProbeBytes); err == nil || s.Err() == nil {
		return fmt.Errorf("beyond the limit got %w and %w", err, s.Err())
	}
	if err := limitFiles(1 << 30); err != nil {
		return err
	}
	for s.Err() != nil {
		<-time.After(storage.ProbeInterval / 100)
	}
	return errors.Join(<-put(s, 3, 0), s.Close(context.Background()))
}

// Kill runs a process of this test's binary with an environment variable. It calls line
// with each line that the process prints, and kills it when line returns true. It also
// calls it with what was printed before the process ended.
func Kill(t testing.TB, variable string, line func(text string) (kill bool)) {
	t.Helper()
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), variable)
	process.Stderr = os.Stderr
	out, err := process.StdoutPipe()
	must(t, err, process.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line(lines.Text()) {
			must(t, process.Process.Kill())
		}
	}
	if err := process.Wait(); process.ProcessState.Exited() {
		t.Fatalf("the process ended by itself: %v", err)
	}
}
