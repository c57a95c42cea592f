package upgrade

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"signalbox/broker/storage"
)

// The states of an upgrade.
const (
	Replacing   = "replacing"    // the program may be the previous or the new one
	Installed   = "installed"    // the program is the new one
	RollingBack = "rolling back" // program and data may each be the previous or the new ones
	RolledBack  = "rolled back"  // program and data are the previous ones
)

// Record is what is known about the last upgrade. It is in the data directory.
type Record struct {
	State    string           `json:"state"`
	Time     time.Time        `json:"time"` // of the state
	From     Program          `json:"from"`
	To       Program          `json:"to"`
	Program  string           `json:"program"`   // path
	Backup   string           `json:"backup"`    // of the data as it was before; below the data directory
	Schemas  map[string]int64 `json:"schemas"`   // of the databases as they were before
	KeepData bool             `json:"keep_data"` // a rollback does not restore the backup
	Unit     string           `json:"unit"`      // of systemd that a rollback starts in the end
	UserUnit bool             `json:"user_unit"` // it is one of a user
}

// Program is a program of a version.
type Program struct {
	Version Version `json:"version"`
	SHA256  string  `json:"sha256"`
}

// recordName is the name of the file, which a backup does not contain.
const recordName = "upgrade.json"

// maxRecordBytes bounds the file.
const maxRecordBytes = 64 << 10

// ReadRecord returns the record in a data directory, nil if there is none.
func ReadRecord(dir string) (*Record, error) {
	path := filepath.Join(dir, recordName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := readBounded(f, maxRecordBytes)
	r := &Record{}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is damaged, so the last upgrade cannot be rolled back: move it away (%w)", path, err)
	}
	return r, nil
}

// Write replaces the record in a data directory by one that is durable before it has the
// name. Nil removes it.
func (r *Record) Write(dir string) error {
	path := filepath.Join(dir, recordName)
	if r == nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return storage.SyncDir(dir)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close(), likeParent(path+".new")); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	return storage.SyncDir(dir)
}
