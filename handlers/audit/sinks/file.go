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
	info, err := out.Stat()
	if err != nil {
		return err
	}
	text := lines(list)
	if !info.Mode().IsRegular() { // such as the standard output of a container
		_, err = out.Write(text)
		return err
	}
	if cut, err := endsInLine(out, info.Size()); err != nil {
		return err
	} else if cut {
		text = append([]byte{'\n'}, text...)
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	return out.Sync()
}

// endsInLine reports whether a file of that size ends within a line, which a crash or a full
// disk has left.
func endsInLine(f *os.File, size int64) (bool, error) {
	if size == 0 {
		return false, nil
	}
	var last [1]byte
	_, err := f.ReadAt(last[:], size-1)
	return last[0] != '\n', err
}

func (f *file) close() {}
