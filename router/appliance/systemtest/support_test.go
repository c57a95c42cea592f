package systemtest

import (
	"bytes"
	"compress/gzip"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

// TestSupportBundleNamesTheConfiguration downloads a bundle of a service with a configuration file.
func TestSupportBundleNamesTheConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "of-this-service.yaml")
	write(t, file, "log: {level: debug}\n")
	c := root(t, serve(t, dataDir(t), configured(settings{configFile: file})))
	status, answer, err := c.do(t.Context(), "GET", "/api/system/support-bundle?offline=true", nil)
	if err != nil || status != 200 {
		t.Fatalf("got %d, %v", status, err)
	}
	packed, err := gzip.NewReader(bytes.NewReader(answer))
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	if all := string(bundle); !strings.Contains(all, filepath.Base(file)) || strings.Contains(all, "no file was named") {
		t.Error("the bundle does not name the configuration file")
	}
}
