package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// shippedDashboards returns the files that are built in, as they are in the source.
func shippedDashboards(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("scripts/grafana/*.json")
	if err != nil || len(names) < 6 {
		t.Fatalf("found %q, %v", names, err)
	}
	files := map[string]string{}
	for _, name := range append(names, "scripts/prometheus/alerts.yml") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	return files
}

// TestDashboardsAreBuiltIn compares what is built in with the source.
func TestDashboardsAreBuiltIn(t *testing.T) {
	t.Parallel()
	want := shippedDashboards(t)
	if *update {
		packed, err := pack(want)
		if err == nil {
			err = os.WriteFile("scripts/monitoring.json.gz", packed, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := dashboards()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("\"go test . -run TestDashboardsAreBuiltIn -update\" builds these in (-want +got):\n%.2000s", diff)
	}
}

// TestExportDashboards writes all files to a folder, also again.
func TestExportDashboards(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	for range 2 {
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"export", "dashboards", dir}, nil, nil, &out, &errs); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		for name, want := range shippedDashboards(t) {
			to := filepath.Join(dir, filepath.Base(name))
			if got, err := os.ReadFile(to); err != nil || string(got) != want || !strings.Contains(out.String(), to+"\n") {
				t.Errorf("%s: %d bytes, %v, printed %s", to, len(got), err, out.String())
			}
		}
	}
}

// pack returns what monitoring must be.
func pack(files map[string]string) ([]byte, error) {
	text, err := json.Marshal(files)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(text)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}
