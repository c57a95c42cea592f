package console_test

import (
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
)

// TestBrokerFeatures checks what the list of a project's brokers shows of the features of each one:
// those that are missing are marked, with the reason as a text, and the keyboard reaches what would
// change it. No row has more than two lines.
func TestBrokerFeatures(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	mosquitto := addMosquitto(t, api, brokertest.Mosquitto(t))
	anonymous := addMosquitto(t, api, brokertest.Mosquitto(t, brokertest.WithoutPlugin()))
	const inspection = "Inspection (missing: the broker does not answer on $CONTROL/cedalo/inspect/v1), "
	address := api.URL + "/ui/p/" + api.Project + "/brokers"
	p := signIn(t, address)
	for id, want := range map[string]string{
		api.Embedded: "Access control, Inspection, ",
		mosquitto:    "Access control, " + inspection,
		anonymous: "Access control (missing: the broker does not answer on $CONTROL/dynamic-security/v1: it has no dynamic security plugin, " +
			`or does not allow user "admin" to publish there), ` + inspection,
	} {
		if got := contentOf(p, features(id)); got != want+"Topic tree, Streams, Bridges," {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if marked, all := p.Count("td .tag.warn > .icon"), p.Count("td .tag"); marked != 3 || all != 15 {
		t.Errorf("%d of %d features are marked as missing, want 3 of 15", marked, all)
	}
	for _, width := range []int{1280, 390, 320} {
		p.Show(browsertest.Variant{Theme: browsertest.Light, Width: width})
		p.CheckWidth()
		p.CheckAccessibility()
		var lines []float64
		p.Evaluate("[...document.querySelectorAll('tbody tr')].map(e => e.offsetHeight / parseFloat(getComputedStyle(e).lineHeight))", &lines)
		for _, n := range lines {
			if n > 3 { // with the padding
				t.Errorf("%d px: a row is as high as %.1f lines", width, n)
			}
		}
	}
	p.TabTo(features(anonymous))
	p.Press(browsertest.Enter)
	p.WaitFor("location.pathname.endsWith('/connection') && location.hash === '#features' && document.readyState === 'complete'")
	p.WaitFor("(r => r.top >= 0 && r.bottom <= innerHeight)(document.querySelector('#features').getBoundingClientRect())")

	name, value := p.Cookie()
	german := browsertest.Open(t, address, browsertest.WithCookie(api.URL, name, value), browsertest.WithLanguage("de"))
	if got := contentOf(german, features(mosquitto)); !strings.Contains(got, "Einsicht (fehlt: der Broker antwortet nicht auf $CONTROL/cedalo/inspect/v1)") {
		t.Errorf("in German: %s", got)
	}
}

// features selects the link to the features of a broker in a list.
func features(broker string) string { return "a[href$='" + broker + "/connection#features']" }

// contentOf returns the text of an element for screen readers.
func contentOf(p *browsertest.Page, selector string) (text string) {
	p.Evaluate(`document.querySelector("`+selector+`").textContent.replace(/\s+/g, " ").trim()`, &text)
	return text
}
