package systemtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"signalbox/scripts/process"
	"signalbox/scripts/suite"
)

// usesFirstSteps is the sentence of a page whose commands continue those of the first
// steps.
const usesFirstSteps = "The commands use what [First steps](first-steps.md) has set."

// started is what the commands of the README need, which begins with "go run . serve".
const started = "signalbox serve >signalbox.log 2>&1 &\nuntil curl -sf http://127.0.0.1:8080/readyz >ready.txt; do sleep 0.2; done\n"

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// TestManual runs the commands of every page of the manual, and of the README, exactly
// as printed, in an empty directory. Every page has a network namespace of its own, so
// ports are as printed, too.
func TestManual(t *testing.T) {
	t.Parallel()
	needNamespace(t)
	root := filepath.Join("..", "..", "..")
	folder := filepath.Join(root, "router", "manual")
	pages, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	firstSteps := read(t, filepath.Join(folder, "first-steps.md"))
	ran := 0
	for _, path := range append(pages, filepath.Join(root, "README.md")) {
		page := read(t, path)
		script := commandsOf(page)
		if script == "" {
			continue
		}
		if filepath.Base(path) == "README.md" {
			script = started + script
		}
		if strings.Contains(strings.Join(strings.Fields(page), " "), usesFirstSteps) {
			script = commandsOf(firstSteps) + script
		}
		ran++
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			runInNamespace(t, script)
		})
	}
	if ran < 2 {
		t.Errorf("%d pages have commands", ran)
	}
}

// needNamespace skips the test, but not in CI, if a namespace cannot be created or a
// program of the manual is missing.
func needNamespace(t *testing.T) {
	t.Helper()
	skip := t.Skipf
	if os.Getenv("CI") != "" {
		skip = t.Fatalf
	}
	for _, name := range []string{"unshare", "ip", "curl", "mosquitto", "mosquitto_pub", "mosquitto_sub", "mosquitto_ctrl"} {
		if err := exec.Command("sh", "-c", "PATH=$PATH:/usr/sbin:/sbin command -v "+name).Run(); err != nil {
			skip("%s is not installed (scripts/install)", name)
		}
	}
	if out, err := exec.Command("unshare", "--net", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		skip("a network namespace cannot be made, which root may: %v: %s", err, out)
	}
}

// commandsOf returns the shell commands of a page.
func commandsOf(page string) string {
	var b strings.Builder
	for _, m := range shellBlock.FindAllStringSubmatch(page, -1) {
		b.WriteString(m[1])
	}
	return b.String()
}

// runInNamespace runs a script, which must succeed, in an empty directory and in
// namespaces of its own; the processes that it has started end with it.
func runInNamespace(t *testing.T, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*suite.HangLimit)
	defer cancel()
	dir := t.TempDir()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--pid", "--fork", "--kill-child",
		"bash", "-euxo", "pipefail", "-c", "{ ip link set lo up; } 2>/dev/null\n"+script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + filepath.Dir(process.Program) + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir}
	cmd.SysProcAttr = process.DieWithParent()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v; the last lines:\n%s", err, lastLines(string(out)))
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		text := read(t, log)
		suite.NoPanic(t, text)
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(log), lastLines(text))
		}
	}
}
