package manual

import (
	"flag"
	"html/template"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jba/templatecheck"

	"signalbox/handlers/packed/packedtest"
)

var update = flag.Bool("update", false, "write pages.zip.zst anew")

const exampleText = "data_dir: ./data\n"

// TestPagesArePacked compares pages.zip.zst, which is built in, with the pages of which it is made.
func TestPagesArePacked(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	packedtest.Check(t, "pages.zip.zst", packedtest.Contents(t, os.DirFS("."), names...), *update)
}

// TestPages checks the form of each page that the index and the search rely on.
func TestPages(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{}
	for _, name := range order {
		want = append(want, name+".md")
	}
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("files %q, pages in the order of reading %q", names, want)
	}
	for _, p := range New(exampleText).Pages() {
		if !strings.HasPrefix(p.Markdown, "# "+p.Title+"\n\n") || p.Title == "" {
			t.Errorf("%s does not begin with a title", p.Name)
		}
		if p.Summary == "" || !strings.HasSuffix(p.Summary, ".") || strings.Contains(p.Summary, "](") || len(p.Summary) > 200 {
			t.Errorf("%s: the summary is not one sentence of plain text: %q", p.Name, p.Summary)
		}
	}
}

// TestExampleConfig checks that the page on the configuration shows
// config.example.yaml.
func TestExampleConfig(t *testing.T) {
	t.Parallel()
	p, ok := New(exampleText).Page("configuration")
	if !ok || !strings.Contains(p.Markdown, "```yaml\n"+exampleText+"```\n") || strings.Contains(p.Markdown, exampleMark) {
		t.Error("the page does not show config.example.yaml")
	}
}

// TestLinks follows every link between pages.
func TestLinks(t *testing.T) {
	t.Parallel()
	all := New(exampleText).render()
	ids := map[string]bool{}
	for _, d := range all {
		ids[d.Name+".md"] = true
		for _, s := range d.sections {
			ids[d.Name+".md#"+s.ID] = true
		}
	}
	followed := 0
	for _, d := range all {
		for _, link := range d.links {
			if strings.Contains(link, "://") || strings.HasPrefix(link, "/") {
				continue
			}
			if strings.HasPrefix(link, "#") {
				link = d.Name + ".md" + link
			}
			if followed++; !ids[link] {
				t.Errorf("%s.md links to %s, which does not exist", d.Name, link)
			}
		}
	}
	if followed == 0 {
		t.Error("no page links to another one")
	}
}

// serve serves the manual at /docs.
func serve() http.Handler {
	m := New(exampleText)
	mux := http.NewServeMux()
	mux.Handle("/docs", m.Index("/docs"))
	mux.HandleFunc("/docs/{page}", func(w http.ResponseWriter, r *http.Request) {
		if !m.Serve(w, r.PathValue("page"), "../docs") {
			http.NotFound(w, r)
		}
	})
	return mux
}

func get(h http.Handler, target string) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHandler(t *testing.T) {
	t.Parallel()
	h := serve()
	for target, want := range map[string][]string{
		"/docs":                   {`<a href="docs/streams">Streams</a>`, `href="docs/style.css"`, `<h1>Manual</h1>`},
		"/docs/streams":           {`<h1 id="streams">Streams</h1>`, `href="style.css"`, `href="icon.svg"`, `aria-current="page"`, `href="../docs"`},
		"/docs/configuration":     {"data_dir: ./data"},
		"/docs/style.css":         {"color-scheme: light dark"},
		"/docs/icon.svg":          {"<svg xmlns", "Content-Type: image/svg+xml"},
		"/docs?q=dead+letter":     {`href="docs/bridges`, "<h1>Search</h1>"},
		"/docs?q=%3Cscript%3Exxx": {"0 sections hold <q>&lt;script&gt;xxx</q>"},
	} {
		r := get(h, target)
		text := body(t, r)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", target, r.StatusCode)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s does not hold %q", target, w)
			}
		}
		if strings.HasSuffix(target, ".css") || strings.HasSuffix(target, ".svg") {
			continue
		}
		if got := r.Header.Get("Content-Security-Policy"); got != policy {
			t.Errorf("%s: Content-Security-Policy is %q", target, got)
		}
		if strings.Contains(text, "<script") || strings.Contains(text, " style=") {
			t.Errorf("%s holds what its policy does not allow", target)
		}
	}
	if r := get(h, "/docs/no-such-page"); r.StatusCode != http.StatusNotFound {
		t.Errorf("a page that does not exist: status %d", r.StatusCode)
	}
}

// TestTemplate checks page.html against its data, also where no test takes a branch.
func TestTemplate(t *testing.T) {
	t.Parallel()
	own := template.Must(template.New("page").Parse(pageText)) // what others execute cannot be read meanwhile
	if err := templatecheck.CheckHTML(own, view{}); err != nil {
		t.Error(err)
	}
}

// TestWide checks that what does not wrap can be scrolled with the keyboard.
func TestWide(t *testing.T) {
	t.Parallel()
	got := parse(Page{Markdown: "| a |\n|---|\n| b |\n\n- in a list:\n\n      x\n\n```sh\ny\n```\n"}).HTML
	const table, code = `<div class="wide" role="group" aria-label="Table" tabindex="0">`, `<div class="wide" role="group" aria-label="Example" tabindex="0">`
	if strings.Count(got, table+"\n<table>") != 1 || strings.Count(got, code+"\n<pre>") != 2 || strings.Count(got, "</div>") != 3 {
		t.Errorf("got\n%s", got)
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	all := []*document{
		parse(Page{Name: "a", Title: "A", Markdown: "# A\n\nAbout *plants*.\n\n## Queue length\n\n| key | value |\n|---|---|\n| max | 10 |\n\n```sh\ncurl x\n```\n"}),
		parse(Page{Name: "b", Title: "B", Markdown: "# B\n\n" + strings.Repeat("long ", 200) + "the queue's length ends here " + strings.Repeat("ö", 300) + "\n"}),
	}
	for query, want := range map[string][]string{
		"":                         nil,
		"  ":                       nil,
		"PLANTS":                   {"a#"},
		"queue length":             {"a#queue-length", "b#"},
		"10 curl":                  {"a#queue-length"},
		"plants queue":             nil,
		"about":                    {"a#"},
		"long ö":                   {"b#"},
		strings.Repeat("x", 1<<20): nil,
	} {
		var got []string
		for _, r := range search(all, query) {
			got = append(got, r.Page.Name+"#"+r.ID)
			if len(r.Excerpt) > maxExcerpt+20 || strings.ContainsRune(r.Excerpt, '\uFFFD') {
				t.Errorf("%.20q: excerpt of %d bytes: %q", query, len(r.Excerpt), r.Excerpt)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%.20q: got %q, want %q", query, got, want)
		}
	}
	if r := search(all, "ends here"); len(r) != 1 || !strings.Contains(r[0].Excerpt, "ends here") {
		t.Errorf("the excerpt does not show what was found: %+v", r)
	}
	for n := range 20 {
		words := strings.Repeat("gamma delta epsilon ", 30) + strings.Repeat("x", n) + " needle " + strings.Repeat("zeta eta theta iota ", 30)
		got := excerpt(words, []string{"needle"})
		for _, word := range strings.Fields(got) {
			if word != "…" && !slices.Contains(strings.Fields(words), word) {
				t.Errorf("the excerpt has %q, a part of a word: %q", word, got)
			}
		}
		if !strings.Contains(got, " needle ") {
			t.Errorf("the excerpt lacks what was found: %q", got)
		}
	}
}

func FuzzSearch(f *testing.F) {
	f.Add("queue length", "the queue's length")
	f.Add("İ", "İİİ ẞ")
	f.Fuzz(func(t *testing.T, query, text string) {
		search([]*document{{sections: []section{{Title: text, Text: text}, {Text: text}}}}, query)
	})
}

// TestReadme checks that README.md can be read in a minute.
func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 7<<10 {
		t.Errorf("README.md has %d bytes, 7 KiB are the most; details belong into the manual", len(text))
	}
}
