// Package manual is the operator's manual: pages of Markdown, embedded in the binary.
// The router serves them as HTML at /docs, and "signalbox help TOPIC" prints them.
//
// It must not import any other package of this module than handlers/packed.
package manual

import (
	_ "embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"signalbox/handlers/packed"
)

// packedPages has the files *.md, a third of their size; a test compares them.
//
//go:embed pages.zip.zst
var packedPages []byte

// order is the order of the pages in lists. A test compares it with the files.
var order = []string{
	"first-steps", "day", "install", "brokers", "embedded-broker", "access-control", "streams", "bridges", "clusters",
	"command-line", "declared-state", "configuration", "errors", "metrics", "backup", "upgrade", "troubleshooting", "audit", "migration", "security", "glossary",
}

// exampleMark is the position of config.example.yaml in a page.
const exampleMark = "<!-- config.example.yaml -->\n"

// Page is a page of the manual.
type Page struct {
	Name     string // as in its address and in "signalbox help NAME"
	Title    string
	Summary  string // one sentence, in plain text
	Markdown string // the whole page, with its title
}

// Manual is the manual of a release.
type Manual struct {
	pages  []Page
	render func() []*document // parses all pages, once
}

// New returns the manual with the text of config.example.yaml inserted.
func New(configExample string) *Manual {
	m := &Manual{}
	files, err := packed.Open(packedPages)
	if err != nil {
		panic(err) // embedded above
	}
	for _, name := range order {
		text, err := fs.ReadFile(files, name+".md")
		if err != nil {
			panic(err) // embedded above
		}
		m.pages = append(m.pages, read(name, strings.Replace(string(text), exampleMark, "```yaml\n"+configExample+"```\n", 1)))
	}
	m.render = sync.OnceValue(func() []*document {
		var all []*document
		for _, p := range m.pages {
			all = append(all, parse(p))
		}
		return all
	})
	return m
}

// read returns a page with its title and summary: its first line and first paragraph.
func read(name, text string) Page {
	head, rest, _ := strings.Cut(text, "\n")
	summary, _, _ := strings.Cut(strings.TrimSpace(rest), "\n\n")
	return Page{Name: name, Title: strings.TrimPrefix(head, "# "), Summary: strings.Join(strings.Fields(summary), " "), Markdown: text}
}

// Pages returns all pages in reading order.
func (m *Manual) Pages() []Page { return slices.Clone(m.pages) }

// Page returns the page with a name, and false if there is none.
func (m *Manual) Page(name string) (Page, bool) {
	i := slices.IndexFunc(m.pages, func(p Page) bool { return p.Name == name })
	if i < 0 {
		return Page{}, false
	}
	return m.pages[i], true
}

// Topics returns a text that lists the pages, each with its summary, for the command
// line.
func (m *Manual) Topics() string {
	var b strings.Builder
	for _, p := range m.pages {
		fmt.Fprintf(&b, "  %-16s %s\n", p.Name, p.Summary)
	}
	return b.String()
}
