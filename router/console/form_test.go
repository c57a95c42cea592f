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
		fold          fold
		open          bool
	}{
		"empty":            {},
		"before the part":  {topic: field{Value: "a", Error: "no"}},
		"a value":          {expiry: field{Value: "1"}, open: true},
		"an error":         {expiry: field{Error: "no"}, open: true},
		"a checked option": {expiry: field{Checked: true}, open: true},
		"as it is always":  {expiry: field{Kind: kindCheckbox, Checked: true, Value: "true"}, fold: fold{On: "expiry"}},
		"changed":          {expiry: field{Kind: kindCheckbox}, fold: fold{On: "expiry"}, open: true},
		"always open":      {fold: fold{Open: true}, open: true},
	} {
		x.topic.Name, x.expiry.Name = "topic", "expiry"
		x.fold.Title, x.fold.First = "More", "expiry"
		f := form{Fields: []field{x.topic, x.expiry}, Fold: x.fold}
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

// TestFoldOfTLS checks that what only TLS needs is folded away, unless the address is one with TLS
// or something of it was changed.
func TestFoldOfTLS(t *testing.T) {
	t.Parallel()
	for members, open := range map[string]bool{
		`"url":"mqtt://a:1883","verify_ca_cert":true`:                           false,
		`"url":"ws://a:80","verify_ca_cert":true`:                               false,
		`"url":"mqtts://a:8883","verify_ca_cert":true`:                          true,
		`"url":"wss://a:443","verify_ca_cert":true`:                             true,
		`"url":"mqtt://a:1883","verify_ca_cert":false`:                          true,
		`"url":"mqtt://a:1883","verify_ca_cert":true,"server_fingerprint":"AB"`: true,
	} {
		service := &calledService{responses: map[string]*Response{"getBroker": success(`{` + members + `,"hasPassword":true,"hasClientKey":true}`),
			"me": success(`{"root":true,"projects":[{"id":"1","role":"admin"}]}`)}}
		text := newTestConsole(t, service.call).open("connection-edit").Body.String()
		_, part, folded := strings.Cut(text, `<details class="part"`)
		part, _, _ = strings.Cut(part, "</details>")
		if !folded || strings.HasPrefix(part, " open>") != open || strings.Count(part, ` name="`) != 6 || strings.Contains(part, "clear-password") {
			t.Errorf("%s: folded %t, want open %t:\n%s", members, folded, open, part)
		}
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
