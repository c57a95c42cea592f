package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// readSentences returns the texts of all sentences, by the English one.
func readSentences(t *testing.T) map[string]map[string]string {
	t.Helper()
	paths, err := fs.Glob(sourceFiles, "locales/sentences/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("files %q: %v", paths, err)
	}
	all := map[string]map[string]string{}
	for _, p := range paths {
		b, err := fs.ReadFile(sourceFiles, p)
		if err != nil {
			t.Fatal(err)
		}
		var some map[string]map[string]string
		if err := json.Unmarshal(b, &some); err != nil {
			t.Fatalf("%s: %v", p, err)
		}
		for english, texts := range some {
			if _, ok := all[english]; ok {
				t.Errorf("%s has %q, which another file has too", p, english)
			}
			all[english] = texts
		}
	}
	return all
}

// translated are the languages that sentences have texts in: English is that of the API, and the
// tests make theirs.
func translated() []string {
	return slices.DeleteFunc(slices.Clone(languageTags), func(tag string) bool { return tag == "en" || tag == PseudoLanguage })
}

// TestSentences checks that every sentence has a text in each language, with the same arguments, or
// is a name that is the same in all.
func TestSentences(t *testing.T) {
	t.Parallel()
	for english, texts := range readSentences(t) {
		if len(texts) == 0 && !strings.Contains(english, " ") {
			continue
		}
		if got := slices.Sorted(maps.Keys(texts)); !slices.Equal(got, slices.Sorted(slices.Values(translated()))) {
			t.Errorf("%q has texts in %q", english, got)
		}
		if !strings.Contains(english, argument) {
			continue
		}
		for tag, text := range texts {
			if !slices.Equal(arguments(english), arguments(text)) {
				t.Errorf("%q in %s has other arguments: %q", english, tag, text)
			}
		}
	}
}

// schemaTexts returns the titles and descriptions that forms of a schema show.
func (n *schemaNode) schemaTexts() (all []string) {
	for _, text := range []string{n.Title, n.Description} {
		if text != "" {
			all = append(all, text)
		}
	}
	for _, p := range n.Properties {
		all = append(all, p.node.schemaTexts()...)
	}
	for _, d := range n.Defs {
		all = append(all, d.schemaTexts()...)
	}
	for i := range n.OneOf {
		all = append(all, n.OneOf[i].schemaTexts()...)
	}
	if n.Items != nil {
		all = append(all, n.Items.schemaTexts()...)
	}
	if n.Others != nil {
		all = append(all, n.Others.schemaTexts()...)
	}
	return all
}

// TestSchemaTexts checks that every title and description in the schema of a kind of bridge has
// a text in each language, and that no other sentence has one.
func TestSchemaTexts(t *testing.T) {
	t.Parallel()
	c, err := loadCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for id, schema := range kindSchemas(t) {
		schema.Title, schema.Description = "", "" // of the kind, which no form shows
		for _, english := range schema.schemaTexts() {
			used[english] = true
			for _, l := range c.locales {
				if _, ok := l.sentence(english); !ok {
					t.Errorf("%s: %q has no text in %s", id, english, l.Tag)
				}
			}
		}
	}
	b, err := fs.ReadFile(sourceFiles, "locales/sentences/bridges.json")
	if err != nil {
		t.Fatal(err)
	}
	var translations map[string]json.RawMessage
	if err := json.Unmarshal(b, &translations); err != nil {
		t.Fatal(err)
	}
	for english := range translations {
		if !used[english] {
			t.Errorf("no schema has %q", english)
		}
	}
}

// composed are the parts of sentences that the API composes of other parts.
var composed = []string{"of the role", "denies it", "allows it", ", denies it", ", allows it", "must have at least 1 entry", "must have at least 1 character",
	"must be a number, not a string", "must be an integer, not a string", "must be a whole number, not a string", "must be a whole number, not a number",
	"must be a string, not a number", "must be a boolean, not a string"}

// TestErrorSentences checks that the API still has the sentences of errors that have texts.
func TestErrorSentences(t *testing.T) {
	t.Parallel()
	var sources strings.Builder
	for _, dir := range []string{"../../handlers", "../../broker", "../../db", ".."} {
		err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() && name == "console" {
				return cmp.Or(err, fs.SkipDir)
			}
			if d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			b, err := os.ReadFile(path.Join(dir, name))
			sources.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b, err := fs.ReadFile(sourceFiles, "locales/sentences/errors.json")
	if err != nil {
		t.Fatal(err)
	}
	var errors map[string]json.RawMessage
	if err := json.Unmarshal(b, &errors); err != nil {
		t.Fatal(err)
	}
	for english := range errors {
		for part := range strings.SplitSeq(english, argument) {
			if part = strings.TrimSpace(part); !slices.Contains(composed, part) && !strings.Contains(sources.String(), part) {
				t.Errorf("no operation responds with %q: %q", english, part)
			}
		}
	}
}

// TestErrorCodes checks that every code of the API has a text in each language.
func TestErrorCodes(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../handlers/errors.go")
	if err != nil {
		t.Fatal(err)
	}
	c, err := loadCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]bool{}
	for _, m := range regexp.MustCompile(`Code\w+ += "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		codes["error.code."+m[1]] = true
	}
	for _, l := range c.locales {
		for key := range codes {
			if !l.has(key) {
				t.Errorf("%s is missing in %s", key, l.Tag)
			}
		}
		for key := range l.keys {
			if strings.HasPrefix(key, "error.code.") && !codes[key] {
				t.Errorf("%s in %s is not a code", key, l.Tag)
			}
		}
	}
}

// TestLocalized checks what an error of the API becomes in German, and that it stays as it is in
// English.
func TestLocalized(t *testing.T) {
	t.Parallel()
	c := newTestConsole(t, emptyService)
	for body, want := range map[string]struct{ german, english string }{
		`{"code":"NOT_FOUND","message":"the project has no broker with this id"}`: {"Gibt es nicht · das Projekt hat keinen Broker mit dieser ID", "Does not exist · the project has no broker with this id"},
		`{"code":"CONFLICT","message":"it is <cold>"}`: {`Der gegenwärtige Zustand lässt das nicht zu · <span lang="en">it is &lt;cold&gt;</span>`,
			"The present state does not allow this · it is &lt;cold&gt;"},
		`{"code":"NEW","message":"it is new"}`: {`<span lang="en">it is new</span>`, "it is new"},
		`{"code":"INVALID_REQUEST","message":"query.count: must be at most 1000","info":{"errors":[{"field":"query.count","message":"must be at most 1000"}]}}`: {
			"Ungültig · query.count: darf höchstens 1000 sein", "Not valid · query.count: must be at most 1000"},
		`{"code":"INVALID_REQUEST","message":"query.q: is odd","info":{"errors":[{"field":"query.q","message":"is odd"}]}}`: {
			`Ungültig · <span lang="en">query.q: is odd</span>`, "Not valid · query.q: is odd"},
		`{"code":"INVALID_REQUEST","message":"the request is not valid; see info.errors","info":{"errors":[{"field":"body.a","message":"is required"},{"field":"body.b","message":"is odd"}]}}`: {
			"Ungültig · die Anfrage ist ungültig", "Not valid · the request is not valid; see info.errors"},
	} {
		for language, want := range map[string]string{"de": want.german, "en": want.english} {
			r := httptest.NewRequest(http.MethodGet, "/ui/home", nil)
			r.Header.Set("Accept-Language", language)
			q := c.newRequest(httptest.NewRecorder(), r, c.pages[0], nil)
			set, err := parsePage("home", c.functions(q.lang, "."))
			if err != nil {
				t.Fatal(err)
			}
			e := q.localized((&Response{Status: http.StatusBadRequest, Body: []byte(body)}).failure())
			var out strings.Builder
			if err := set.ExecuteTemplate(&out, "failure-text", e); err != nil {
				t.Fatal(err)
			}
			if out.String() != want {
				t.Errorf("%s in %s: got %s, want %s", body, language, out.String(), want)
			}
		}
	}
}

// TestSentence checks how a sentence is found, with its arguments.
func TestSentence(t *testing.T) {
	t.Parallel()
	s := &sentences{whole: map[string]string{}}
	s.add("is required", "ist nötig")
	s.add("%s is not %s", "%[2]s ist %[1]s nicht")
	s.add("must be %s", "muss %s sein")
	s.add("must be at least %s", "muss mindestens %s sein")
	s.add("100% of it", "100% davon")
	c, err := loadCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	german := c.locales[slices.Index(languageTags, "de")]
	german.sentences = s
	for english, want := range map[string]string{
		"is required": "ist nötig", "100% of it": "100% davon",
		"a is not b": "b ist a nicht", "%s is not %d": "%d ist %s nicht", "must be at least 3": "muss mindestens 3 sein", "must be a or b": "muss a or b sein",
		"is required: must be 3": "ist nötig: muss 3 sein", "is required: is": "", "is: is required": "",
		"must be a: or b": "", "must be at least 3; or none": "", "is required by all": "", "must": "", "": "", "<b>": "",
	} {
		got, ok := german.sentence(english)
		if ok != (want != "") || ok && got != want || !ok && got != english {
			t.Errorf("%q: got %q, %v, want %q", english, got, ok, want)
		}
		if got, ok := new(locale).sentence(english); got != english || !ok {
			t.Errorf("%q in English: got %q, %v", english, got, ok)
		}
	}
	if got, want := fmt.Sprint(german.api("is required"), german.api("<b>\u202e")), `ist nötig<span lang="en">&lt;b&gt;⟨U+202E⟩</span>`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
