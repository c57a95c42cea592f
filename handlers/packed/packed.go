// Package packed reads the archives of files that are built into the program: ZIP archives in which nothing is
// compressed, compressed as a whole with Zstandard. They are a third smaller than ZIP archives, which compress each
// file by itself. Package packedtest makes them.
//
// It must not import any other package of this module.
package packed

import (
	"archive/zip"
	"bytes"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// Open returns the files of an archive. They are decompressed in memory, which the reader keeps.
func Open(archive []byte) (*zip.Reader, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("open a built-in archive: %w", err)
	}
	defer decoder.Close()
	files, err := decoder.DecodeAll(archive, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress a built-in archive: %w", err)
	}
	return zip.NewReader(bytes.NewReader(files), int64(len(files)))
}
