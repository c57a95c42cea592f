package console

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
)

// readSentences returns the texts of all sentences, by the English one.
func readSentences(t *testing.T) map[string]map[string]string {
	t.Helper()
	paths, err := fs.Glob(embeddedLocales, "locales/sentences/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("files %q: %v", paths, err)
	}
	all := map[string]map[string]string{}
	for _, p := range paths {
		b, err := fs.ReadFile(embeddedLocales, p)
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
	b, err := fs.ReadFile(embeddedLocales, "locales/sentences/bridges.json")
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

// TestSentence checks how a sentence is found, with its arguments.
func TestSentence(t *testing.T) {
	t.Parallel()
	s := &sentences{whole: map[string]string{}}
	s.add("is required", "ist nötig")
	s.add("%s is not %s", "%[2]s ist %[1]s nicht")
	s.add("must be %s", "muss %s sein")
	s.add("must be at least %s", "muss mindestens %s sein")
	s.add("100% of it", "100% davon")
	german := &locale{Tag: "de", sentences: s}
	slices.SortFunc(s.patterns, byText)
	for english, want := range map[string]string{
		"is required": "ist nötig", "100% of it": "100% davon",
		"a is not b": "b ist a nicht", "%s is not %d": "%d ist %s nicht", "must be at least 3": "muss mindestens 3 sein", "must be a or b": "muss a or b sein",
		"is required by all": "", "must": "", "": "", "<b>": "",
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
