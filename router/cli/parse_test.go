package cli

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestSet(t *testing.T) {
	t.Parallel()
	var body any
	for _, argument := range []string{"a.b=1", "a.c=text", `a.d\.e=true`, "list[0]=null", `list[1].x={"y":[2]}`, "a.f=1=2", "empty="} {
		path, value, err := parseSet(argument)
		must(t, err)
		body, err = setAt(body, path, value)
		must(t, err)
	}
	got, err := encode(body)
	must(t, err)
	want := `{"a":{"b":1,"c":"text","d.e":true,"f":"1=2"},"empty":"","list":[null,{"x":{"y":[2]}}]}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSet_refuses(t *testing.T) {
	t.Parallel()
	for _, argument := range []string{"", "a", "=1", "a..b=1", ".a=1", "[0]=1", "a[=1", "a[-1]=1", "a[+1]=1", "a[1000]=1", "a[0]b=1", "a.=1",
		"password=x", "nodes[0].password=x", `nodes=[{"password":"x"}]`, "auth.token=x", "a" + strings.Repeat(".a", maxSteps) + "=1"} {
		if path, value, err := parseSet(argument); err == nil {
			t.Errorf("%q: got %v = %v", argument, path, value)
		}
	}
	for target, argument := range map[string]string{`{"a":1}`: "a.b=1", `{"a":{}}`: "a[0]=1", `{"a":[]}`: "a[1]=1"} {
		path, value, err := parseSet(argument)
		must(t, err)
		base, err := decodeJSON([]byte(target))
		must(t, err)
		if got, err := setAt(base, path, value); err == nil {
			t.Errorf("%s in %s: got %v", argument, target, got)
		}
	}
}

func FuzzSet(f *testing.F) {
	for _, seed := range []string{"a.b[0]=1", `a\.b=x`, "=", "a[9]=", "a.b.c={}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, argument string) {
		path, value, err := parseSet(argument)
		if err != nil {
			return
		}
		body, err := setAt(nil, path, value)
		if err != nil {
			return // an index leaves a gap
		}
		again, err := setAt(body, path, value)
		if err != nil || !cmp.Equal(body, again) {
			t.Errorf("%q: the second time is %v, %v", argument, again, err)
		}
	})
}

func TestDocument(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"n":1.50,"t":"x"}`:                    `{"n":1.50,"t":"x"}`,
		"\xef\xbb\xbf{\"a\":1}":                 `{"a":1}`,
		"a: 1\nb: [x, yes, 0x10, null]\n":       `{"a":1,"b":["x","yes",16,null]}`,
		"when: 2026-01-31\n":                    `{"when":"2026-01-31"}`,
		"x: &x {a: true}\ny: *x\n":              `{"x":{"a":true},"y":{"a":true}}`,
		"- rolename: \"1\"\n  acls: []\n":       `[{"acls":[],"rolename":"1"}]`,
		"big: 123456789012345678901234567890\n": `{"big":123456789012345678901234567890}`,
	} {
		v, err := readDocument([]byte(text))
		must(t, err)
		got, err := encode(v)
		must(t, err)
		if string(got) != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "a: 1\na: 2\n", "a: 1\n---\nb: 2\n", "a: .inf\n", "? [x]\n: 1\n", "{", "&a [*a]",
		"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + bomb()} {
		if v, err := readDocument([]byte(text)); err == nil {
			t.Errorf("%.40q: got %v", text, v)
		}
	}
}

// bomb is a document whose aliases expand to a million entries and more.
func bomb() string {
	var b strings.Builder
	for i := 'b'; i < 'i'; i++ {
		previous := string(i - 1)
		b.WriteString(string(i) + ": &" + string(i) + " [" + strings.Repeat("*"+previous+",", 10) + "]\n")
	}
	return b.String()
}

func FuzzDocument(f *testing.F) {
	for _, seed := range []string{`{"a":[1]}`, "a: &x [1]\nb: *x", "- !!int 1", "<<: {a: 1}", "\x00", "a: !!binary x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := readDocument([]byte(text))
		if err != nil {
			return
		}
		if out, err := encode(v); err != nil || !json.Valid(out) {
			t.Errorf("%q: %s, %v", text, out, err)
		}
	})
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"pump-7 Ä 温度":   "pump-7 Ä 温度",
		"a\x1b[2Jb":     `a\x1b[2Jb`,
		"tab\tline\n":   `tab\tline\n`,
		"\u202egnp.exe": `\u202egnp.exe`,
		"\u009b31m":     `\u009b31m`,
		"bad\xffbytes":  `bad\xffbytes`,
		"\x7f\x00":      `\x7f\x00`,
		"\U000e0001":    `\U000e0001`,
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("\x1b]0;x\a")
	f.Fuzz(func(t *testing.T, text string) {
		got := printable(text)
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) || printable(got) != got {
			t.Errorf("%q: got %q", text, got)
		}
	})
}

func FuzzEntryCounter(f *testing.F) {
	for _, seed := range []string{`[]`, `[1,{"a":[2,3]},"x,]"]`, `["\"",[],{}]`, ` [ 1 , 2 ] `} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var list []json.RawMessage
		if json.Unmarshal([]byte(text), &list) != nil || !strings.HasPrefix(strings.TrimSpace(text), "[") {
			return
		}
		c := &entryCounter{}
		c.Write([]byte(text)) //nolint:errcheck // it never fails
		if c.entries != len(list) {
			t.Errorf("%q: counted %d of %d", text, c.entries, len(list))
		}
	})
}

func FuzzEvents(f *testing.F) {
	f.Add("retry: 3000\n\nevent: state\ndata: {\"a\":1}\n\n:\n\n")
	f.Add("event: \x9b\ndata: \x1b[2J\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		var b strings.Builder
		p := &printer{w: &b, format: asTable}
		if err := p.events(strings.NewReader(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		for _, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
			if printable(line) != line {
				t.Errorf("%q: printed %q", text, line)
			}
		}
	})
}

func FuzzYAML(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"1",null,true,"yes"],"b":{}}`, `"\u001b"`, `1e5`, `"- x"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, err := decodeJSON([]byte(text))
		if err != nil {
			return
		}
		var b strings.Builder
		p := &printer{w: &b, format: asYAML, single: true}
		must(t, p.yaml(json.RawMessage(text)))
		got, err := readDocument([]byte(b.String()))
		if err != nil && strings.Contains(err.Error(), "there twice") {
			return // the JSON has a member twice
		}
		if err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: as YAML %q, read %v, %v", text, b.String(), got, err)
		}
	})
}

func TestBulkLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"{\"a\":1}\n{\"a\":2}\n": true, "{\"a\":1}\n": false, "{\n\"a\":1}\n": false, "": false, "a: 1\nb: 2\n": false, "\n{}\n{}": true,
	} {
		if got := hasTwoObjects(bufio.NewReaderSize(strings.NewReader(text), maxLine)); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}
