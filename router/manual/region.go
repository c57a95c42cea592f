package manual

import (
	"fmt"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// region is a part of a page that scrolls sideways by itself where the window is too
// narrow for it. It can have the focus, so that the keyboard scrolls it too.
type region struct {
	ast.BaseBlock
	label string // for screen readers
}

var kindRegion = ast.NewNodeKind("Region")

// Kind implements ast.Node.
func (*region) Kind() ast.NodeKind { return kindRegion }

// Dump implements ast.Node.
func (r *region) Dump(source []byte, level int) { ast.DumpHelper(r, source, level, nil, nil) }

// wideLabels are the kinds of nodes that do not wrap.
var wideLabels = map[ast.NodeKind]string{
	ast.KindCodeBlock: "Example", ast.KindFencedCodeBlock: "Example", extast.KindTable: "Table",
}

// wrapWide wraps each node that does not wrap its content in a region.
func wrapWide(root ast.Node) {
	var wide []ast.Node
	ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) { //nolint:errcheck // the function returns none
		if entering && wideLabels[n.Kind()] != "" {
			wide = append(wide, n)
		}
		return ast.WalkContinue, nil
	})
	for _, n := range wide {
		r := &region{label: wideLabels[n.Kind()]}
		n.Parent().ReplaceChild(n.Parent(), n, r)
		r.AppendChild(r, n)
	}
}

// regionRenderer writes regions.
type regionRenderer struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (regionRenderer) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(kindRegion, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			fmt.Fprintf(w, "<div class=\"wide\" role=\"group\" aria-label=%q tabindex=\"0\">\n", n.(*region).label)
			return ast.WalkContinue, nil
		}
		_, err := w.WriteString("</div>\n")
		return ast.WalkContinue, err
	})
}
