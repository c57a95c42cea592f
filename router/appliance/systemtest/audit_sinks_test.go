package systemtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"signalbox/scripts/suite"
)

// TestAuditSinks kills the service while it copies the log to a file and a topic: the file has
// every row afterwards, and ends with a checkpoint that verifies the log.
func TestAuditSinks(t *testing.T) {
	t.Parallel()
	dir, copied := dataDir(t), filepath.Join(t.TempDir(), "audit.jsonl")
	env := configured(settings{"AUDIT_SINKS_FILE": copied, "AUDIT_SINKS_MQTT_TOPIC": "signalbox/audit"})
	name := func(i int) string { return fmt.Sprintf("r%d", i) }
	roles := 0
	add := func(r *caller) {
		for range 20 {
			r.must(t, "POST", r.at("/roles"), object{"rolename": name(roles)}, nil)
			roles++
		}
	}
	for range 2 {
		p := serve(t, dir, env)
		add(root(t, p))
		p.Kill()
	}
	p := serve(t, dir, env)
	r := root(t, p)
	add(r)
	suite.WaitFor(t, "all destinations have all rows", func() bool {
		var all []struct {
			Name    string
			Pending int64
		}
		r.must(t, "GET", "/api/audit/sinks", nil, &all)
		return len(all) == 2 && all[0].Name == "file" && all[1].Name == "mqtt" && all[0].Pending+all[1].Pending == 0
	})
	p.stop(t)
	text, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	for i := range roles {
		if !strings.Contains(string(text), fmt.Sprintf(`"object":%q`, name(i))) {
			t.Errorf("the row of %s is missing", name(i))
		}
	}
	last := regexp.MustCompile(`"checkpoint":"(.*)"}\n$`).FindStringSubmatch(string(text))
	if last == nil {
		t.Fatalf("the copy does not end with a checkpoint: %s", lastLines(string(text)))
	}
	note := filepath.Join(t.TempDir(), "checkpoint.txt")
	write(t, note, strings.ReplaceAll(last[1], `\n`, "\n"))
	if got := command(t, env.environ(dir), "audit", "verify", "--checkpoint", note); got.code != 0 {
		t.Errorf("%+v", got)
	}
}
