package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"
)

// writeFile writes the manifest and the parts from the stage to a file, durably.
func (c *creation) writeFile(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(c.write(ctx, &flushedFile{file: f}), f.Sync(), f.Close())
}

// flushEvery is how many bytes are flushed to disk at once. Those who commit meanwhile wait for
// what is being written.
const flushEvery = 4 << 20

// flushedFile is a file that is flushed while it is written.
type flushedFile struct {
	file      *os.File
	unflushed int
}

// Write implements [io.Writer].
func (f *flushedFile) Write(b []byte) (n int, err error) {
	n, err = f.file.Write(b)
	if f.unflushed += n; err == nil && f.unflushed >= flushEvery {
		f.unflushed = 0
		err = f.file.Sync()
	}
	return n, err
}

func (c *creation) write(ctx context.Context, to io.Writer) error {
	if r := c.options.To.age; r != nil {
		encrypted, err := age.Encrypt(to, r...)
		if err != nil {
			return err
		}
		if err := c.writeSealed(ctx, encrypted); err != nil {
			return err
		}
		return encrypted.Close()
	}
	return c.writeSealed(ctx, to)
}

func (c *creation) writeSealed(ctx context.Context, to io.Writer) error {
	sealed := newSealWriter(to)
	compressed, err := zstd.NewWriter(sealed, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	return errors.Join(c.writeParts(ctx, archive), archive.Close(), compressed.Close(), sealed.Close())
}

func (c *creation) writeParts(ctx context.Context, archive *tar.Writer) error {
	manifest, err := json.MarshalIndent(c.manifest, "", "  ")
	if err != nil {
		return err
	}
	if err := c.writePart(archive, manifestName, int64(len(manifest)), bytes.NewReader(manifest)); err != nil {
		return err
	}
	for _, p := range c.manifest.Parts {
		f, err := os.Open(filepath.Join(c.stage, filepath.FromSlash(p.Name)))
		if err != nil {
			return err
		}
		sum := sha256.New()
		if err := errors.Join(c.writePart(archive, p.Name, p.Size, io.TeeReader(cancellable{ctx, f}, sum)), f.Close()); err != nil {
			return err
		}
		if hex.EncodeToString(sum.Sum(nil)) != p.SHA256 { // the disk has lost what was not flushed
			return fmt.Errorf("the copy of %s has changed since it was checked: try again, and look for errors of the disk", p.Name)
		}
	}
	return nil
}

func (c *creation) writePart(archive *tar.Writer, name string, size int64, from io.Reader) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o600, ModTime: c.manifest.Time}
	if err := archive.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.CopyN(archive, from, size)
	return err
}

// cancellable is a reader that fails when its context is done, and yields the processor to others
// of the service between two reads.
type cancellable struct {
	ctx  context.Context
	from io.Reader
}

// Read implements [io.Reader].
func (c cancellable) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	runtime.Gosched()
	return c.from.Read(b)
}
