package apitest_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/scripts/process"
)

// ruleTests are the tests of some rules, as "promtool test rules" reads them: when they fire, and
// with which text.
const ruleTests = `
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'up{job="signalbox",instance="a"}', values: '1+0x4 0+0x30'}
      - {series: 'signalbox_backup_age_seconds{instance="a"}', values: '100+0x4 200000+0x30'}
      - {series: 'signalbox_backup_age_seconds{instance="unscheduled"}', values: '200000+0x34'}
      - {series: 'signalbox_backup_interval_seconds{instance="a"}', values: '86400+0x34'}
      - {series: 'signalbox_backup_interval_seconds{instance="unscheduled"}', values: '0+0x34'}
    alert_rule_test:
      - {eval_time: 4m, alertname: SignalboxDown, exp_alerts: []}
      - eval_time: 8m
        alertname: SignalboxDown
        exp_alerts:
          - exp_labels: {severity: critical, job: signalbox, instance: a}
            exp_annotations: {summary: signalbox on a does not respond}
      - {eval_time: 19m, alertname: SignalboxBackupOld, exp_alerts: []}
      - eval_time: 21m
        alertname: SignalboxBackupOld
        exp_alerts:
          - exp_labels: {severity: critical, instance: a}
            exp_annotations: {summary: the last verified backup of a is older than twice its interval}
`

// TestRules has Prometheus' own program check the alert rules, and test when some of them fire.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		process.Missing(t, "promtool is not installed (apt-get install prometheus)")
	}
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		return string(out), err
	}
	rules, err := filepath.Abs("../../scripts/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run("check", "rules", rules); err != nil || !strings.Contains(out, "SUCCESS") {
		t.Errorf("%v: %s", err, out)
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, content string) (path string) {
		path = filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if out, err := run("check", "rules", write("wrong.yml", strings.Replace(string(text), " == 0\n", " === 0\n", 1))); err == nil {
		t.Errorf("a wrong expression was accepted: %s", out)
	}
	if out, err := run("test", "rules", write("tests.yml", "rule_files: ["+rules+"]"+ruleTests)); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
