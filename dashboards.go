package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
)

// monitoring has the files of scripts/grafana and scripts/prometheus, by their names; a test
// compares them.
//
//go:embed scripts/monitoring.json.gz
var monitoring []byte

// dashboards returns the dashboards of Grafana and the alert rules of Prometheus, by the names
// of their files.
func dashboards() (files map[string]string, err error) {
	r, err := gzip.NewReader(bytes.NewReader(monitoring))
	if err != nil {
		return nil, err
	}
	return files, json.NewDecoder(r).Decode(&files)
}

// exportDashboards writes them to a folder, for Grafana and Prometheus to read them there.
func exportDashboards() *cobra.Command {
	return &cobra.Command{Use: "dashboards DIR", Short: "Writes the dashboards of Grafana and the alert rules of Prometheus to a folder; files of these names are replaced", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := dashboards()
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // Grafana reads them, as another user
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(files)) {
				to := filepath.Join(args[0], path.Base(name))
				if err := os.WriteFile(to, []byte(files[name]), 0o644); err != nil { //nolint:gosec // as above
					return err
				}
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), to); err != nil {
					return err
				}
			}
			return nil
		}}
}
