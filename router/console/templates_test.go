package console

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// templateSources returns the source of each template file by its path.
func templateSources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{}
	err := fs.WalkDir(sourceFiles, "templates", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, _ := fs.ReadFile(sourceFiles, p)
			sources[p] = string(b)
		}
		return err
	})
	if err != nil || len(sources) == 0 {
		t.Fatal(len(sources), err)
	}
	return sources
}

// goSources returns the source of each file of the package that is not a test.
func goSources(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources[name] = string(b)
	}
	return sources
}

// TestIcons checks that every icon that a template or a page names is in icons.svg.
func TestIcons(t *testing.T) {
	t.Parallel()
	symbols := map[string]bool{}
	for _, m := range regexp.MustCompile(`<symbol id="([a-z]+)" viewBox="0 0 16 16">`).FindAllStringSubmatch(static(t, "icons.svg"), -1) {
		symbols[m[1]] = true
	}
	if len(symbols) < 40 {
		t.Fatalf("icons.svg has %d symbols", len(symbols))
	}
	check := func(sources map[string]string, pattern string) {
		for name, source := range sources {
			for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(source, -1) {
				if !symbols[m[1]] {
					t.Errorf("%s names the icon %s, which does not exist", name, m[1])
				}
			}
		}
	}
	check(templateSources(t), `\bicon "([^"]+)"`)
	check(goSources(t), `\b[iI]con:\s*"([^"]+)"`)
	check(goSources(t), `\bState:\s*"(good|bad|warn)"`)
}

// TestDangers checks that of the buttons that are side by side at most one is red: the one that
// deletes most.
func TestDangers(t *testing.T) {
	t.Parallel()
	groups := regexp.MustCompile(`(?s)<header class="heading".*?</header>|<p class="actions">.*?</p>|<form class="actions".*?</form>`)
	red := regexp.MustCompile(`class="(?:button )?danger"`)
	for name, source := range templateSources(t) {
		for _, group := range groups.FindAllString(source, -1) {
			if n := len(red.FindAllString(group, -1)); n > 1 {
				t.Errorf("%s has %d red buttons side by side:\n%s", name, n, group)
			}
		}
	}
}

// TestClasses checks that every class that a template names has a rule in the style sheet.
func TestClasses(t *testing.T) {
	t.Parallel()
	style := static(t, "console.css")
	actions := regexp.MustCompile(`\{\{.*?\}\}`)
	for name, source := range templateSources(t) {
		for _, m := range regexp.MustCompile(`class="((?:[^"{]|\{\{.*?\}\})*)"`).FindAllStringSubmatch(source, -1) {
			for _, class := range strings.Fields(actions.ReplaceAllString(m[1], " ")) {
				if !regexp.MustCompile(`\.` + regexp.QuoteMeta(class) + `([^-\w]|$)`).MatchString(style) {
					t.Errorf("%s names the class %s, which has no rule", name, class)
				}
			}
		}
	}
}

// TestNothingInline checks that no template has what the Content-Security-Policy refuses.
func TestNothingInline(t *testing.T) {
	t.Parallel()
	refused := regexp.MustCompile(`(?i)\sstyle\s*=|\son[a-z]+\s*=|<style|javascript:|<script(?:[^>]*)>[^<]|href="/|src="/|action="/`)
	for name, source := range templateSources(t) {
		if found := refused.FindAllString(source, -1); found != nil {
			t.Errorf("%s has %q", name, found)
		}
	}
}

// verbs are the places of arguments in a text.
var verbs = regexp.MustCompile(`%(?:\[(\d+)\])?[a-z]`)

// TestTexts checks that every language has the texts of English, with the same arguments
// and, where English has them, plural forms.
func TestTexts(t *testing.T) {
	t.Parallel()
	english, err := loadLanguage(testFiles, languageTags[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range languageTags[1:] {
		t.Run(tag, func(t *testing.T) {
			t.Parallel()
			other, err := loadLanguage(testFiles, tag)
			if err != nil {
				t.Fatal(err)
			}
			for key := range other {
				if _, ok := english[key]; !ok {
					t.Errorf("%s is not a text of English", key)
				}
			}
			for key, want := range english {
				if got, ok := other[key]; !ok {
					t.Errorf("%s is missing", key)
				} else {
					compareTexts(t, key, want, got)
				}
			}
		})
	}
}

func compareTexts(t *testing.T, key string, want, got text) {
	t.Helper()
	if (want.forms == nil) != (got.forms == nil) {
		t.Errorf("%s has plural forms in one language only", key)
		return
	}
	if want.forms == nil {
		if want.plain == "" || got.plain == "" || !slices.Equal(arguments(want.plain), arguments(got.plain)) {
			t.Errorf("%s: %q and %q have different arguments", key, want.plain, got.plain)
		}
		return
	}
	for _, forms := range []map[string]string{want.forms, got.forms} {
		for _, form := range []string{"one", "other"} { // of all our languages
			if forms[form] == "" {
				t.Errorf("%s has no form %q: %v", key, form, forms)
			}
		}
	}
	if !slices.Equal(arguments(want.forms["other"]), arguments(got.forms["other"])) {
		t.Errorf("%s: %q and %q have different arguments", key, want.forms["other"], got.forms["other"])
	}
}

// arguments returns the arguments of a text, sorted, with the number of each.
func arguments(text string) []string {
	var list []string
	for i, m := range verbs.FindAllStringSubmatch(strings.ReplaceAll(text, "%%", ""), -1) {
		number := m[1]
		if number == "" {
			number = string(rune('1' + i))
		}
		list = append(list, number+m[0][len(m[0])-1:])
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestKeys checks that every text that a template or a page names literally exists, and
// that no page lacks a title.
func TestKeys(t *testing.T) {
	t.Parallel()
	english, err := loadLanguage(testFiles, languageTags[0])
	if err != nil {
		t.Fatal(err)
	}
	check := func(sources map[string]string, pattern string) {
		for name, source := range sources {
			for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(source, -1) {
				if _, ok := english[m[1]]; !ok {
					t.Errorf("%s names the text %s, which does not exist", name, m[1])
				}
			}
		}
	}
	check(templateSources(t), `\bt "([^"]+)"[ )}]`)
	check(goSources(t), `\bq\.t\("([^"]+)"[,)]`)
	check(goSources(t), `\bl\.text\("([^"]+)"[,)]`)
	for _, p := range pages() {
		if _, ok := english["title."+p.name]; !ok {
			t.Errorf("page %s has no title", p.name)
		}
	}
}
