package sql

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzTable checks that an accepted table name is quoted so that it stays one name.
func FuzzTable(f *testing.F) {
	for _, seed := range []string{"", "t", "s.t", "a.b.c", ".", "x.", `a"b`, "a`b", " t", "t\x00", "\xff", strings.Repeat("x", 64)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parseTable(text, 63)
		if err != nil {
			return
		}
		if parsed.String() != text || !utf8.ValidString(text) || len(text) > 2*63+1 {
			t.Errorf("got %+v of %q", parsed, text)
		}
		for _, quote := range []struct {
			mark string
			as   func(string) string
		}{{`"`, doubleQuoted}, {"`", backQuoted}} {
			var parts []string
			for part := range strings.SplitSeq(text, ".") {
				quoted := quote.as(part)
				inner := quoted[1 : len(quoted)-1]
				double := quote.mark + quote.mark
				if strings.Contains(strings.ReplaceAll(inner, double, ""), quote.mark) || strings.ReplaceAll(inner, double, quote.mark) != part {
					t.Errorf("got %s of %q", quoted, part)
				}
				parts = append(parts, quoted)
			}
			if got, want := parsed.quoted(quote.as), strings.Join(parts, "."); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}

// FuzzArray checks that array literals are balanced.
func FuzzArray(f *testing.F) {
	for _, seed := range []string{`[]`, `[1,2.50,null]`, `["a\"b","c\\d","{","}",""]`, `[[1],[2]]`, `[{"a":1}]`, `{}`, `[`, `[true,[null]]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		literal := arrayLiteral(json.RawMessage(text))
		if !strings.HasPrefix(strings.TrimSpace(text), "[") {
			return
		}
		depth, quoted := 0, false
		for i := 0; i < len(literal); i++ {
			switch c := literal[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case !quoted && c == '{':
				depth++
			case !quoted && c == '}':
				depth--
			}
			if depth == 0 && i < len(literal)-1 {
				t.Fatalf("the array of %q ends early: %s", text, literal)
			}
		}
		if depth != 0 || quoted {
			t.Errorf("the array of %q does not end: %s", text, literal)
		}
	})
}
