package console

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"flag"
	"io"
	"io/fs"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write locales.zip anew")

// contents returns the files below locales, by their names.
func contents(t *testing.T, files fs.FS) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(files, "locales", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(files, name)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLocalesArePacked compares locales.zip, which is built in, with the files of which it is made.
func TestLocalesArePacked(t *testing.T) {
	t.Parallel()
	want := contents(t, sourceLocales)
	if *update {
		if err := os.WriteFile("locales.zip", packLocales(t), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	packed, err := zip.NewReader(bytes.NewReader(packedLocales), int64(len(packedLocales)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, contents(t, packed)); diff != "" {
		t.Errorf("\"go test ./router/console -run TestLocalesArePacked -update\" builds these in (-want +got):\n%.2000s", diff)
	}
}

// packLocales returns what locales.zip must be.
func packLocales(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestCompression) })
	err := fs.WalkDir(sourceLocales, "locales", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sourceLocales, name)
		if err != nil {
			return err
		}
		file, err := w.Create(name)
		if err != nil {
			return err
		}
		_, err = file.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
