package broker

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestValidFilter(t *testing.T) {
	t.Parallel()
	for filter, want := range map[string]bool{
		"a": true, "a/b": true, "/": true, "#": true, "+": true, "a/+/b": true, "a/#": true, "+/+/#": true, "a//b": true, "$SYS/#": true,
		"": false, "a#": false, "#/a": false, "a/#/b": false, "a+": false, "+a/b": false, "a\x00": false, "\xff": false,
		strings.Repeat("a", 65536): false, "a/": true, "/#": true,
	} {
		if got := ValidFilter(filter); got != want {
			t.Errorf("%.20q: got %v, want %v", filter, got, want)
		}
	}
}

func TestFiltersRefuseWhatTheyDoNotKnow(t *testing.T) {
	t.Parallel()
	if _, err := ClientFilter("password", "contains", "x"); err == nil {
		t.Error("a target that is none was taken")
	}
	if _, err := GroupFilter("groupname", "fuzzy", "x"); err == nil {
		t.Error("a mode that is none was taken")
	}
	if _, err := RoleFilter("rolename", "regex", "("); err == nil {
		t.Error("an expression that is none was taken")
	}
}

func TestSecretShowsNothing(t *testing.T) {
	t.Parallel()
	secret := Secret("hush")
	encoded, err := json.Marshal(map[string]any{"s": secret, "p": &secret})
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "secret", secret, "spec", ClientSpec{Password: &secret})
	for _, shown := range []string{string(encoded), logged.String(), fmt.Sprintf("%v %+v %#v %s", secret, secret, secret, secret)} {
		if strings.Contains(shown, "hush") {
			t.Errorf("the secret shows in %s", shown)
		}
	}
}
