package console_test

import (
	"path/filepath"
	"testing"

	"signalbox/router/apitest"
	"signalbox/router/appliance"
	"signalbox/router/console/browsertest"
)

// beyondEdges is a script that returns the elements of a selector that cannot be seen without
// scrolling a table sideways: they are beyond its edges, or under the actions of their row.
const beyondEdges = `(selector => [...document.querySelectorAll(selector)].filter(e => {
	const inner = e.getBoundingClientRect(), outer = e.closest('.scroll').getBoundingClientRect()
	const actions = e.closest('tr').querySelector('.row-actions')?.getBoundingClientRect().left ?? outer.right
	return inner.width === 0 || inner.left < outer.left || inner.right > actions
}).map(e => e.outerHTML))`

// TestNarrow checks what a narrow window shows without scrolling a table sideways: in the editor
// of a role the fields and buttons of every rule, and of each backup whether it is verified.
func TestNarrow(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, func(c *appliance.Config) { c.Backup.Directory = filepath.Join(t.TempDir(), "backups") })
	api.Root.Post("/api/backups", nil).Want(200)
	p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/roles/edit?rolename=admin")
	check := func(selector string, width int) {
		t.Helper()
		p.Show(browsertest.Variant{Theme: browsertest.Light, Width: width})
		var cut []string
		if p.Evaluate(beyondEdges+"('"+selector+"')", &cut); p.Count(selector) == 0 || len(cut) > 0 {
			t.Errorf("%d px: beyond the edge are %q", width, cut)
		}
		p.CheckWidth()
		p.CheckAccessibility()
	}
	for _, width := range []int{390, 320} {
		check("#draft tbody :is(button, input, select)", width)
		if rules := p.Count("#draft tbody tr") - 1; p.Count("#draft tbody button") != 3*rules+1 {
			t.Errorf("%d rules have %d buttons", rules, p.Count("#draft tbody button"))
		}
		var scrolls bool
		p.Evaluate("(e => e.scrollHeight > e.clientHeight)(document.querySelector('#draft .scroll'))", &scrolls)
		var starts int
		p.Evaluate("new Set([...document.querySelectorAll('#draft [name^=try]')].map(e => e.getBoundingClientRect().left)).size", &starts)
		if scrolls || starts != 1 {
			t.Errorf("%d px: the rules scroll in a part of the page: %t; the fields of the check begin at %d places", width, scrolls, starts)
		}
	}
	p.Go(api.URL + "/ui/backups")
	check("#list .state", 390)
	var lines float64
	p.Evaluate("(e => e.offsetHeight / parseFloat(getComputedStyle(e).lineHeight))(document.querySelector('#list th code'))", &lines)
	if lines > 3.5 {
		t.Errorf("the name of the backup is broken into %.0f lines", lines)
	}
}
