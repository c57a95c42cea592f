package console_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
)

// TestAddressFlow finds a client with a filter, opens it, goes back, reloads, and passes the address
// to another user; in two tabs, the same role is changed. All this with the embedded broker and
// with a Mosquitto.
func TestAddressFlow(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	var ada struct{ ID string }
	api.Root.Post("/api/users", object{"email": "ada@example.com", "password": secret}).Want(200).Decode(&ada)
	api.Root.Put("/api/projects/"+api.Project+"/members/"+ada.ID, object{"role": "viewer"}).Want(204)
	s := newSession(t, api.URL)
	brokers := map[string]string{"embedded": api.Embedded, "mosquitto": addMosquitto(t, api, brokertest.Mosquitto(t))}
	for name, broker := range brokers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := func(path string) string { return api.BrokerAt(broker, path) }
			api.Root.Post(at("/roles"), object{"rolename": "pump", "acls": []object{{"acltype": "publishClientSend", "topic": "a", "priority": 0, "allow": true}}}).Want(204)
			for _, username := range []string{"pump-7", "pump-8", "valve-1"} {
				api.Root.Post(at("/clients"), object{"username": username, "password": secret}).Want(204)
			}
			base := api.URL + "/ui/p/" + api.Project + "/b/" + broker
			p := browsertest.Open(t, base+"/clients", browsertest.WithCookie(api.URL, s.cookie.Name, s.cookie.Value))
			testAddress(p)
			testSharedAddress(t, p.URL())
			testTwoTabs(t, base+"/roles/edit?rolename=pump", browsertest.WithCookie(api.URL, s.cookie.Name, s.cookie.Value))
		})
	}
}

// filtered holds for a list of the clients whose filter is "pump-".
const filtered = `location.pathname.endsWith("/clients") && location.search.includes("pump-") && document.querySelector("[name=filterValue]")?.value === "pump-" &&
	[...document.querySelectorAll("#list tbody th")].map(e => e.innerText.trim()).join() === "pump-7,pump-8"`

// testAddress filters a list, and sees it again after going back from an object and after
// reloading.
func testAddress(p *browsertest.Page) {
	p.WaitFor(`document.querySelectorAll("#list tbody tr").length > 2`)
	p.Fill("[name=filterValue]", "pump-")
	p.WaitFor(filtered)
	p.Click("#list a[href*='username=pump-8']")
	p.WaitFor(`location.pathname.endsWith("/client") && document.querySelector("#rights")`)
	p.Back()
	p.WaitFor(filtered)
	p.Reload()
	p.WaitFor(filtered)
}

// testSharedAddress opens the address of a list as another user, who signs in on the way to it
// and may only read.
func testSharedAddress(t *testing.T, address string) {
	p := browsertest.Open(t, address)
	p.WaitFor("location.pathname.endsWith('/ui/login')")
	p.Fill("#f-email", "ada@example.com")
	p.Fill("#f-password", secret)
	p.Click("main form .primary")
	p.WaitFor(filtered)
	if n := p.Count("main a[href$='/clients/new']"); n > 0 {
		t.Error("a viewer is shown how to create a client")
	}
}

// testTwoTabs changes a role in two tabs. The second change is refused, and shown again with what
// both have changed; made again after that, both are kept.
func testTwoTabs(t *testing.T, address string, cookie browsertest.Option) {
	var tabs [2]*browsertest.Page
	for i := range tabs {
		tabs[i] = browsertest.Open(t, address, cookie)
	}
	const save = `#preview ~ form [value="save"]`
	preview := func(p *browsertest.Page, field, text string) {
		t.Helper()
		p.Fill(field, text)
		p.Click(".actions button.primary[value=preview]")
		p.WaitFor(fmt.Sprintf("document.querySelector(%q)", save))
	}
	saved := func(p *browsertest.Page, shown string) {
		t.Helper()
		p.Click(save)
		p.WaitFor(fmt.Sprintf("document.readyState === 'complete' && document.querySelector('main .message.%s')", shown))
	}
	preview(tabs[0], "[name='acls/0/topic']", "plant/a")
	preview(tabs[1], "#f-textname", "Pumps")
	saved(tabs[0], "good")
	tabs[1].Expect("400 Bad Request")
	saved(tabs[1], "bad")
	changes := tabs[1].Text("[aria-labelledby=preview]")
	if message := tabs[1].Text(".message.bad"); !strings.Contains(message, "changed by another person") || !strings.Contains(changes, "Pumps") || !strings.Contains(changes, "plant/a") {
		t.Errorf("the second change: %s\n%s", message, changes)
	}
	tabs[1].Go(address)
	preview(tabs[1], "#f-textname", "Pumps")
	saved(tabs[1], "good")
	tabs[0].Go(address)
	tabs[0].WaitFor(`document.querySelector("#f-textname").value === "Pumps" && document.querySelector("[name='acls/0/topic']").value === "plant/a"`)
}
