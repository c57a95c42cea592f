package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"signalbox/broker/storage"
)

// Verifier verifies a backup with a temporary directory in parent.
type Verifier func(ctx context.Context, parent, file string, with Identities) (*Manifest, error)

// Create writes a backup to the directory, and verifies it before it gets its name.
func (d Directory) Create(ctx context.Context, o Options, verify Verifier) (e Entry, err error) {
	err = d.locked(func(work string) error {
		all, err := d.List()
		if err != nil {
			return err
		}
		if len(all) >= maxEntries {
			return ErrTooMany
		}
		e, err = d.create(ctx, work, o, verify)
		return err
	})
	return e, err
}

func (d Directory) create(ctx context.Context, work string, o Options, verify Verifier) (Entry, error) {
	began := time.Now()
	to, with, err := o.To.withTemporary()
	if err != nil {
		return Entry{}, err
	}
	o.To = to
	file := filepath.Join(work, "backup")
	written, err := Create(ctx, d.DataDir, file, o)
	if err != nil {
		return Entry{}, err
	}
	m, err := verify(ctx, work, file, with)
	if err == nil && !reflect.DeepEqual(plain(m), plain(written)) {
		err = damaged("it does not have what was written", nil)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("verify the backup: %w", err)
	}
	e := Entry{Name: nameAt(m.Time), State: Verified, Record: recordOf(m)}
	if e.SHA256, e.Size, err = sumOf(ctx, file); err != nil {
		return Entry{}, err
	}
	e.Encrypted, e.Verified = o.To.age != nil, o.now()
	e.Duration = time.Since(began)
	return e, d.publish(work, file, e)
}

// plain returns a manifest as it is after it was read, to compare it.
func plain(m *Manifest) (out any) {
	text, err := json.Marshal(m)
	if err != nil || json.Unmarshal(text, &out) != nil {
		return nil
	}
	return out
}

func recordOf(m *Manifest) Record {
	return Record{Directory: m.Directory, Version: m.Version, Time: m.Time, WithKey: m.Has(KeyName), Counts: m.Counts}
}

// publish moves a backup to its name, after its record: a record without a file is ignored.
func (d Directory) publish(work, file string, e Entry) error {
	if err := d.store(work, e.Name, e.Record); err != nil {
		return err
	}
	if err := os.Rename(file, filepath.Join(d.Path, e.Name)); err != nil {
		return err
	}
	return storage.SyncDir(d.Path)
}

// sumOf returns the SHA-256 and the size of a file.
func sumOf(ctx context.Context, file string) (sum string, size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", 0, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	h := sha256.New()
	for {
		n, err := io.CopyN(h, f, 8<<20)
		size += n
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), size, nil
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return "", 0, err
		}
	}
}

// ErrNeedsKey means that a backup can only be verified with its private key.
var ErrNeedsKey = errors.New("the backup is encrypted and this service did not write it: verify it with \"signalbox backup verify\" and its private key or pass phrase")

// Verify verifies a backup, and stores the outcome. Of one that is encrypted it compares the
// sum of the whole file with that of the time at which it was written and verified.
func (d Directory) Verify(ctx context.Context, name string, verify Verifier) (e Entry, err error) {
	if e, err = d.entry(name); err != nil {
		return e, err
	}
	err = d.locked(func(work string) error {
		if e, err = d.entry(name); err != nil {
			return err
		}
		found, err := d.examine(ctx, work, e, verify)
		if err != nil && !errors.Is(err, ErrDamaged) {
			return err
		}
		e.Record = found
		if e.State, e.Problem = Verified, ""; err != nil {
			e.State, e.Problem = Damaged, err.Error()
		} else {
			e.Verified = time.Now().UTC()
		}
		return d.store(work, name, e.Record)
	})
	return e, err
}

// examine returns the record of a backup that is intact, or an error that wraps ErrDamaged.
func (d Directory) examine(ctx context.Context, work string, e Entry, verify Verifier) (Record, error) {
	file := filepath.Join(d.Path, e.Name)
	sum, size, err := sumOf(ctx, file)
	if err != nil {
		return e.Record, err
	}
	if e.SHA256 != "" && sum != e.SHA256 {
		return e.Record, damaged("the sum of the file is wrong", nil)
	}
	if e.Encrypted {
		if e.SHA256 == "" {
			return e.Record, ErrNeedsKey
		}
		return e.Record, nil
	}
	m, err := verify(ctx, work, file, Identities{})
	if err != nil {
		r := e.Record
		r.SHA256, r.Size = sum, size
		return r, err
	}
	r := recordOf(m)
	r.SHA256, r.Size, r.Duration = sum, size, e.Duration
	return r, nil
}

// Remove removes a backup.
func (d Directory) Remove(name string) error {
	if _, err := d.entry(name); err != nil {
		return err
	}
	return d.locked(func(string) error { return d.remove(name) })
}

// remove removes the file before its record, so that what remains after an interruption is
// a record, which is ignored.
func (d Directory) remove(name string) error {
	for _, file := range []string{name, name + recordSuffix} {
		if err := os.Remove(filepath.Join(d.Path, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return storage.SyncDir(d.Path)
}

// Prune removes the verified backups of the data directory that keep does not keep, and
// returns them; a dry run removes nothing. The newest verified one is always kept, as are
// damaged ones, those of other data directories and those without a record.
func (d Directory) Prune(keep Keep, dryRun bool) (removed []Entry, err error) {
	removed, err = d.prunable(keep)
	if dryRun || err != nil {
		return removed, err
	}
	err = d.locked(func(string) error {
		if removed, err = d.prunable(keep); err != nil {
			return err
		}
		for i, e := range removed {
			if err := d.remove(e.Name); err != nil {
				removed = removed[:i]
				return fmt.Errorf("remove the backup %s: %w", e.Name, err)
			}
		}
		return nil
	})
	return removed, err
}

// prunable returns the backups that Prune removes.
func (d Directory) prunable(keep Keep) (out []Entry, err error) {
	all, err := d.List()
	if err != nil || len(keep) == 0 {
		return nil, err
	}
	id, err := d.identity()
	if err != nil {
		return nil, err
	}
	var own []Entry
	var times []time.Time
	for _, e := range all {
		if e.State == Verified && e.Directory == id {
			own, times = append(own, e), append(times, e.Time)
		}
	}
	for i, kept := range keep.kept(times) {
		if i > 0 && !kept {
			out = append(out, own[i])
		}
	}
	return out, nil
}

// identity returns the identity of the data directory.
func (d Directory) identity() (string, error) {
	own, err := readIdentity(d.DataDir)
	return own.ID, err
}

// removeRecords removes records whose backup does not exist.
func (d Directory) removeRecords() error {
	files, err := os.ReadDir(d.Path)
	if err != nil {
		return err
	}
	for _, f := range files {
		name, isRecord := strings.CutSuffix(f.Name(), recordSuffix)
		if !isRecord || !fileName.MatchString(name) {
			continue
		}
		if _, err := os.Lstat(filepath.Join(d.Path, name)); errors.Is(err, fs.ErrNotExist) {
			if err := os.Remove(filepath.Join(d.Path, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
