package console

import (
	"strings"
	"testing"
)

// TestFold checks that the folded part of a form has the fields from its first one on, and is open
// if one of them has something to show.
func TestFold(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		topic, expiry field
		open          bool
	}{
		"empty":            {},
		"before the part":  {topic: field{Value: "a", Error: "no"}},
		"a value":          {expiry: field{Value: "1"}, open: true},
		"an error":         {expiry: field{Error: "no"}, open: true},
		"a checked option": {expiry: field{Checked: true}, open: true},
	} {
		x.topic.Name, x.expiry.Name = "topic", "expiry"
		f := form{Fields: []field{x.topic, x.expiry}, Fold: fold{"More", "expiry"}}
		if got := f.IsFoldOpen(); got != x.open {
			t.Errorf("%s: open %t, want %t", name, got, x.open)
		}
	}
	service := &calledService{responses: map[string]*Response{"getBroker": success(`{"status":{"connected":true}}`)}}
	text := newTestConsole(t, service.call).open("messages").Body.String()
	_, part, ok := strings.Cut(text, `<details class="part"><summary>MQTT 5 properties</summary>`)
	if part, _, ended := strings.Cut(part, "</details>"); !ok || !ended || strings.Count(part, ` name="`) != 5 {
		t.Errorf("the properties are not folded:\n%s", text)
	}
}

// TestFirstSteps_backup checks that the step is done once there is a verified backup.
func TestFirstSteps_backup(t *testing.T) {
	t.Parallel()
	for state, done := range map[string]bool{"verified": true, "damaged": false} {
		service := &calledService{responses: map[string]*Response{"listBackups": success(`[{"id":"1","state":"` + state + `"}]`),
			"listBrokers": success(`[{"id":"b-1"}]`), "me": success(`{"root":true,"projects":[{"id":"p-1","role":"admin"}]}`)}}
		text := newTestConsole(t, service.call).open("first-steps").Body.String()
		_, step, _ := strings.Cut(text, "A backup</h2>")
		if !strings.Contains(step, `/backups">`) || strings.Contains(step, "primary") == done {
			t.Errorf("%s: %s", state, step)
		}
	}
}
