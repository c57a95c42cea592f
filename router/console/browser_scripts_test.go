package console_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
	"signalbox/scripts/suite"
)

// TestDialog opens a form as a dialog, with the keyboard alone: it is closed, refused,
// and sent.
func TestDialog(t *testing.T) {
	t.Parallel()
	p := signIn(t, apitest.New(t).URL+"/ui/users")
	const opener = "main .heading [data-dialog]"
	open := func() {
		t.Helper()
		p.Evaluate(fmt.Sprintf("document.querySelector(%q).focus()", opener), nil)
		p.Press(browsertest.Enter)
		p.WaitFor("document.querySelector('#dialog').open && document.activeElement.matches('#dialog input')")
	}
	open()
	p.CheckAccessibility()
	p.Press(browsertest.Escape)
	p.WaitFor(fmt.Sprintf("!document.querySelector('#dialog').open && document.activeElement.matches(%q)", opener))
	open()
	p.Expect("400 Bad Request")
	send := func(email string) {
		p.Fill("#dialog [name=email]", email)
		p.Fill("#dialog [name=password]", apitest.RootPassword)
		p.Fill("#dialog [name=repeated]", apitest.RootPassword)
		p.Press(browsertest.Enter)
	}
	p.Fill("#dialog [name=firstname]", "Ada")
	send("no address")
	p.WaitFor("document.activeElement.matches('#dialog [name=email][aria-invalid=true][aria-describedby]')")
	p.CheckAccessibility()
	send("ada@example.com")
	p.WaitFor("!document.querySelector('#dialog')?.open && document.querySelector('#list').innerText.includes('ada@example.com')")
}

// TestBridgeForm makes the configuration of a bridge on a narrow window: each state of the form
// is accessible, and the focus is where the next thing is to be done.
func TestBridgeForm(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/bridges/nats-bridge/config")
	check := func(name string) {
		t.Helper()
		p.CheckAccessibility()
		p.CheckWidth()
		p.Screenshot("bridge form " + name)
	}
	p.Show(browsertest.Variant{Theme: browsertest.Light, Width: 320})
	const field, save = "/connections/0/", "main form > .actions > .primary"
	p.Click(`button[value="add:/connections"]`)
	p.WaitFor(`document.activeElement.name === "` + field + `name"`)
	p.Click(`button[value="add:` + field + `topicMappings"]`)
	p.WaitFor(`document.activeElement.name === "` + field + `topicMappings/0/name"`)
	p.Expect("400 Bad Request")
	p.Click(save)
	p.WaitFor(`document.activeElement.matches('[name="` + field + `name"][aria-invalid=true]')`)
	check("errors")
	for name, text := range map[string]string{"name": "plant", "connection/servers": "nats://127.0.0.1:9", "connection/token": "a very secret word",
		"topicMappings/0/name": "all", "topicMappings/0/mqttTopics": "plant/#"} {
		p.Evaluate(fmt.Sprintf("document.querySelector('[name=%q]').value = %q", field+name, text), nil)
	}
	p.Evaluate(`document.querySelector('[name="payload"]').value = "on"`, nil)
	const size = field + "options/batchSize"
	p.Evaluate(fmt.Sprintf("document.querySelector('[name=%q]').closest('details').open = true", size), nil)
	p.Fill(`[name="`+size+`"]`, "many")
	p.Click(save)
	p.WaitFor(`document.querySelector('[name="` + size + `"][aria-invalid=true]')?.value === "many"`)
	check("no number")
	p.Fill(`[name="`+size+`"]`, "5")
	p.Fill(`[name="topic"]`, "plant/7")
	p.Click(`button[value="preview"]`)
	p.WaitFor(`document.querySelector("main .payload")?.innerText.trim() === "on" && document.activeElement.value === "preview"`)
	check("preview")
	var text string
	p.Evaluate("document.documentElement.outerHTML", &text)
	if strings.Contains(text, "a very secret word") {
		t.Error("the page has the secret that was typed")
	}
	p.Click(`button[value="json"]`)
	p.WaitFor(`document.querySelector('[name="config"]')?.value.includes('"servers"')`)
	check("JSON")
	p.Click(`button[value="fields"]`)
	p.WaitFor(`document.querySelector('[name="` + field + `name"]')?.value === "plant"`)
	check("fields")
}

// TestPalette goes to a page by a part of its name.
func TestPalette(t *testing.T) {
	t.Parallel()
	p := signIn(t, apitest.New(t).URL+"/ui/home")
	p.Press("k", browsertest.Ctrl)
	p.WaitFor("document.querySelector('#palette').open && document.querySelectorAll('#palette [role=option]').length > 1")
	p.CheckAccessibility()
	p.Press(browsertest.Escape)
	p.WaitFor("!document.querySelector('#palette').open")
	p.Press("k", browsertest.Ctrl)
	p.WaitFor("document.querySelector('#palette').open && document.activeElement.matches('#palette input')")
	p.Press("users")
	p.WaitFor("document.querySelector('#palette [aria-selected=true]')?.dataset.link.endsWith('/ui/users')")
	p.Press(browsertest.Enter)
	p.WaitFor("location.pathname === '/ui/users'")
}

// TestShortcuts lists the shortcuts and uses one.
func TestShortcuts(t *testing.T) {
	t.Parallel()
	p := signIn(t, apitest.New(t).URL+"/ui/home")
	p.Press("?")
	p.WaitFor("document.querySelector('#keys').open")
	p.CheckAccessibility()
	p.Press(browsertest.Escape)
	var key, link string
	p.Evaluate("document.querySelector('.side [data-key]:not([aria-current])').dataset.key", &key)
	p.Evaluate("document.querySelector('.side [data-key]:not([aria-current])').href", &link)
	p.Evaluate("Date.now = () => 1e12", nil) // the two keys belong together, however slow the machine is
	p.Press("g" + key)
	p.WaitFor(fmt.Sprintf("location.href === %q && document.readyState === 'complete'", link))
}

// TestForcedColors shows the button for the most important action as one, in the colours of the
// user's system.
func TestForcedColors(t *testing.T) {
	t.Parallel()
	p := signIn(t, apitest.New(t).URL+"/ui/users")
	p.Show(browsertest.Variant{Theme: browsertest.ForcedColors, Width: 1280})
	p.Evaluate(`const e = document.body.appendChild(document.createElement('p'))
		e.id = 'probe'
		for (const [name, value] of Object.entries({ forcedColorAdjust: 'none', background: 'Highlight', color: 'HighlightText' })) e.style[name] = value`, nil)
	colors := func(selector string) (text string) {
		p.Evaluate(fmt.Sprintf("(s => s.backgroundColor + ' ' + s.color)(getComputedStyle(document.querySelector(%q)))", selector), &text)
		return text
	}
	if got, want := colors("main .heading .primary"), colors("#probe"); got != want {
		t.Errorf("the button has the colours %s, want %s", got, want)
	}
}

// TestRetry filters a list while the service cannot be reached: it is tried again, but not while
// the page is hidden.
func TestRetry(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/clients")
	p.Evaluate(`var sent = 0, retry, isHidden = false, isDown = true
		Object.defineProperty(document, 'hidden', { get: () => isHidden })
		window.fetch = (fetch => (...all) => { sent++; return isDown ? Promise.reject(new TypeError('down')) : fetch(...all) })(window.fetch)
		window.setTimeout = (set => (f, ms) => ms === 3000 ? (retry = f, 0) : set(f, ms))(window.setTimeout)`, nil)
	trying := func(what string, expression string, want int) {
		t.Helper()
		var got int
		if p.Evaluate("sent = 0; "+expression+"; sent", &got); got != want {
			t.Errorf("%s: %d requests, want %d", what, got, want)
		}
	}
	const failed = "document.querySelector('main > .failed')"
	p.Fill(`form[data-filter] [type="search"]`, "admin")
	p.WaitFor("retry && " + failed)
	trying("a visible page", "retry()", 1)
	p.WaitFor(failed)
	trying("a hidden page", "isHidden = true; retry()", 0)
	trying("a page that is shown again", "isHidden = isDown = false; document.dispatchEvent(new Event('visibilitychange'))", 1)
	p.WaitFor("!" + failed + " && location.search.includes('admin')")
	trying("a page that was loaded", "document.dispatchEvent(new Event('visibilitychange'))", 0)
}

// TestOwnMistakes makes a script of the page fail: that does not count as a service that cannot
// be reached.
func TestOwnMistakes(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/clients")
	p.Expect("TypeError: of the page")
	p.Evaluate("var thrown; history.replaceState = () => { thrown = true; throw new TypeError('of the page') }", nil)
	p.Fill(`form[data-filter] [type="search"]`, "admin")
	p.WaitFor("thrown")
	if text := p.Text("main > .failed"); text != "" {
		t.Errorf("the page says %q", text)
	}
}

// TestBack returns to a filtered list with its filter, as reloading does.
func TestBack(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for i := range 60 {
		api.Root.Post("/api/users", object{"email": fmt.Sprintf("user%02d@example.com", i), "password": apitest.RootPassword}).Want(200)
	}
	p := signIn(t, api.URL+"/ui/users")
	p.Click("[rel=next]")
	p.WaitFor("location.search.includes('offset=') && document.querySelector('#list tbody th').innerText.length > 0")
	const name = "#list tbody tr:first-child th"
	second := p.Text(name)
	p.Reload()
	if got := p.Text(name); got != second {
		t.Errorf("after reloading, the list begins with %s, not with %s", got, second)
	}
	p.Back()
	p.WaitFor(fmt.Sprintf("!location.search.includes('offset=') && document.querySelector(%q).innerText.trim() !== %q", name, second))
}

// TestHostileNames checks what scripts show of them: results of the palette, dialogs, and
// lists that they filter.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	plant := newPlant(t, hostileName)
	p := signIn(t, plant.URL+"/ui/p/"+plant.Project+"/b/"+plant.Embedded+"/clients")
	p.Fill(`input[name="filterValue"]`, "PUMP")
	p.WaitFor("location.search.includes('PUMP') && document.querySelectorAll('#list tbody tr').length === 1")
	checkText(t, p)
	p.Press("k", browsertest.Ctrl)
	p.WaitFor("document.activeElement.matches('#palette input')")
	p.Press("pump")
	const result = `#palette [data-link*="/client?"]`
	p.WaitFor(fmt.Sprintf("document.querySelector(%q)?.innerText.includes(%q)", result, markup+"⟨U+202E⟩"))
	checkText(t, p)
	p.CheckWidth()
	p.Click(result)
	p.WaitFor("location.pathname.endsWith('/client') && document.readyState === 'complete'")
	for _, page := range []string{"clients/edit", "clients/password", "clients/delete"} {
		p.Click(fmt.Sprintf(`[href*="/%s?"]`, page))
		p.WaitFor(fmt.Sprintf("document.querySelector('#dialog[open]')?.innerText.includes(%q)", markup))
		checkText(t, p)
		p.CheckWidth()
		p.CheckAccessibility()
		p.Press(browsertest.Escape)
		p.WaitFor("!document.querySelector('#dialog').open")
	}
}

// TestListen shows hostile messages as they are published.
func TestListen(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/messages")
	p.Fill("#listen-filters", "other\n#\n+")
	p.Evaluate("var source; window.EventSource = class extends EventSource { constructor(address) { super(address); source = this } }", nil)
	p.Click("[data-listen] button")
	suite.WaitFor(t, "a message is shown", func() bool { // those before the subscription are not
		api.Root.Post(api.At("/messages"), object{"topic": hostile, "payload": hostile, "contentType": hostile,
			"userProperties": []object{{"name": hostile, "value": "of the user"}}}).Want(204)
		return strings.Contains(p.Text(".scroll tbody tr"), markup)
	})
	if text := p.Text(".scroll tbody tr"); !strings.Contains(text, "contentType: "+markup) || !strings.Contains(text, "=of the user") {
		t.Errorf("the properties are not shown: %s", text)
	}
	p.Evaluate(`source.onmessage({ data: JSON.stringify({ at: 0, topic: 'lines', payload: '', qos: 0, properties: { contentType: 'a\nb: c', userProperties: [{ name: 'd\ne', value: 'f\ng: h' }] } }) })`, nil)
	if text := p.Text(".scroll tbody tr td:last-child"); text != "contentType: a⟨U+000A⟩b: c\nd⟨U+000A⟩e=f⟨U+000A⟩g: h" {
		t.Errorf("line feeds in properties are shown as\n%s", text)
	}
	p.Click(`[data-listen] [aria-pressed]`)
	rows, left := "document.querySelectorAll('.scroll tbody tr').length", "Number(document.querySelector('[data-script] output').textContent)"
	number := func(expression string) (n int) {
		p.Evaluate(expression, &n)
		return n
	}
	leftOut := func(what string, more int) {
		t.Helper()
		suite.WaitFor(t, what, func() bool {
			api.Root.Post(api.At("/messages"), object{"topic": "other", "payload": "x"}).Want(204)
			return number(left) >= more
		})
	}
	leftOut("a message is counted while the list is paused", 1)
	before := number(rows)
	leftOut("more messages are counted", number(left)+2)
	if after := number(rows); after != before {
		t.Errorf("while the list is paused, it grows from %d to %d messages", before, after)
	}
	p.Show(browsertest.Variant{Theme: browsertest.Light, Width: 320})
	checkText(t, p)
	p.CheckWidth()
	p.CheckAccessibility()
}

// TestStreamEditor builds a query, whose preview follows the messages of the source.
func TestStreamEditor(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/streams/new")
	p.Fill("#f-sourcetopic", "plant/#")
	p.Click(`[value="add"]`)
	p.Expect("400 Bad Request")
	const source = `[name="query/select/0/source"]`
	p.WaitFor(fmt.Sprintf("document.querySelector(%q)", source))
	p.Fill(source, "speed")
	p.Fill(`[name="query/select/0/target"]`, "[v]")
	p.Click("[data-follow]")
	p.WaitFor("document.querySelector('#outcome').innerText.includes('select[0].source must be names in brackets')")
	p.Click(`button[value="preview"]:not([aria-hidden])`)
	p.WaitFor(fmt.Sprintf("document.activeElement.matches('%s[aria-invalid=true]')", source))
	p.Fill(source, "[speed]")
	publish := func(what, until string) {
		t.Helper()
		suite.WaitFor(t, what, func() (holds bool) {
			for _, payload := range []string{`{"speed":"` + strings.ReplaceAll(hostile, `"`, "'") + `"}`, "text"} {
				api.Root.Post(api.At("/messages"), object{"topic": "plant/7", "payload": payload}).Want(204)
			}
			p.Evaluate("Boolean("+until+")", &holds)
			return holds
		})
	}
	published := func(what, want string) {
		t.Helper()
		publish(what, fmt.Sprintf("document.querySelector('#outcome').innerText.includes(%q)", want))
	}
	published("a result is shown", `{"v":"`+strings.ReplaceAll(markup, `"`, "'"))
	published("what is dropped is shown", "not JSON")
	p.Show(browsertest.Variant{Theme: browsertest.Light, Width: 320})
	checkText(t, p)
	p.CheckWidth()
	p.CheckAccessibility()
	p.Fill(`[name="query/select/0/target"]`, "[w]")
	published("the preview follows the form", `{"w":`)
	p.Click(`[value="json"]`)
	p.WaitFor("document.querySelector('#f-query')?.value.includes('[w]')")
	p.CheckAccessibility()
	published("the preview goes on in the other tab", `{"w":`)
	p.Click("[data-follow]")
	p.WaitFor("document.querySelector('[data-follow]').ariaPressed === 'false'")
	p.Fill("#f-streamname", "speeds")
	p.Click(`[value="save"]`)
	p.WaitFor("location.pathname.endsWith('/streams/detail') && document.readyState === 'complete'")
	p.Click(`a[href*="/streams/edit?"]`)
	p.WaitFor("location.pathname.endsWith('/streams/edit') && document.querySelector('[data-follow]')?.onclick")
	p.Click("[data-follow]")
	published("the preview follows a stream that exists", `{"w":`)
	testFollowedSource(t, p, publish)
}

// testFollowedSource changes the source of a preview that follows it: the connection is made
// anew when the field is left, and what the API refuses is shown in its words.
func testFollowedSource(t *testing.T, p *browsertest.Page, publish func(what, until string)) {
	t.Helper()
	const outdate = "document.querySelectorAll('#outcome th').forEach(th => { th.dataset.old = 'true' })" // none before the first message
	const isNew = "document.querySelector('#outcome th:not([data-old])')"
	for range 2 {
		p.Evaluate("(document.querySelector('#outcome[tabindex]') ?? document.querySelector('#outcome .scroll')).focus(); "+outdate, nil)
		publish("the outcome is shown anew, and keeps the focus", isNew+" && document.activeElement.closest('#outcome')")
	}
	p.Evaluate(`var opened = [], sent = 0
		window.EventSource = class extends EventSource { constructor(address) { super(address); opened.push(new URL(address, location).searchParams.get('filter')) } }
		window.fetch = (fetch => (...all) => { sent++; return fetch(...all) })(window.fetch)`, nil)
	p.Fill("#f-sourcetopic", "plant/7")
	p.WaitFor("sent > 0")
	var opened string
	if p.Evaluate("opened.join()", &opened); opened != "" {
		t.Errorf("while the source is typed, the preview follows %s", opened)
	}
	p.Press(browsertest.Tab)
	p.WaitFor("opened.join() === 'plant/7'")
	p.Evaluate(outdate, nil)
	publish("the preview follows the other source", isNew)
	p.Expect("400 Bad Request")
	p.Fill("#f-sourcetopic", "plant/#/7")
	p.Press(browsertest.Tab)
	p.WaitFor("document.querySelector('main > .failed')?.innerText.includes('filter') && document.querySelector('[data-follow]').ariaPressed === 'false'")
	p.Fill("#f-sourcetopic", "plant/#")
	p.Click("[data-follow]")
	p.WaitFor("!document.querySelector('main > .failed')")
	p.Evaluate(outdate, nil)
	publish("the preview follows again", isNew)
}

// TestTimeline chooses a period by dragging over what a stream stores.
func TestTimeline(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Post(api.At("/streams"), object{"streamname": "kept", "sourceTopic": "in", "persist": true}).Want(204)
	for range 3 {
		api.Root.Post(api.At("/messages"), object{"topic": "in", "payload": "x", "qos": 1}).Want(204)
	}
	p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/streams/clear?streamname=kept")
	p.WaitFor("document.querySelector('[data-first]').onpointerdown")
	const first, last = "document.querySelector('[data-first]').dataset.first", "document.querySelector('[data-first]').dataset.last"
	const gte, lte = "document.querySelector('#f-count-gte').valueAsNumber", "document.querySelector('#f-count-lte').valueAsNumber"
	p.Evaluate(first+" -= 600_000", nil)                                                         // as if the first message were older
	p.WaitFor("getComputedStyle(document.querySelector('[data-first]')).touchAction === 'none'") // or a finger scrolls
	for _, c := range []struct {
		from, to float64
		want     string
	}{
		{1.2, 0.5, fmt.Sprintf("isNaN(%s) && isNaN(%s)", gte, lte)}, // it begins outside
		{0.5, -0.2, fmt.Sprintf("%s === Math.floor(%s / 1000) * 1000 && Math.abs(%[3]s - %[2]s - 300_000) < 10_000", gte, first, lte)},
		{0.5, 1.2, fmt.Sprintf("%s === Math.ceil(%s / 1000) * 1000 && Math.abs(%[2]s - %[3]s - 300_000) < 10_000", lte, last, gte)},
	} {
		p.Drag("[data-first]", c.from, c.to)
		var holds bool
		if p.Evaluate(c.want, &holds); !holds {
			t.Errorf("after dragging from %v to %v: %s does not hold", c.from, c.to, c.want)
		}
	}
	p.Click(`form .primary, form .danger`)
	p.WaitFor("document.querySelector('#range')?.innerText.includes('3 of 3 stored messages')")
	p.CheckAccessibility()
	p.Click(`button.danger`)
	p.WaitFor("document.readyState === 'complete' && document.querySelector('#stream')?.innerText.includes('stores no message')")
}
