package access

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"signalbox/broker"
)

// logFile is a log on disk with one node.
type logFile struct {
	leads
	file *os.File
	next uint64 // the index of the next entry
	node *Control
}

// Replicate appends an entry, flushes it and applies it.
func (l *logFile) Replicate(_ context.Context, change []byte) error {
	entry := append(binary.BigEndian.AppendUint32(nil, uint32(len(change))), change...)
	if _, err := l.file.Write(entry); err != nil {
		return err
	}
	if err := l.file.Sync(); err != nil {
		return err
	}
	index := l.next
	l.next++
	_, err := l.node.ApplyChange(index, change)
	return err
}

// readLog returns the entries of a log, and their length in bytes.
func readLog(path string) (entries [][]byte, size int64, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, nil
	}
	for len(b) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(b))
		if n > len(b) {
			break // of a process that was killed while it wrote
		}
		entries = append(entries, b[4:n])
		size += int64(n)
		b = b[n:]
	}
	return entries, size, err
}

// shareLog makes a node catch up with a log, and make its changes through it from then on.
func shareLog(c *Control, path string) {
	entries, size, err := readLog(path)
	for i, change := range entries {
		_, e := c.ApplyChange(uint64(i+1), change)
		err = errors.Join(err, e)
	}
	file, e := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err = errors.Join(err, e); err == nil {
		_, e = file.Seek(size, io.SeekStart)
		err = errors.Join(file.Truncate(size), e)
	}
	if err != nil {
		panic(err)
	}
	c.SetReplicator(&logFile{file: file, next: uint64(len(entries)) + 1, node: c})
}

// TestCampaignKillBetweenLogAndFile kills a process that makes changes through a log. Its
// file must contain exactly the changes up to its index, and with the rest of the log equal
// that of a node that was never killed.
func TestCampaignKillBetweenLogAndFile(t *testing.T) {
	t.Parallel()
	dir, whole := t.TempDir(), fresh(t)
	path := filepath.Join(dir, "log")
	c := openIn(t, dir)
	shareLog(c, path)
	must(t, c.Bootstrap(t.Context(), "admin", "secret"), c.CreateGroup(t.Context(), broker.GroupSpec{GroupName: "g"}))
	shut(t, c)
	settled := map[string]int{}
	for kill := range kills(t) {
		maps.Copy(settled, runAndKill(t, dir, kill, crashLog+"="+path))
		followLog(t, dir, path, whole)
		verifyPairs(t, dir, kill, settled)
	}
	t.Logf("%d changes", whole.AppliedIndex())
}

// followLog brings a node that was killed, and one that was not, to the end of the log, and
// compares them on the way.
func followLog(t *testing.T, dir, path string, whole *Control) {
	t.Helper()
	entries, _, err := readLog(path)
	must(t, err)
	c := openIn(t, dir)
	defer shut(t, c)
	at := c.AppliedIndex()
	if at > uint64(len(entries)) {
		t.Fatalf("the file is at %d, the log ends at %d", at, len(entries))
	}
	apply := func(n *Control, from, to uint64) {
		for i := from; i < to; i++ {
			_, err := n.ApplyChange(i+1, entries[i])
			must(t, err)
		}
	}
	apply(whole, whole.AppliedIndex(), at)
	wantSame(t, "as it was left", whole, c)
	apply(whole, at, uint64(len(entries)))
	apply(c, at, uint64(len(entries)))
	wantSame(t, "at the end of the log", whole, c)
}
