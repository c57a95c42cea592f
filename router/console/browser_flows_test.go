package console_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
)

// keyboard is a user without a pointer.
type keyboard struct {
	*browsertest.Page
	plant   *plant
	scripts bool // run in the browser
}

// fill types into a field, in which the Tab key has selected what it contains.
func (k *keyboard) fill(selector, text string) {
	k.TabTo(selector)
	k.Press(text)
}

// enter presses Enter on an element and waits for an element of what that leads to.
func (k *keyboard) enter(selector, shown string) {
	k.TabTo(selector)
	k.Press(browsertest.Enter)
	k.await(shown)
}

// await waits until an element is shown and the page has loaded.
func (k *keyboard) await(shown string) {
	k.WaitFor(fmt.Sprintf("document.readyState === 'complete' && document.querySelector(%q)?.checkVisibility()", shown))
}

// flow is what an operator does, from a page on that is below the project or, with "b/",
// below the embedded broker.
type flow struct {
	name, start string
	walk        func(k *keyboard)
}

// flows are possible with the keyboard alone, and without scripts. None needs another one.
var flows = []flow{
	{"sign in and out", "", func(k *keyboard) {
		k.enter(`[popovertarget="user-menu"]`, "#user-menu form button")
		k.enter("#user-menu form button", "#f-password")
		k.fill("#f-email", apitest.RootEmail)
		k.fill("#f-password", apitest.RootPassword)
		k.Press(browsertest.Enter)
		k.await("nav.side")
	}},
	{"from the project to a client", "brokers", func(k *keyboard) {
		k.enter(`main a[href*="`+k.plant.Embedded+`"]`, ".figures")
		k.enter(`nav.side a[href$="/clients"]`, `input[name="filterValue"]`)
		k.fill(`input[name="filterValue"]`, "pump")
		k.enter("main .filter button", "#list tbody")
		k.enter(`main a[href*="/client?username=pump-7"]`, "#rights")
	}},
	{"create a role", "b/roles", func(k *keyboard) {
		k.enter(`main .heading a[href$="/roles/new"]`, "#f-rolename")
		k.fill("#f-rolename", "valve")
		k.fill(`[name="new/topic"]`, "valve/#")
		k.enter(`[value="add"]`, `[name="acls/0/topic"]`)
		k.fill("#try-topic", "valve/1")
		k.enter(`[value="try"]`, "#try ~ [role=status], [aria-labelledby=try] [role=status]")
		k.enter(`.actions button[value="preview"]`, `#preview ~ form [value="save"]`)
		k.enter(`#preview ~ form [value="save"]`, `a[href*="/roles/edit?rolename=valve"]`)
	}},
	{"create a client", "b/clients", func(k *keyboard) {
		k.enter(`main .heading a[href$="/clients/new"]`, `[name="username"]`)
		k.fill(`[name="username"]`, "valve-1")
		k.fill(`[name="password"]`, secret)
		k.enter(`form[method="post"] .primary`, `a[href*="/clients/edit?username=valve-1"]`)
	}},
	{"allow what was denied", "b/denials", func(k *keyboard) {
		k.enter(`main a[href*="/check?"]`, "#verdict")
		k.enter(`main a[href*="/denials/allow?"]`, "#gain")
		k.enter("main form .primary", "#verdict")
	}},
	{"end a session", "b/sessions", func(k *keyboard) { // of a client that no other flow disconnects
		k.enter(`main a[href*="/session/end?clientid=pump-8"]`, `form[method="post"] :is(.danger, .primary)`)
		k.enter(`form[method="post"] :is(.danger, .primary)`, ".message.good")
	}},
	{"select a session", "b/sessions", func(k *keyboard) { // without scripts the buttons are enabled all the time
		k.await(`[value="ask-end"]`)
		disabled := k.Count(`[value="ask-end"]:disabled`)
		if enabled := k.Count(`[value="ask-end"]:enabled`); k.scripts != (disabled == 1) || k.scripts == (enabled == 1) {
			k.plant.t.Errorf("without a selection %d buttons are disabled and %d enabled", disabled, enabled)
		}
		k.TabTo(`[name="selected"][value="pump-7"]`)
		k.Press(" ")
		k.WaitFor(`document.querySelector('[value="ask-end"]:enabled')`)
		k.enter(`[value="ask-end"]`, "#ask")
	}},
	{"publish a message", "b/messages", func(k *keyboard) {
		k.fill(`[name="topic"]`, "plant/horn")
		k.fill(`[name="payload"]`, "on")
		k.enter("main form .primary", ".message.good")
	}},
	{"test a broker before it is added", "brokers", func(k *keyboard) {
		k.enter(`main .heading a[href$="/brokers/new"]`, `[name="url"]`)
		k.fill(`[name="name"]`, "spare")
		k.fill(`[name="url"]`, "mqtt://127.0.0.1:1")
		k.enter(`button[value="test"]`, ".message.bad")
		k.enter(`button[value="add"]`, ".message.good")
	}},
	{"create a stream", "b/streams", func(k *keyboard) {
		k.enter(`main .heading a[href$="/streams/new"]`, `[name="streamname"]`)
		k.fill(`[name="streamname"]`, "horns")
		k.fill(`[name="sourcetopic"]`, "plant/horn")
		k.fill(`[name="targettopic"]`, "horns")
		k.enter(`form[method="post"] .primary`, ".message.good")
	}},
	{"create, use and revoke an API token", "tokens", func(k *keyboard) {
		k.enter(`main .heading a[href$="/tokens/new"]`, `[name="name"]`)
		k.fill(`[name="name"]`, "report")
		k.enter(`form[method="post"] .primary`, ".secret code")
		holder, brokers := k.plant.Bearer(k.Text("#token")), "/api/projects/"+k.plant.Project+"/brokers"
		holder.Get(brokers).Want(200)
		k.enter("main a[data-cancel]", `main a[href$="/revoke"][aria-label*="report"]`)
		k.enter(`main a[href$="/revoke"][aria-label*="report"]`, `form[method="post"] .danger`)
		k.enter(`form[method="post"] .danger`, ".message.good")
		holder.Get(brokers).WantError(401, "UNAUTHORIZED")
	}},
	{"select dead letters", "b/bridges", func(k *keyboard) {
		k.enter(`main tbody a[href$="/bridges/http-bridge"]`, "#connections tbody")
		k.enter(`main a[href*="/letters?"]`, "#letters tbody")
		k.enter(`#letters thead a[href*="select=all"]`, `#letters thead a[href*="select=none"]`)
		if n := k.Count("#letters tbody :checked"); n != 2 || k.scripts == strings.Contains(k.URL(), "select=") {
			k.plant.t.Errorf("of 2 dead letters %d are selected at %s", n, k.URL())
		}
		k.enter(`button[value="ask-delete"]:enabled`, "#ask")
		if asked := k.Text("[aria-labelledby=ask]"); !strings.Contains(asked, "2 dead letters of history are deleted") || !strings.Contains(asked, "in/x × 2") {
			k.plant.t.Errorf("the question does not name the number: %s", asked)
		}
		k.enter("[aria-labelledby=ask] [data-cancel]", "main:not(:has(#ask)) #letters tbody")
		k.TabTo("#letters tbody [type=checkbox]")
		k.Press(" ")
		k.enter(`button[value="retry"]`, ".message.good")
	}},
	{"configure a bridge", "b/bridges/mqtt-bridge/config", func(k *keyboard) {
		const mappings = "/connections/0/topicMappings"
		k.enter(`button[value="add:/connections"]`, `[name="/connections/0/name"]`)
		k.fill(`[name="/connections/0/name"]`, "site")
		k.fill(`[name="/connections/0/connection/url"]`, "mqtt://127.0.0.1:1")
		for i, name := range []string{"one", "two"} {
			entry := fmt.Sprintf("%s/%d/", mappings, i)
			k.enter(`button[value="add:`+mappings+`"]`, `[name="`+entry+`name"]`)
			k.fill(`[name="`+entry+`name"]`, name)
			k.fill(`[name="`+entry+`mqttTopics"]`, name+"/#")
		}
		k.enter(`button[value="up:`+mappings+`/1"]`, `[name="`+mappings+`/0/name"][value="two"]`)
		k.WaitFor(`document.activeElement.value === "down:` + mappings + `/0"`)
		k.enter(`button[value="remove:`+mappings+`/1"]`, `main form:not(:has([name="`+mappings+`/1/name"]))`)
		k.WaitFor(`document.activeElement.value === "add:` + mappings + `"`)
		k.enter(`main .actions .primary`, ".message.good")
		config := string(k.plant.Root.Get(k.plant.At("/bridges/mqtt-bridge/config")).Want(200).Body)
		if want := `"topicMappings":[{"name":"two","mqttTopics":["two/#"]}]`; !strings.Contains(config, want) {
			k.plant.t.Errorf("the configuration is %s, want %s in it", config, want)
		}
	}},
	{"create and delete a project", "", func(k *keyboard) {
		k.Go(k.plant.URL + "/ui/projects/new")
		k.fill(`main [name="name"]`, "trial")
		k.enter("main form .primary", ".message.good")
		k.enter(`main tbody a[href*="/p/"]:not([href*="`+k.plant.Project+`"])`, `nav.side a[href$="/settings"]`)
		k.enter(`nav.side a[href$="/settings"]`, `main a[href$="/delete"]`)
		k.enter(`main a[href$="/delete"]`, "#f-confirm")
		k.fill("#f-confirm", "trial")
		k.enter("main form .danger", ".message.good")
	}},
}

// TestFlows walks through every flow with the keyboard alone, with scripts and without.
func TestFlows(t *testing.T) {
	t.Parallel()
	for mode, options := range map[string][]browsertest.Option{"with scripts": nil, "without scripts": {browsertest.WithoutScripts}} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p := newPlant(t, plain)
			base := p.URL + "/ui/p/" + p.Project + "/"
			for _, f := range flows {
				t.Run(f.name, func(t *testing.T) {
					t.Parallel()
					s := newSession(t, p.URL)
					options := append(options[:len(options):len(options)], browsertest.WithCookie(p.URL, s.cookie.Name, s.cookie.Value))
					f.walk(&keyboard{browsertest.Open(t, base+p.below(f.start), options...), p, mode == "with scripts"})
				})
			}
		})
	}
}

// below returns the path of a flow's page below the project.
func (p *plant) below(start string) string {
	switch page, isOfBroker := strings.CutPrefix(start, "b/"); {
	case isOfBroker:
		return "b/" + p.Embedded + "/" + page
	case start == "":
		return "brokers"
	default:
		return start
	}
}
