package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestNameOf names the objects of the service, of which an event has the id.
func TestNameOf(t *testing.T) {
	t.Parallel()
	const id = "0190f3c2-7a1e-7c3b-9a55-3f8e1d2c4b6a"
	for _, c := range []struct{ object, change, want string }{
		{id, `{"after":{"name":"hall-4","url":"mqtt://x"}}`, "hall-4"},
		{"", `{"before":{"name":"hall-4"}}`, "hall-4"},
		{id, `{"after":{"clustername":"plant"}}`, "plant"},
		{id, `{"before":{"email":"a@example.org"}}`, "a@example.org"},
		{id, `{"after":{"email":"***"}}`, id},
		{id, `{"after":{"role":"viewer"}}`, id},
		{id, "", id},
		{"pump-7", `{"after":{"name":"other"}}`, "pump-7"},
		{"", "", ""},
	} {
		if got := NameOf(c.object, json.RawMessage(c.change)); got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.object, c.change, got, c.want)
		}
	}
}

// TestObjectsAreBounded checks that the name of an object, which a client chooses, does not make
// rows and the memory of repeated events grow.
func TestObjectsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 1<<20)
	for give, want := range map[string]int{"": 0, "role": 4, long[:2*maxText]: maxText, long: maxText + 1} {
		if got := utf8.RuneCountInString(ObjectOf(map[string]any{"topic": give})); got != want {
			t.Errorf("%d characters: got %d, want %d", utf8.RuneCountInString(give), got, want)
		}
	}
}
