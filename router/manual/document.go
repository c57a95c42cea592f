package manual

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown parses GitHub's dialect. Raw HTML is omitted from the pages.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(regionRenderer{}, 100))))

// document is a parsed page.
type document struct {
	Page
	HTML     string
	sections []section
	links    []string // destinations, as written
}

// section is the content below one heading, for the search.
type section struct {
	ID    string // of the heading, "" for the page's title
	Title string
	Text  string // without markup, on one line
}

func parse(p Page) *document {
	source := []byte(p.Markdown)
	root := markdown.Parser().Parse(text.NewReader(source))
	wrapWide(root)
	d := &document{Page: p}
	d.collect(root, source)
	var b bytes.Buffer
	if err := markdown.Renderer().Render(&b, source, root); err != nil {
		panic(err) // writes to a buffer succeed
	}
	d.HTML = b.String()
	return d
}

// collect splits the page into sections, and rewrites links to pages, "x.md#y", to
// their addresses, "x#y".
func (d *document) collect(root ast.Node, source []byte) {
	var body strings.Builder
	finish := func() {
		if n := len(d.sections); n > 0 {
			d.sections[n-1].Text = strings.Join(strings.Fields(body.String()), " ")
		}
		body.Reset()
	}
	ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { //nolint:errcheck // the function returns none
		if !entering {
			if n.Type() == ast.TypeBlock || n.Kind() == extast.KindTableCell {
				body.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			finish()
			d.sections = append(d.sections, newSection(n, source))
			return ast.WalkSkipChildren, nil
		case *ast.Link:
			d.links = append(d.links, string(n.Destination))
			n.Destination = []byte(address(string(n.Destination)))
		case *ast.Text:
			body.Write(n.Segment.Value(source))
			body.WriteByte(' ')
		case *ast.FencedCodeBlock:
			body.Write(n.Lines().Value(source))
		}
		return ast.WalkContinue, nil
	})
	finish()
}

func newSection(n *ast.Heading, source []byte) section {
	s := section{Title: plain(n, source)}
	if id, ok := n.AttributeString("id"); ok && n.Level > 1 {
		s.ID = string(id.([]byte))
	}
	return s
}

// plain returns the text below a node without markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(source))
			continue
		}
		b.WriteString(plain(c, source))
	}
	return b.String()
}

// address returns the target of a page's link when the pages are served: they are in
// one directory, without the extension of their files.
func address(link string) string {
	name, fragment, found := strings.Cut(link, "#")
	name = strings.TrimSuffix(name, ".md")
	if found {
		return name + "#" + fragment
	}
	return name
}
