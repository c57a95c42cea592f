package console

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/feature/plural"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/message/catalog"
)

// languageTags are the languages of the console; the first is that of a caller who wants
// none of them.
var languageTags = []string{"en", "de", "fr", "es"}

// catalogue is the texts of the console in all its languages.
type catalogue struct {
	locales []*locale
	matcher language.Matcher
}

// locale is the console in one language. It is safe for concurrent use.
type locale struct {
	Tag     string
	keys    map[string]text
	printer *message.Printer

	sentences *sentences // of the API, nil for English
}

// text is the text of a key: a string, or an object with one for each plural form of the
// first argument ("one", "other").
type text struct {
	plain string
	forms map[string]string
}

// UnmarshalJSON reads both forms.
func (t *text) UnmarshalJSON(b []byte) error {
	if b[0] == '{' {
		return json.Unmarshal(b, &t.forms)
	}
	return json.Unmarshal(b, &t.plain)
}

// loadCatalogue reads the files locales/LANGUAGE/*.json. A language lacks no key that
// English has: the tests check it.
func loadCatalogue() (*catalogue, error) {
	builder := catalog.NewBuilder(catalog.Fallback(language.English))
	c := &catalogue{}
	source, err := files()
	if err != nil {
		return nil, err
	}
	var tags []language.Tag
	for _, name := range languageTags {
		tag := language.MustParse(name)
		keys, err := loadLanguage(source, name)
		if err != nil {
			return nil, err
		}
		for key, t := range keys {
			if err := t.set(builder, tag, key); err != nil {
				return nil, fmt.Errorf("text %s in %s: %w", key, name, err)
			}
		}
		tags = append(tags, tag)
		l := &locale{Tag: name, keys: keys, printer: message.NewPrinter(tag, message.Catalog(builder))}
		if name != languageTags[0] {
			if l.sentences, err = loadSentences(source, name); err != nil {
				return nil, err
			}
		}
		c.locales = append(c.locales, l)
	}
	c.matcher = language.NewMatcher(tags)
	return c, nil
}

// loadLanguage reads the files of a language. A key stands in one of them.
func loadLanguage(files fs.FS, name string) (map[string]text, error) {
	all := map[string]text{}
	paths, err := fs.Glob(files, path.Join("locales", name, "*.json"))
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		b, err := fs.ReadFile(files, p)
		if err != nil {
			return nil, err
		}
		var keys map[string]text
		if err := json.Unmarshal(b, &keys); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		for key, t := range keys {
			if _, ok := all[key]; ok {
				return nil, fmt.Errorf("%s: another file has the text %s, too", p, key)
			}
			all[key] = t
		}
	}
	return all, nil
}

func (t text) set(b *catalog.Builder, tag language.Tag, key string) error {
	if t.forms == nil {
		return b.SetString(tag, key, t.plain)
	}
	var cases []any
	for _, form := range []string{"zero", "one", "two", "few", "many", "other"} { // other is last: it matches all
		if s, ok := t.forms[form]; ok {
			cases = append(cases, form, s)
		}
	}
	return b.Set(tag, key, plural.Selectf(1, "%d", cases...))
}

// pick returns the locale that the user chose, otherwise the best for the browser's
// Accept-Language.
func (c *catalogue) pick(chosen, accepted string) *locale {
	if i := slices.Index(languageTags, chosen); i >= 0 {
		return c.locales[i]
	}
	wanted, _, err := language.ParseAcceptLanguage(accepted)
	if err != nil {
		return c.locales[0]
	}
	_, i, _ := c.matcher.Match(wanted...)
	return c.locales[i]
}

// has reports whether a key has a text.
func (l *locale) has(key string) bool {
	_, ok := l.keys[key]
	return ok
}

// text returns the text of a key with its arguments; the key itself if it has none.
func (l *locale) text(key string, args ...any) string {
	t, ok := l.keys[key]
	if !ok {
		return key
	}
	if len(args) == 0 && t.forms == nil && !strings.Contains(t.plain, "%") { // as most are
		return t.plain
	}
	return l.printer.Sprintf(message.Key(key, key), args...)
}

// number returns a number with the separators of the language.
func (l *locale) number(n any) string { return l.printer.Sprint(n) }

// count returns a number with the separators of the language, "" for nil, which is not known.
func (l *locale) count(n *int64) string {
	if n == nil {
		return ""
	}
	return l.number(*n)
}

// rate returns how often something happens, "" for nil, which is not known.
func (l *locale) rate(perSecond *float64) string {
	if perSecond == nil {
		return ""
	}
	return l.printer.Sprintf("%.1f", *perSecond)
}
