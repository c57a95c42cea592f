package embedded

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"signalbox/broker/storage"
)

// undoTime is how long a broker that has joined a cluster keeps what it had before.
const undoTime = time.Hour

// The names of the file that keeps what a broker had before it joined a cluster. A rename is durable before what
// the next name states can be true, so that after a crash the name states what may have happened at most.
const (
	keptPartial  = "before-join.new"      // it is being written
	keptUnused   = "before-join"          // nothing of the cluster has replaced what the broker has
	keptReplaced = "before-join.replaced" // the cluster's state has replaced it
	keptUndoing  = "before-join.undo"     // it is being restored
)

// keptData is the name of the file with the data of the program, which belongs to the one with the same heading.
const keptData = "before-join.data"

// keptFormat is the present format of the file.
const keptFormat = 2

// keptHeading is the first line of the file. A snapshot, as machine.Restore reads it, follows.
type keptHeading struct {
	Format      int       `json:"format"`
	ClusterName string    `json:"clustername"`
	SyncMode    string    `json:"syncmode"`
	At          time.Time `json:"at"`      // the time of day
	Service     int64     `json:"service"` // the service time, in epoch milliseconds
}

// keptState is the file that keeps what a broker had before it joined a cluster. It has hashes of passwords and
// messages, so it is deleted as soon as it is of no use.
type keptState struct {
	dir   string
	log   *slog.Logger
	timer atomic.Pointer[time.Timer] // see forgetAfter; nil for none
}

func (k *keptState) path(name string) string { return filepath.Join(k.dir, name) }

// write stores a snapshot durably, in place of an earlier one, after first has stored what belongs to it.
func (k *keptState) write(heading keptHeading, snapshot io.WriterTo, first func() error) error {
	err := k.forget()
	if err == nil {
		err = first()
	}
	if err == nil {
		err = k.writeFile(keptPartial, heading, snapshot)
	}
	if err == nil {
		err = k.rename(keptPartial, keptUnused)
	}
	if err != nil {
		return errors.Join(err, k.forget())
	}
	k.forgetAfter(undoTime)
	return nil
}

func (k *keptState) writeFile(name string, heading keptHeading, snapshot io.WriterTo) error {
	f, err := os.OpenFile(k.path(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	err = json.NewEncoder(w).Encode(heading)
	if err == nil {
		_, err = snapshot.WriteTo(w)
	}
	return errors.Join(err, w.Flush(), f.Sync(), f.Close())
}

// rename renames the file durably.
func (k *keptState) rename(from, to string) error {
	if err := os.Rename(k.path(from), k.path(to)); err != nil {
		return err
	}
	return storage.SyncDir(k.dir)
}

// markReplaced records, before the cluster's state replaces what the broker has, that it may have done so.
func (k *keptState) markReplaced() error {
	if err := k.rename(keptUnused, keptReplaced); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// keptReader reads the file.
type keptReader struct {
	keptHeading
	*bufio.Reader // of the snapshot
	file          *os.File
}

// open opens the file for reading. Without a file of this name and of this format the error is fs.ErrNotExist.
func (k *keptState) open(name string) (*keptReader, error) {
	f, err := os.Open(k.path(name))
	if err != nil {
		return nil, err
	}
	r := &keptReader{Reader: bufio.NewReader(f), file: f}
	line, err := r.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r.keptHeading)
	}
	if err == nil && r.Format != keptFormat {
		err = fs.ErrNotExist
	}
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("read %s: %w", k.path(name), err)
	}
	return r, nil
}

// Close closes the file.
func (r *keptReader) Close() { r.file.Close() } //nolint:errcheck // it was only read

// has reports whether there is a file of this name.
func (k *keptState) has(name string) bool {
	_, err := os.Lstat(k.path(name))
	return err == nil
}

// forget deletes the file, whatever its name.
func (k *keptState) forget() error {
	return k.remove(keptPartial, keptUnused, keptReplaced, keptUndoing, keptData)
}

// remove deletes files durably.
func (k *keptState) remove(names ...string) error {
	deleted := false
	for _, name := range names {
		switch err := os.Remove(k.path(name)); {
		case err == nil:
			deleted = true
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	if !deleted {
		return nil
	}
	return storage.SyncDir(k.dir)
}

// forgetUnused deletes a file that is not needed for an undo: the broker has left the cluster, or its process ended
// before it had joined, and nothing of the cluster has replaced what the broker has.
func (k *keptState) forgetUnused() error {
	if k.has(keptReplaced) || k.has(keptUndoing) {
		return k.remove(keptPartial, keptUnused)
	}
	return k.remove(keptPartial, keptUnused, keptData)
}

// forgetAfter deletes the file after a time, unless it is being restored.
func (k *keptState) forgetAfter(d time.Duration) {
	timer := time.AfterFunc(d, func() {
		if err := k.remove(keptPartial, keptUnused, keptReplaced, keptData); err != nil {
			k.log.Warn("what the broker had before it joined a cluster is kept no longer, and the file cannot be deleted: delete it",
				"directory", k.dir, "error", err)
		}
	})
	if former := k.timer.Swap(timer); former != nil {
		former.Stop()
	}
}

// forgetInTime is forgetAfter for what an earlier process has kept.
func (k *keptState) forgetInTime() {
	for _, name := range []string{keptUnused, keptReplaced} {
		if info, err := os.Stat(k.path(name)); err == nil {
			k.forgetAfter(undoTime - time.Since(info.ModTime()))
		}
	}
}

// stop ends the wait of forgetAfter.
func (k *keptState) stop() {
	if timer := k.timer.Load(); timer != nil {
		timer.Stop()
	}
}
