// Package packedtest makes the archives of package packed, and checks that they have the files of which they are made.
package packedtest

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"signalbox/handlers/packed"
)

// window is larger than any archive, so that all of it is one context for the compression.
const window = 8 << 20

// Check compares an archive with the files that it must have. With update it writes the archive anew.
func Check(t *testing.T, archive string, want map[string]string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(archive, pack(t, want), 0o644); err != nil { //nolint:gosec // it is a part of the source
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	files, err := packed.Open(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, Contents(t, files)); diff != "" {
		t.Errorf("\"go test -run ^%s$ -update\" in this directory packs these in %s (-want +got):\n%.2000s", t.Name(), archive, diff)
	}
}

// Contents returns the files of a source, or of directories of it, by their names.
func Contents(t *testing.T, source fs.FS, directories ...string) map[string]string {
	t.Helper()
	if len(directories) == 0 {
		directories = []string{"."}
	}
	all := map[string]string{}
	for _, dir := range directories {
		err := fs.WalkDir(source, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(source, name)
			all[name] = string(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func pack(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err == nil {
			_, err = file.Write([]byte(files[name]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(window))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(b.Bytes(), nil)
}
