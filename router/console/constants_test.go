package console

import (
	"html"
	"html/template"
	"strings"
	"testing"
)

// A template has the same content whether calls with constants are folded or not, in every place
// in which templates have them, and no such call is left.
func TestConstantsAreFolded(t *testing.T) {
	t.Parallel()
	calls := 0
	functions := template.FuncMap{
		"t":     func(key string, args ...any) string { calls++; return key + ` <b> & "quoted" 'too'` },
		"icon":  func(name string) template.HTML { calls++; return template.HTML(`<svg id="` + name + `"></svg>`) },
		"root":  func() string { calls++; return "../.." },
		"asset": func(name string) string { calls++; return "../../static/" + name },
		"echo":  func(text string, more int) string { return text },
	}
	const text = `{{define "part"}}{{t "part"}}{{end}}<p title="{{t "title"}}">{{t "text"}} {{icon "add"}}<a href="{{root}}/home">{{if .}}{{t "if"}}{{else}}{{t "else"}}{{end}}</a>` +
		`{{range .}}{{t "range"}}{{.}}{{end}}{{with .}}{{t "with"}}{{end}}<script src="{{asset "main.js"}}"></script>{{template "part"}}{{echo "plain" 1}}`
	render := func(fold bool) string {
		set := template.Must(template.New("page").Funcs(functions).Parse(text))
		if fold {
			foldConstants(set, functions)
			calls = 0
		}
		var b strings.Builder
		if err := set.Execute(&b, []string{"one", "<two>"}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	plain, folded := render(false), render(true)
	if calls != 0 {
		t.Errorf("%d calls were left", calls)
	}
	// An attribute may have fewer characters escaped, such as a plus sign.
	if html.UnescapeString(plain) != html.UnescapeString(folded) || strings.Count(plain, "<") != strings.Count(folded, "<") || strings.Count(plain, `"`) != strings.Count(folded, `"`) {
		t.Errorf("got\n%s\nwant\n%s", folded, plain)
	}
}

// Every page without data is the same whether calls with constants are folded or not, but for
// which characters are escaped.
func TestPagesAreFolded(t *testing.T) {
	t.Parallel()
	c := newTestConsole(t, emptyService)
	for _, p := range c.pages {
		v := viewOf(t, c, p)
		if v == nil {
			continue
		}
		for _, l := range c.words.locales {
			plain, folded := renderOf(t, c, p, v, l, false), renderOf(t, c, p, v, l, true)
			if html.UnescapeString(plain) != html.UnescapeString(folded) || strings.Count(plain, "<") != strings.Count(folded, "<") || strings.Count(plain, `"`) != strings.Count(folded, `"`) {
				t.Errorf("%s in %s: got\n%s\nwant\n%s", p.name, l.Tag, folded, plain)
			}
		}
	}
}

func renderOf(t *testing.T, c *Console, p *page, v view, l *locale, fold bool) string {
	t.Helper()
	functions := c.functions(l, "..")
	set, err := parsePage(p.template, functions)
	if err != nil {
		t.Fatal(err)
	}
	if fold {
		foldConstants(set, functions)
	}
	var b strings.Builder
	if err := set.Execute(&b, v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// What depends on a request is not folded.
func TestCallsAreNotFolded(t *testing.T) {
	t.Parallel()
	functions := template.FuncMap{"t": func(key string, args ...any) string { return key }, "show": func(s string) string { return s }}
	for _, text := range []string{`{{t .}}`, `{{t "a" .}}`, `{{show .}}`, `{{.}}`, `{{$x := t "a"}}{{$x}}{{.}}`, `{{t "a" | show}}{{.}}`} {
		set := template.Must(template.New("page").Funcs(functions).Parse(text))
		before := set.Tree.Root.String()
		foldConstants(set, functions)
		if after := set.Tree.Root.String(); after != before {
			t.Errorf("%s became %s", before, after)
		}
	}
}
