package embedded

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"signalbox/broker/embedded/cluster"
	"signalbox/broker/storage"
)

// sharedList is a Shared: a list of entries in a file.
type sharedList struct {
	t    *testing.T
	path string
	hold atomic.Pointer[chan struct{}] // Apply waits until it is closed; nil for no wait

	mu      sync.Mutex
	stored  storedList
	log     SharedLog // nil while the content is the program's own
	begun   int       // calls of Begin
	ended   int       // calls of End
	failEnd error     // of the next call of End
	removal uint64    // at the last call of Maintain
	warning error     // of the next calls of Maintain
	calls   int       // of Maintain
	done    bool      // a call of Maintain has succeeded

	schema atomic.Int64
}

// storedList is what the file has.
type storedList struct {
	Applied uint64
	Entries []string
}

func openSharedList(t *testing.T, dir string) *sharedList {
	t.Helper()
	l := &sharedList{t: t, path: filepath.Join(dir, "list")}
	text, err := os.ReadFile(l.path)
	if errors.Is(err, os.ErrNotExist) {
		return l
	}
	if err == nil {
		err = json.Unmarshal(text, &l.stored)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// store replaces the file. The caller holds mu.
func (l *sharedList) store(applied uint64, entries []string) error {
	next := storedList{applied, entries}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.path+".new", text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(l.path+".new", l.path); err != nil {
		return err
	}
	l.stored = next
	return storage.SyncDir(filepath.Dir(l.path))
}

// with returns the entries and one more. The caller holds mu.
func (l *sharedList) with(entry string) []string {
	return append(slices.Clone(l.stored.Entries), entry)
}

func (l *sharedList) Begin(_ context.Context, log SharedLog) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = log
	l.begun++
	return nil
}

func (l *sharedList) End(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended++
	if err := l.failEnd; err != nil {
		l.failEnd = nil
		return err
	}
	l.log = nil
	return l.store(0, l.stored.Entries)
}

func (l *sharedList) Apply(_ context.Context, index uint64, entry []byte) ([]byte, error) {
	if hold := l.hold.Load(); hold != nil {
		<-*hold
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.log == nil || index <= l.stored.Applied {
		l.t.Errorf("entry %d is applied behind %d; shared: %t", index, l.stored.Applied, l.log != nil)
	}
	return []byte(strconv.Itoa(len(l.stored.Entries) + 1)), l.store(index, l.with(string(entry)))
}

// Flush does nothing: each change is stored in a new file.
func (l *sharedList) Flush(context.Context) error { return nil }

// Schema returns what the test has set.
func (l *sharedList) Schema() (stored, own int64) { return l.schema.Load(), l.schema.Load() }

func (l *sharedList) Applied() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stored.Applied
}

type listSnapshot []string

func (s listSnapshot) WriteTo(w io.Writer) (written int64, err error) {
	for _, e := range s {
		n, err := w.Write([]byte(e + "\n"))
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

func (listSnapshot) Release() {}

func (l *sharedList) Snapshot(context.Context) (cluster.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return listSnapshot(l.stored.Entries), nil
}

func (l *sharedList) Restore(_ context.Context, index uint64, r io.Reader) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if shared := l.log != nil; shared != (index > 0) {
		l.t.Errorf("a snapshot of index %d is restored; shared: %t", index, shared)
	}
	var entries []string
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		entries = append(entries, lines.Text())
	}
	return errors.Join(lines.Err(), l.store(index, entries))
}

func (l *sharedList) Maintain(ctx context.Context, members SharedMembers) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removal = members.Removal()
	l.calls++
	l.done = l.done || l.warning == nil
	return l.warning
}

func (l *sharedList) Answer(_ context.Context, members SharedMembers, request []byte) ([]byte, error) {
	return fmt.Appendf(nil, "%s at %d", request, members.Removal()), nil
}

// change appends an entry, through the log if the content is shared.
func (l *sharedList) change(ctx context.Context, body string) error {
	l.mu.Lock()
	log := l.log
	if log == nil {
		defer l.mu.Unlock()
		return l.store(0, l.with(body))
	}
	l.mu.Unlock()
	result, err := log.Propose(ctx, []byte(body))
	if at, _ := strconv.Atoi(string(result)); err == nil && !slices.Contains(l.bodies(), body) {
		l.t.Errorf("%s is acknowledged with position %d, and not applied here", body, at)
	}
	return err
}

// bodies returns the entries.
func (l *sharedList) bodies() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.stored.Entries)
}

// shared returns the log, nil for none, and how often Begin and End were called.
func (l *sharedList) shared() (log SharedLog, begun, ended int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log, l.begun, l.ended
}
