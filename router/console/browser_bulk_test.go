package console_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/apitest"
)

// leaveSession connects a client with a session that is kept, and disconnects it.
func leaveSession(t *testing.T, api *apitest.API, clientID string) {
	t.Helper()
	c := mqtttest.Dial(t, api.Listeners[0], nil, packet.V5)
	c.Connect(mqtttest.As("pump-7", secret), mqtttest.WithID(clientID), mqtttest.Persistent)
	c.Disconnect()
}

// TestBulkFlow ends the sessions that a filter selects, which do not fit on one page of the list.
func TestBulkFlow(t *testing.T) {
	t.Parallel()
	testBulk(t, 61, "61")
}

// TestCampaignBulkFlow ends as many sessions as a plant may have.
func TestCampaignBulkFlow(t *testing.T) { testBulk(t, 3691, "3,691") }

// testBulk ends n sessions by a filter: their number, which the page shows as written, is shown
// before, the progress while it happens, and the result.
func testBulk(t *testing.T, n int, written string) {
	api := apitest.New(t)
	api.Root.Post(api.At("/clients"), object{"username": "pump-7", "password": secret}).Want(204)
	for i := range n {
		leaveSession(t, api, fmt.Sprintf("meter-%04d", i))
	}
	leaveSession(t, api, "valve-1")

	sessions := api.URL + "/ui/p/" + api.Project + "/b/" + api.Embedded + "/sessions"
	p := signIn(t, sessions)
	p.Fill("main [name=filterValue]", "meter-")
	const end = "main a[href*='/sessions/matching?'][href$='action=end']"
	p.WaitFor(fmt.Sprintf("document.querySelector(%q)?.innerText === 'End all %s sessions that match'", end, written))
	p.Click(end)
	p.WaitFor("location.pathname.endsWith('/sessions/matching') && document.querySelector('main form .danger')")
	if text := p.Text("main"); !strings.Contains(text, "This concerns "+written+" sessions") || !strings.Contains(text, "meter-0000") || strings.Contains(text, "valve-1") {
		t.Errorf("the question is\n%s", text)
	}
	p.Click("main form .danger")
	p.WaitFor(fmt.Sprintf("location.pathname.includes('/jobs/') && document.querySelector('#progress progress')?.max === %d", n))
	p.Evaluate("document.documentElement.dataset.loaded = 'once'", nil)
	p.WaitFor(fmt.Sprintf("document.querySelector('#progress').innerText.includes('%s of %[1]s') && document.querySelector('#progress .state.good')?.innerText.trim() === 'Completed'", written))
	if p.Count("[data-loaded]") != 1 || p.Count("#progress [value=cancel]") > 0 || p.Count("#progress tbody") > 0 {
		t.Errorf("the result is\n%s", p.Text("main"))
	}
	p.CheckAccessibility()
	p.Go(sessions)
	if rows := p.Count("#list tbody tr"); rows != 1 || !strings.Contains(p.Text("#list tbody"), "valve-1") {
		t.Errorf("%d sessions remain: %s", rows, p.Text("#list tbody"))
	}
}
