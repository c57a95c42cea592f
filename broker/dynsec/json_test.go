package dynsec

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParseJSONKeepsBytesThatAreNoText(t *testing.T) {
	t.Parallel()
	v, err := parseJSON([]byte("{\"a\":\"\xff\xfe\\n\xff\"}"))
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := v.get("A"); !ok || a.text != "\xff\xfe\n\xff" {
		t.Errorf("got %+v, %t", a, ok)
	}
}

func TestEqualFoldKnowsASCIIOnly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"rolename", "RoleName", true}, {"", "", true}, {"a", "ab", false}, {"[", "{", false},
		{"roles", "roleſ", false}, {"k", "\u212a", false}, {"É", "é", false},
	} {
		if got := equalFold(tc.a, tc.b); got != tc.want {
			t.Errorf("%q and %q: %t", tc.a, tc.b, got)
		}
	}
}

// FuzzParseJSON compares the parser with encoding/json: it accepts the same input,
// except for the nesting and the halves of surrogate pairs that it bounds; and strings
// are the same.
func FuzzParseJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-2.5e3,"x\u00e9\ud83d\ude00\n\/",true,false,null,{}]}`, `"text"`, ` [ ] `, `{"a":{},"A":[]} rest`, `0`, `"\ud800"`, "\"\xff\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := parseJSON(b)
		if !json.Valid(b) {
			return
		}
		deep := strings.Count(string(b), "[")+strings.Count(string(b), "{") > maxDepth
		half := strings.Contains(strings.ToLower(string(b)), `\ud`)
		if err != nil && !deep && !half {
			t.Fatalf("%q is JSON and was refused", b)
		}
		var s string
		if err == nil && v.kind == textKind && utf8.Valid(b) {
			if err := json.Unmarshal(b, &s); err != nil || s != v.text {
				t.Fatalf("%q is %q, %v; read as %q", b, s, err, v.text)
			}
		}
	})
}
