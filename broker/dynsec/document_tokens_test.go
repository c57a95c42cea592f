package dynsec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// FuzzTokens expects the tokens that encoding/json reads, and an error where it has one, however the text
// arrives.
func FuzzTokens(f *testing.F) {
	for _, name := range []string{"mosquitto-2.0.json", "mosquitto-2.1.json", "mosquitto_ctrl-2.0-init.json"} {
		f.Add(readTestdata(f, name))
	}
	for _, text := range []string{
		``, ` `, `1`, `-0.5e+10 `, `01`, `1.`, `-`, `1e`, `+1`, `.5`, `0x1`, `1 2`, `nul`, `nulL`, `true`, `falsey`, `"a`, `"`, `"\`, `"\u`,
		`[]`, `{}`, `[,]`, `[1,]`, `[1 2]`, `[1:2]`, `{,}`, `{"a"}`, `{"a":}`, `{"a" 1}`, `{"a":1,}`, `{"a":1 "b":2}`, `{1:2}`, `{"a":[}]`, `[}`, `{]`, `]`, `,`, `:`,
		`["\u00e9\"\\\/\b\f\n\r\t", "é€😀"]`, `["\ud83d\ude00", "\ud83d", "\ud83dx", "\ud83d\n", "\ud83d\u0041", "\ude00\ud83d", "\uD83D\uDE0"]`, `"\x"`, `"\u12g4"`,
		"\"a\nb\"", "\"\x00\"", "\xef\xbb\xbf{}", "\u00a0{}", `{"a":{"b":[null,[true,[false]]]},"c":-12.5E-3}  x`, `[1e400, 123456789012345678901234567890]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !utf8.Valid(b) || bytes.Count(b, []byte{'['})+bytes.Count(b, []byte{'{'}) > maxOpen {
			return
		}
		want, valid := decoded(b)
		for how, from := range map[string]io.Reader{
			"at once": bytes.NewReader(b), "byte by byte": iotest.OneByteReader(bytes.NewReader(b)), "with its end": iotest.DataErrReader(bytes.NewReader(b)),
		} {
			got, whole := tokenized(from)
			if strings.Join(got, " ") != strings.Join(want, " ") || whole != valid {
				t.Errorf("%q %s: got %q, valid %v; want %q, %v", b, how, got, whole, want, valid)
			}
		}
	})
}

// decoded returns the tokens of a document as encoding/json reads them, and whether they are all of it.
func decoded(b []byte) (list []string, valid bool) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	depth := 0
	for {
		t, err := d.Token()
		if err != nil {
			return list, false
		}
		switch t := t.(type) {
		case json.Delim:
			list = append(list, t.String())
			depth += map[json.Delim]int{'{': 1, '[': 1, '}': -1, ']': -1}[t]
		case json.Number:
			list = append(list, "0"+t.String())
		case string:
			list = append(list, `"`+t)
		case bool:
			list = append(list, map[bool]string{true: "t", false: "f"}[t])
		default:
			list = append(list, "n")
		}
		if depth == 0 {
			_, err := d.Token()
			return list, errors.Is(err, io.EOF)
		}
	}
}

// tokenized is decoded by tokens.
func tokenized(from io.Reader) (list []string, valid bool) {
	tokens := tokens{from: from}
	for {
		t, err := tokens.read()
		if err != nil {
			return list, errors.Is(err, io.EOF)
		}
		list = append(list, string(t.kind)+string(t.text))
	}
}

// TestTokensAreBounded reads what is nested as deep as encoding/json allows, and deeper.
func TestTokensAreBounded(t *testing.T) {
	t.Parallel()
	for depth, want := range map[int]bool{maxOpen: true, maxOpen + 1: false} {
		text := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		if _, valid := tokenized(strings.NewReader(text)); valid != want || json.Valid([]byte(text)) != want {
			t.Errorf("depth %d: valid %v, encoding/json %v; want %v", depth, valid, json.Valid([]byte(text)), want)
		}
	}
}

// TestTokensOfAnySize reads texts that are longer than what is read at once, or lie across its end.
func TestTokensOfAnySize(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	b.WriteString(`["` + strings.Repeat("x", 3*tokensAtOnce) + `", "` + strings.Repeat(`\u00e9`, tokensAtOnce) + `"`)
	for i := range tokensAtOnce {
		b.WriteString(strings.Repeat(" ", i%7) + `,{"name\n":-12.5e3,"b":[true,false,null]}`)
	}
	b.WriteString("]")
	want, valid := decoded(b.Bytes())
	got, whole := tokenized(&b)
	if strings.Join(got, " ") != strings.Join(want, " ") || !whole || !valid {
		t.Errorf("got %d tokens, %v; want the same %d, %v", len(got), whole, len(want), valid)
	}
}
