package console_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
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

// TestAuditFilter checks that the filter of the audit log leaves its rows most of a narrow window,
// shows how many of the filters that it hides are set, and opens for a wrong one.
func TestAuditFilter(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for mode, options := range map[string][]browsertest.Option{"with scripts": nil, "without scripts": {browsertest.WithoutScripts}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := signIn(t, api.URL+"/ui/audit", options...)
			p.Show(browsertest.Variant{Theme: browsertest.Light, Width: 390})
			var height float64
			p.Evaluate("document.querySelector('main form.filter').offsetHeight", &height)
			if height > 800/5 {
				t.Errorf("the filter is %.0f px high", height)
			}
			p.Click("main summary")
			p.Fill("[name=object]", "nothing")
			p.Fill("[name=address]", "192.0.2.1")
			p.Click("main form.filter button")
			p.WaitFor("document.readyState === 'complete' && document.querySelector('#filters').innerText.includes('(2)') && document.querySelector('#list .empty')")
			p.CheckWidth()
			if options == nil { // axe is a script
				p.CheckAccessibility()
			}
			p.Go(api.URL + "/ui/audit?since=2026-01-31T12:00&until=2199-01-31T12:00:30Z")
			if rows := p.Count("#list tbody tr"); rows == 0 || p.Count("main details[open]") > 0 {
				t.Errorf("%d events in two centuries, %d open parts", rows, p.Count("main details[open]"))
			}
			p.Go(api.URL + "/ui/audit?since=noon")
			if open, wrong := p.Count("main details[open]"), p.Count("details [name=since][aria-invalid=true]"); open != 1 || wrong != 1 {
				t.Errorf("a time that is none: %d open parts, %d invalid fields", open, wrong)
			}
		})
	}
}

// TestStreamsWidth checks that a window of 1280 pixels shows every column of the streams, also the
// messages per second once they are measured, in all languages, and that a narrow one scrolls the
// table only.
func TestStreamsWidth(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Post(api.At("/streams"), object{"streamname": "average-speed", "textname": "Speed", "sourceTopic": "plant/+/machines/+/raw", "targetTopic": "plant/average/speed",
		"persist": true, "process": true, "ttl": 86400}).Want(204)
	api.Root.Post(api.At("/messages"), object{"topic": "plant/7/machines/3/raw", "payload": "1", "qos": 1}).Want(204)
	for _, language := range []string{"en", "de", "es", "fr"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/streams", browsertest.WithLanguage(language))
			p.Click("#rates")
			p.WaitFor("location.search.includes('rates=true') && [...document.querySelectorAll('#list td.number')].length === 3")
			checkListWidth(p, t)
		})
	}
}

// checkListWidth checks that a window of 1280 pixels shows every column of the list, and that a
// narrow one scrolls the list only.
func checkListWidth(p *browsertest.Page, t *testing.T) {
	t.Helper()
	p.Show(browsertest.Variant{Theme: browsertest.Light, Width: 1280})
	var inner, outer int
	p.Evaluate("document.querySelector('#list .scroll').scrollWidth", &inner)
	p.Evaluate("document.querySelector('#list .scroll').clientWidth", &outer)
	if inner > outer {
		t.Errorf("the table is %d px wide, %d fit", inner, outer)
	}
	p.CheckAccessibility()
	p.Show(browsertest.Variant{Theme: browsertest.Light, Width: 390})
	p.CheckWidth()
	p.CheckAccessibility()
}

// TestSessionsWidth checks that a window of 1280 pixels shows every column of the connected clients,
// their listener, rates and dropped messages included, in all languages, and that a narrow one scrolls the table only.
func TestSessionsWidth(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Post(api.At("/clients"), object{"username": "pump-7", "password": secret}).Want(204)
	leaveSession(t, api, "valve-0001")
	connected := mqtttest.Dial(t, api.Listeners[0], nil, packet.V5)
	connected.Connect(mqtttest.As("pump-7", secret), mqtttest.WithID("meter-0001"))
	sessions := api.URL + "/ui/p/" + api.Project + "/b/" + api.Embedded + "/sessions"
	for _, language := range []string{"en", "de", "es", "fr"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			p := signIn(t, sessions, browsertest.WithLanguage(language))
			p.Click("#rates")
			p.WaitFor("location.search.includes('rates=true') && [...document.querySelectorAll('#list td.number')].length === 8")
			if text := p.Text("#list tbody"); !strings.Contains(text, api.MQTT) {
				t.Errorf("the listener %s is not in\n%s", api.MQTT, text)
			}
			checkListWidth(p, t)
		})
	}
}

// TestSessionsFilter selects the sessions that did not get messages, and those of all states again.
func TestSessionsFilter(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, func(c *appliance.Config) { c.Broker.MaxQueuedMessages = 2 })
	api.Root.Post(api.At("/clients"), object{"username": "pump-7", "password": secret}).Want(204)
	for _, id := range []string{"meter-0001", "meter-0002", "valve-0001"} {
		leaveSession(t, api, id)
	}
	api.Root.Post(api.At("/client-inspect/subscriptions"), object{"clientid": "meter-0002", "topic": "plant/#", "qos": 1}).Want(204)
	for range 7 {
		api.Root.Post(api.At("/messages"), object{"topic": "plant/1", "payload": "x", "qos": 1}).Want(204)
	}
	for mode, options := range map[string][]browsertest.Option{"with scripts": nil, "without scripts": {browsertest.WithoutScripts}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/sessions", options...)
			if rows := p.Count("#list tbody tr"); rows != 3 {
				t.Errorf("%d sessions, want 3", rows)
			}
			choose := func(rows int) {
				t.Helper()
				p.Click("#dropped")
				if options != nil {
					p.Click("main form.filter > button")
				}
				p.WaitFor(fmt.Sprintf("document.readyState === 'complete' && document.querySelector('#dropped')?.checked === %t && document.querySelectorAll('#list tbody tr').length === %d", rows == 1, rows))
			}
			choose(1)
			var figures []string
			p.Evaluate("[...document.querySelectorAll('#list :is(tbody th, td.number)')].map(e => e.innerText)", &figures)
			if len(figures) != 4 || figures[0] != "meter-0002" || figures[1] != "1" || !strings.HasPrefix(figures[2], "2 ·") || !strings.HasSuffix(figures[2], "\n0") || figures[3] != "5" {
				t.Errorf("got %q", figures)
			}
			if !strings.Contains(p.URL(), "dropped=true") {
				t.Errorf("the address is %s", p.URL())
			}
			p.Show(browsertest.Variant{Theme: browsertest.Light, Width: 390})
			p.CheckWidth()
			choose(3)
		})
	}
}
