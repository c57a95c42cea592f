package backup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"signalbox/broker/storage"
)

// Directory is where a service keeps its backups: each is a file and a record about it. A process
// that writes or removes one holds the lock of the directory.
type Directory struct {
	Path string
	// DataDir is the data directory that the backups are of.
	DataDir string
}

// ErrBusy means that another backup is written, verified or removed.
var ErrBusy = errors.New("another backup is being written or verified: wait until that is done")

// ErrNoBackup means that the directory has no backup with a name.
var ErrNoBackup = errors.New("the directory of backups has no backup with this name")

// ErrTooMany means that the directory is full.
var ErrTooMany = errors.New("there are too many backups: delete some, or let \"signalbox backup prune\" do so")

// maxEntries bounds the number of backups in a directory.
const maxEntries = 1000

// State is what is known about a backup.
type State string

// The states of a backup.
const (
	Verified   State = "verified"   // at the time of its record
	Unverified State = "unverified" // it was put there by hand
	Damaged    State = "damaged"
)

// Record is what is stored about a backup beside its file. It is for lists: the file is what
// counts.
type Record struct {
	Directory string           `json:"directory"` // the identity of the data directory
	Version   string           `json:"version"`
	Time      time.Time        `json:"time"` // of the moment that it shows
	Size      int64            `json:"size"`
	SHA256    string           `json:"sha256"` // of the file
	Encrypted bool             `json:"encrypted"`
	WithKey   bool             `json:"with_key"`
	Duration  time.Duration    `json:"duration"` // of writing and verifying it
	Counts    map[string]int64 `json:"counts"`
	Verified  time.Time        `json:"verified"` // when it was last found intact
	Problem   string           `json:"problem,omitempty"`
}

// Entry is a backup in a directory.
type Entry struct {
	Name  string
	State State
	Record
}

// fileName is what the name of a backup looks like. A name that does not is never part of
// a path.
var fileName = regexp.MustCompile(`^signalbox-[0-9]{8}T[0-9]{6}\.[0-9]{3}Z\.backup$`)

const (
	nameTime       = "20060102T150405.000Z"
	namePrefix     = "signalbox-"
	nameSuffix     = ".backup"
	recordSuffix   = ".json" // after the name of the file
	workDir        = ".signalbox-work"
	lockName       = ".signalbox-backup.lock"
	maxRecordBytes = 64 << 10
)

func nameAt(t time.Time) string { return namePrefix + t.UTC().Format(nameTime) + nameSuffix }

// List returns the backups, the newest first. A directory that does not exist has none.
func (d Directory) List() ([]Entry, error) {
	files, err := os.ReadDir(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	var all []Entry
	for _, f := range slices.Backward(files) { // sorted by names, which have the time
		if !fileName.MatchString(f.Name()) || !f.Type().IsRegular() {
			continue
		}
		if e, err := d.entry(f.Name()); err == nil { // otherwise it has just been removed
			all = append(all, e)
		}
	}
	return all, nil
}

// entry returns a backup with what its record states.
func (d Directory) entry(name string) (Entry, error) {
	e := Entry{Name: name, State: Unverified}
	if !fileName.MatchString(name) {
		return e, ErrNoBackup
	}
	info, err := os.Lstat(filepath.Join(d.Path, name))
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return e, ErrNoBackup
	}
	if err != nil {
		return e, err
	}
	var known bool
	e.Record, known = d.record(name)
	switch {
	case !known:
		e.Size, e.Encrypted = info.Size(), d.isEncrypted(name)
		e.Time, _ = time.Parse(nameTime, strings.TrimSuffix(strings.TrimPrefix(name, namePrefix), nameSuffix)) //nolint:errcheck // it has this form
	case e.Problem != "":
		e.State = Damaged
	case e.Size != info.Size():
		e.State, e.Problem = Damaged, fmt.Sprintf("the file has %d bytes instead of %d", info.Size(), e.Size)
	case !e.Verified.IsZero():
		e.State = Verified
	}
	return e, nil
}

// record returns the record of a backup, if it has one that can be read.
func (d Directory) record(name string) (r Record, known bool) {
	f, err := os.Open(filepath.Join(d.Path, name+recordSuffix))
	if err != nil {
		return r, false
	}
	defer f.Close() //nolint:errcheck // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, maxRecordBytes))
	if err != nil || json.Unmarshal(text, &r) != nil || r.SHA256 == "" {
		return Record{}, false
	}
	return r, true
}

func (d Directory) isEncrypted(name string) bool {
	f, err := os.Open(filepath.Join(d.Path, name))
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // nothing was written
	intro := make([]byte, len(ageIntro))
	_, err = io.ReadFull(f, intro)
	return err == nil && string(intro) == ageIntro
}

// Exists returns nil if there is a backup with a name.
func (d Directory) Exists(name string) error {
	_, err := d.entry(name)
	return err
}

// Open opens a backup for reading, and returns its size.
func (d Directory) Open(name string) (*os.File, int64, error) {
	if err := d.Exists(name); err != nil {
		return nil, 0, err
	}
	f, err := os.Open(filepath.Join(d.Path, name))
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// locked calls do while no other process changes the directory, with an empty directory for
// temporary files. What an earlier process has left there is removed.
func (d Directory) locked(do func(work string) error) (err error) {
	if err := os.Mkdir(d.Path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("backup.directory: %w; create its parent, or configure another directory", err)
	}
	lock := flock.New(filepath.Join(d.Path, lockName), flock.SetPermissions(0o600))
	held, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("backup.directory: %w; make it writable, or configure another directory", err)
	}
	if !held {
		return ErrBusy
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	work := filepath.Join(d.Path, workDir)
	if err := errors.Join(os.RemoveAll(work), d.removeRecords()); err != nil {
		return err
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return fmt.Errorf("backup.directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	return do(work)
}

// store writes the record of a backup, durably and completely or not at all.
func (d Directory) store(work, name string, r Record) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	temp := filepath.Join(work, "record")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(d.Path, name+recordSuffix)); err != nil {
		return err
	}
	return storage.SyncDir(d.Path)
}
