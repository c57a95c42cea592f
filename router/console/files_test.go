package console

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"flag"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// packedDirectories are those in files.zip.
var packedDirectories = []string{"locales", "templates", "static"}

var update = flag.Bool("update", false, "write files.zip anew")

// contents returns the files of packedDirectories, by their names.
func contents(t *testing.T, source fs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range packedDirectories {
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

// TestFilesArePacked compares files.zip, which is built in, with the files of which it is made.
func TestFilesArePacked(t *testing.T) {
	t.Parallel()
	want := contents(t, sourceFiles)
	if *update {
		if err := os.WriteFile("files.zip", packFiles(t), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	packed, err := zip.NewReader(bytes.NewReader(packedFiles), int64(len(packedFiles)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, contents(t, packed)); diff != "" {
		t.Errorf("\"go test ./router/console -run TestFilesArePacked -update\" builds these in (-want +got):\n%.2000s", diff)
	}
}

// packFiles returns what files.zip must be.
func packFiles(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestCompression) })
	all := contents(t, sourceFiles)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		file, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(file, all[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
