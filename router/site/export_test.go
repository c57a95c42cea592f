package site

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestVariablesOfSecrets checks that each secret has a variable of its own, and the same one
// in every export.
func TestVariablesOfSecrets(t *testing.T) {
	t.Parallel()
	x := &export{used: map[string]bool{}}
	for _, c := range []struct{ project, broker, want string }{
		{"north", "line 1", "SIGNALBOX_SECRET_LINE_1_PASSWORD"},
		{"south", "line 1", "SIGNALBOX_SECRET_SOUTH_LINE_1_PASSWORD"},
		{"south", "line-1", "SIGNALBOX_SECRET_SOUTH_LINE_1_PASSWORD_2"},
		{"south", "line 2", "SIGNALBOX_SECRET_LINE_2_PASSWORD"},
	} {
		if got := x.variable(project{Name: c.project}, c.broker, "password"); got != c.want {
			t.Errorf("%s of %s: got %s, want %s", c.broker, c.project, got, c.want)
		}
	}
	config := json.RawMessage(`{"d": {"b": "********", "a": "********"}, "c": ["********"], "a": "********", "z": "plain"}`)
	want := `{"a":{"$env":"V1"},"c":[{"$env":"V2"}],"d":{"a":{"$env":"V3"},"b":{"$env":"V4"}},"z":"plain"}`
	for range 20 {
		got, err := refer(config, func(n int) string { return fmt.Sprintf("V%d", n) })
		if err != nil || string(got) != want {
			t.Fatalf("got %s, %v; want %s", got, err, want)
		}
	}
}
