package browsertest

import (
	_ "embed"
	"fmt"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Keys and modifiers for Press.
const (
	Enter  = kb.Enter
	Escape = kb.Escape
	Left   = kb.ArrowLeft
	Tab    = kb.Tab
	Ctrl   = input.ModifierCtrl
)

// Press presses keys one after the other, each with the modifiers.
func (p *Page) Press(keys string, modifiers ...input.Modifier) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys, chromedp.KeyModifiers(modifiers...)))
}

// maxTabs is the number of elements of a page after which TabTo stops.
const maxTabs = 500

// TabTo presses Tab until an element that a selector selects has the focus.
func (p *Page) TabTo(selector string) {
	p.t.Helper()
	for range maxTabs {
		p.Press(Tab)
		var found bool
		if p.Evaluate(fmt.Sprintf("Boolean(document.activeElement?.matches(%q))", selector), &found); found {
			return
		}
	}
	p.t.Fatalf("%sTab does not reach %s on %s", p.tag, selector, p.URL())
}

//go:embed describe.js
var describeScript string

//go:embed focus.js
var focusScript string

// tabStop is an element that has the focus.
type tabStop struct {
	Element string // "" if it is the same as before: a part of the element
	Faults  []string
	End     bool // there is none, or it had the focus before
}

// CheckKeyboard walks through the page with Tab, from the position of the focus, which
// after loading is the page's beginning. It fails the test if an element with which the
// user can do something is not reached, or cannot be seen when it has the focus. It
// returns the elements in their order.
func (p *Page) CheckKeyboard() (order []string) {
	p.t.Helper()
	p.inspect(describeScript+focusScript+";beginWalk()", nil)
	for {
		p.Press(Tab)
		var s tabStop
		if p.inspect("visit()", &s); s.End {
			break
		}
		if s.Element == "" {
			continue
		}
		order = append(order, s.Element)
		for _, fault := range s.Faults {
			p.t.Errorf("%s%s %s", p.tag, s.Element, fault)
		}
	}
	var missed []string
	p.inspect("missed()", &missed)
	for _, element := range missed {
		p.t.Errorf("%s%s cannot be reached with Tab", p.tag, element)
	}
	return order
}
