package router

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzLoneSurrogate compares hasLoneSurrogate with the standard library, which decodes
// half a pair as U+FFFD.
func FuzzLoneSurrogate(f *testing.F) {
	for _, seed := range []string{`"a"`, `"\ud800"`, `"\udc00\ud800"`, `"\ud83d\ude00"`, `"\\ud800"`, `"\\\ud800"`, `"\ud800\u0041"`,
		`"\ufffd"`, `"\ud800\ud83d\ude00"`, `"\n\ud8"`, `"\uDBFF\uDFFF"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s string
		if raw = []byte(strings.TrimSpace(string(raw))); !utf8.Valid(raw) || json.Unmarshal(raw, &s) != nil || len(raw) < 2 || raw[0] != '"' {
			return
		}
		text := string(raw)
		if strings.ContainsRune(text, utf8.RuneError) || strings.Contains(strings.ToLower(text), "fffd") {
			return // the input may contain U+FFFD itself
		}
		if got, want := hasLoneSurrogate(raw), strings.ContainsRune(s, utf8.RuneError); got != want {
			t.Errorf("%s: got %v, want %v", raw, got, want)
		}
	})
}
