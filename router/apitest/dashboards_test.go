package apitest_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"signalbox/router/apitest"
)

// expression is an expression of Prometheus, and where it stands.
type expression struct{ at, text string }

// TestDashboardsAndAlerts name metrics that exist, and every metric is in a dashboard.
func TestDashboardsAndAlerts(t *testing.T) {
	t.Parallel()
	exist := metricsDescribed(apitest.New(t, withScrapeToken))
	maps.Copy(exist, metricsInCode(t))
	panels := dashboards(t)
	used := map[string]bool{}
	for _, e := range slices.Concat(panels, alerts(t)) {
		names := metricName.FindAllString(e.text, -1)
		for _, name := range names {
			name = strings.TrimSuffix(name, "_bucket")
			used[strings.TrimSuffix(name, "_total")] = true
			if !exist[name] && !exist[strings.TrimSuffix(name, "_total")] {
				t.Errorf("%s: %s does not exist", e.at, name)
			}
		}
		if len(names) == 0 && e.text != `up{job="signalbox"} == 0` {
			t.Errorf("%s: %q has no metric", e.at, e.text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(exist)) {
		if !used[strings.TrimSuffix(name, "_total")] {
			t.Errorf("no dashboard shows %s", name)
		}
	}
}

// dashboards returns the expressions of the panels of all dashboards.
func dashboards(t *testing.T) (all []expression) {
	t.Helper()
	files, err := filepath.Glob("../../scripts/grafana/*.json")
	if err != nil || len(files) != 6 {
		t.Fatalf("dashboards: %v, %v", files, err)
	}
	for _, file := range files {
		var d struct {
			Panels []struct {
				Title, Description string
				Targets            []struct{ Expr string }
			}
		}
		text, err := os.ReadFile(file)
		if err != nil || json.Unmarshal(text, &d) != nil || len(d.Panels) == 0 {
			t.Fatalf("%s: not a dashboard (%v)", file, err)
		}
		for _, p := range d.Panels {
			if len(p.Targets) != 1 || p.Title == "" || p.Description == "" {
				t.Errorf("%s: the panel %q has %d targets, or no description", file, p.Title, len(p.Targets))
				continue
			}
			all = append(all, expression{file + ": " + p.Title, p.Targets[0].Expr})
		}
	}
	return all
}

// alerts returns the expressions of the alert rules.
func alerts(t *testing.T) (all []expression) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	text, err := os.ReadFile("../../scripts/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s has no severity or no summary", r.Alert)
			}
			all = append(all, expression{"alerts.yml: " + r.Alert, r.Expr})
		}
	}
	if len(all) < 15 {
		t.Errorf("there are only %d alerts", len(all))
	}
	return all
}
