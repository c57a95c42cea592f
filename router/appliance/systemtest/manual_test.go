package systemtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// usualDay is what an operator finds in the morning, after the first steps: another Mosquitto that
// is to be managed, a client that is connected, and one that is not and has a message waiting.
const usualDay = `sed 's/1884/1885/; s/mosquitto.json/hall-4.json/' mosquitto.conf >hall-4.conf
mosquitto_ctrl dynsec init hall-4.json admin trial-password
mosquitto -c hall-4.conf >hall-4.log 2>&1 &
mosquitto_sub -u pump-7 -P secret -i archive -c -q 1 -t 'plant/#' -E
mosquitto_pub -u pump-7 -P secret -t plant/7/speed -m 2.9 -q 1
mosquitto_sub -u pump-7 -P secret -i pump-7 -t 'plant/#' >pump-7.txt &
until [ -s pump-7.txt ]; do sleep 0.1; done
`

// dayVariables are the configuration of the service, and of the commands, of the page on a day's
// work, as it states.
const dayVariables = "export SIGNALBOX_BACKUP_DIRECTORY=backups SIGNALBOX_LOG_FILE=service.log\n"

// shellBlock is a block of commands, with the block of what they print if one follows.
var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?")

// TestManual runs the commands of every page of the manual, and of the README, exactly
// as printed, in an empty directory, and compares what they print with what a page shows below
// them. Every page has a network namespace of its own, so
// ports are as printed, too, and nothing outside of this machine can be reached: none of it tries to.
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
		if filepath.Base(path) == "day.md" {
			script = usualDay + script
		}
		if strings.Contains(strings.Join(strings.Fields(page), " "), usesFirstSteps) {
			script = commandsOf(firstSteps) + script
		}
		if filepath.Base(path) == "day.md" {
			script = dayVariables + script
		}
		ran++
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			dir := runInNamespace(t, script)
			wantShown(t, page, dir)
			if !t.Failed() {
				wantNothingOutside(t, read(t, filepath.Join(dir, networkCounters)), page)
			}
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

// commandsOf returns the shell commands of a page. What those of a block print is also in a file,
// if the page shows it.
func commandsOf(page string) string {
	var b strings.Builder
	for n, m := range shellBlock.FindAllStringSubmatch(page, -1) {
		if m[2] == "" {
			b.WriteString(m[1])
			continue
		}
		fmt.Fprintf(&b, "{\n%s} >%s\ncat %[2]s\n", m[1], printedFile(n))
	}
	return b.String()
}

// printedFile returns the name of the file with what a block of commands has printed.
func printedFile(block int) string { return fmt.Sprintf("block-%d.printed", block) }

// wantShown compares what the commands of a page have printed with what the page shows. The
// widths of columns do not count, and an ellipsis stands for any text of one line.
func wantShown(t *testing.T, page, dir string) {
	t.Helper()
	for n, m := range shellBlock.FindAllStringSubmatch(page, -1) {
		if m[2] == "" || t.Failed() {
			continue
		}
		got := strings.Split(strings.TrimSpace(read(t, filepath.Join(dir, printedFile(n)))), "\n")
		want := strings.Split(strings.TrimSpace(m[2]), "\n")
		if !slices.EqualFunc(got, want, isShownAs) {
			t.Errorf("the page shows\n%s\nfor\n%s\nwhich printed\n%s", m[2], m[1], strings.Join(got, "\n"))
		}
	}
}

// networkCounters is a file with the counters of a page's network, as the kernel shows them.
const networkCounters = "network.counters"

// wantNothingOutside checks that nothing tried to reach another machine, or to look up a name, which
// the network has no route for, or no service. It lets a page do that which names another machine.
func wantNothingOutside(t *testing.T, counters, page string) {
	t.Helper()
	found := counterValues(counters)
	for _, name := range []string{"Ip:OutNoRoutes", "Ip6OutNoRoutes", "Udp:NoPorts", "Udp6NoPorts"} {
		if value, ok := found[name]; !ok || value != "0" && !strings.Contains(page, namesOthers) {
			t.Errorf("%s is %q: something was sent to another machine, or a name was looked up", name, value)
		}
	}
}

// namesOthers is a target in commands of the page on bridges.
const namesOthers = "http://influxdb.example:8086"

// counterValues returns counters by their names, of lines with all names of a protocol that are followed
// by one with their values, and of lines with one counter each.
func counterValues(text string) map[string]string {
	found, names := map[string]string{}, []string{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case !strings.HasSuffix(fields[0], ":"):
			found[fields[0]] = fields[1]
		case len(names) > 0 && names[0] == fields[0]:
			for i, name := range names[1:] {
				found[names[0]+name] = fields[1+i]
			}
			names = nil
		default:
			names = fields
		}
	}
	return found
}

// isShownAs reports whether a line of a page stands for a line that was printed.
func isShownAs(printed, shown string) bool {
	shown = regexp.QuoteMeta(strings.Join(strings.Fields(shown), " "))
	return regexp.MustCompile("^" + strings.ReplaceAll(shown, "…", ".*") + "$").MatchString(strings.Join(strings.Fields(printed), " "))
}

// runInNamespace runs a script, which must succeed, in an empty directory and in
// namespaces of its own; the processes that it has started end with it. It returns the directory.
func runInNamespace(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*suite.HangLimit)
	defer cancel()
	dir := t.TempDir()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--pid", "--fork", "--kill-child",
		"bash", "-euxo", "pipefail", "-c", "{ ip link set lo up; } 2>/dev/null\n"+script+"\ncat /proc/net/snmp /proc/net/snmp6 >"+networkCounters)
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
	return dir
}
