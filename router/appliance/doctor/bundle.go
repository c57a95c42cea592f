package doctor

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"path"
	"time"
)

// Entry is a file of a bundle. About is what it has, in a few words.
type Entry struct {
	Name, About string
	Data        []byte
}

// Bundle is what an operator sends to support. Nothing is in it that Scrub has not read.
type Bundle struct {
	Entries []Entry
	time    time.Time
}

// NewBundle returns an empty one.
func NewBundle(at time.Time) *Bundle { return &Bundle{time: at} }

// Add adds a file without its secrets.
func (b *Bundle) Add(s *Scrubber, name, about string, data []byte) {
	b.Entries = append(b.Entries, Entry{name, about, []byte(s.Scrub(string(data)))})
}

// Write writes the bundle as a compressed archive, with its files in a folder.
func (b *Bundle) Write(w io.Writer, folder string) error {
	packed := gzip.NewWriter(w)
	to := tar.NewWriter(packed)
	for _, e := range b.Entries {
		header := &tar.Header{Name: path.Join(folder, e.Name), Mode: 0o600, Size: int64(len(e.Data)), ModTime: b.time, Typeflag: tar.TypeReg}
		if err := to.WriteHeader(header); err != nil {
			return err
		}
		if _, err := to.Write(e.Data); err != nil {
			return err
		}
	}
	return errors.Join(to.Close(), packed.Close())
}
