package upgrade

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"signalbox/broker/storage"
)

// Files are the names of the program and of its other versions, beside it.
type Files struct {
	Program  string // the one that is run
	New      string // one that is not complete or was not verified yet
	Previous string
}

// FilesOf returns the names for a program.
func FilesOf(program string) Files {
	return Files{Program: program, New: program + ".new", Previous: program + ".previous"}
}

// Keep makes the program the previous one, too.
func (f Files) Keep() error {
	spare := f.Previous + ".new"
	if err := os.Remove(spare); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Link(f.Program, spare); err != nil { // such as on a file system without links
		if err := copyProgram(f.Program, spare); err != nil {
			return err
		}
	}
	if err := os.Rename(spare, f.Previous); err != nil {
		return err
	}
	if err := os.Remove(spare); err != nil && !errors.Is(err, fs.ErrNotExist) { // two names of one file are not renamed
		return err
	}
	return storage.SyncDir(filepath.Dir(f.Program))
}

// Replace makes the new program the program, with the mode and owner of the one before.
// At no time is there no program.
func (f Files) Replace() error {
	info, err := os.Stat(f.Program)
	if err != nil {
		return err
	}
	if err := errors.Join(OwnLike(f.New, f.Program), os.Chmod(f.New, info.Mode().Perm())); err != nil {
		return err
	}
	return f.rename(f.New)
}

// Revert makes the previous program the program.
func (f Files) Revert() error { return f.rename(f.Previous) }

func (f Files) rename(from string) error {
	if err := os.Rename(from, f.Program); err != nil {
		return err
	}
	return storage.SyncDir(filepath.Dir(f.Program))
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}
