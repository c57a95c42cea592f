package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestClientMQTTJS runs the same operations with MQTT.js. Its release is pinned in
// testdata/mqttjs and fetched by npm into a scratch folder. On a machine without Node.js the
// test logs that and passes, even in CI; one that has it must be able to fetch.
func TestClientMQTTJS(t *testing.T) {
	node, npm := lookPath("node"), lookPath("npm")
	if node == "" || npm == "" {
		t.Log("MQTT.js is not tried: node and npm are not installed")
		return
	}
	dir := installMQTTJS(t, npm)
	play(t, everyVersion, func(s *scene) {
		cmd := exec.CommandContext(s.soon(), node, "client.mjs", s.url(), fmt.Sprint(s.version), s.mark)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			s.Fatalf("node: %v\n%s", err, out)
		}
		properties := func(qos int) string {
			if !s.five() {
				return ""
			}
			return fmt.Sprintf(" text/plain answer c%d v", qos)
		}
		want := []string{s.topic("kept 1 retained kept")}
		for qos := range 3 {
			want = append(want, s.topic(fmt.Sprintf("x %d live qos %d", qos, qos))+properties(qos))
		}
		want = append(want, s.topic("away 1 live away 1"), s.topic("away 2 live away 2"))
		if got := strings.Split(strings.TrimSpace(string(out)), "\n"); !slices.Equal(got, want) {
			s.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

func lookPath(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// installMQTTJS copies the client's program and fetches the library.
func installMQTTJS(t *testing.T, npm string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "mqttjs"))); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("fetch MQTT.js: %v\n%s", err, out)
		}
		t.Skipf("MQTT.js cannot be fetched: %v\n%s", err, out)
	}
	return dir
}
