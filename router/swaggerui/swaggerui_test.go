package swaggerui

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io"
	"os"
	"testing"

	"github.com/swaggest/swgui/v5/static"
)

var update = flag.Bool("update", false, "write the files anew")

// TestFilesAreCurrent compares the files with those of the module, and the version with that in the script.
func TestFilesAreCurrent(t *testing.T) {
	t.Parallel()
	entries, err := Files.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		want, err := static.FS.ReadFile(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(e.Name(), want, 0o644); err != nil { //nolint:gosec // it is a part of the source
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(e.Name()); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not that of the module: \"go test ./router/swaggerui -update\" writes it (%v)", e.Name(), err)
		}
	}
	f, err := os.Open("swagger-ui-bundle.js.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	script, err := io.ReadAll(r)
	if err != nil || !bytes.Contains(script, []byte(`PACKAGE_VERSION:"`+Version+`"`)) {
		t.Errorf("the script is not of version %s: %v", Version, err)
	}
}
