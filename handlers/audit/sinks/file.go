package sinks

import (
	"context"
	"errors"
	"os"
)

// file appends JSON lines to a file. It opens the file each time, so that the file can be
// renamed at any moment, as by logrotate.
type file struct{ path string }

func (f *file) send(_ context.Context, list []record) (err error) {
	if len(list) == 0 {
		return nil
	}
	out, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	text := lines(list)
	if cut, err := endsInLine(out); err != nil {
		return err
	} else if cut {
		text = append([]byte{'\n'}, text...)
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	return out.Sync()
}

// endsInLine reports whether a file ends within a line, which a crash or a full disk has left.
func endsInLine(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 || !info.Mode().IsRegular() {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return last[0] != '\n', err
}

func (f *file) close() {}
