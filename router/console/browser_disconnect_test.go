package console_test

import (
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/apitest"
	"signalbox/router/console/browsertest"
)

// administrativeAction is the reason of a DISCONNECT, from MQTT 5, §3.14.2.1.
const administrativeAction = 0x98

// TestDisconnect sees a client connect and disconnects it: at the embedded broker on the pages of
// sessions, at a Mosquitto on those of access control, as it has no others.
func TestDisconnect(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	server := brokertest.Mosquitto(t)
	s := newSession(t, api.URL)
	for name, c := range map[string]struct {
		broker, address string
		walk            func(*disconnection)
	}{
		"embedded":  {api.Embedded, api.MQTT, (*disconnection).onSessions},
		"mosquitto": {addMosquitto(t, api, server), server.Addr, (*disconnection).onClients},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api.Root.Post(api.BrokerAt(c.broker, "/clients"), object{"username": "pump", "password": secret}).Want(204)
			page := api.URL + "/ui/p/" + api.Project + "/b/" + c.broker + "/sessions"
			c.walk(&disconnection{browsertest.Open(t, page, browsertest.WithCookie(api.URL, s.cookie.Name, s.cookie.Value)), t, c.address})
		})
	}
}

// disconnection is what an operator does with the clients of a broker.
type disconnection struct {
	*browsertest.Page
	t       *testing.T
	address string // of the broker
}

// connect connects a device with MQTT 5 whose session outlives its connection.
func (d *disconnection) connect() *mqtttest.Client {
	return join(d.t, d.address, mqtttest.WithID("pump-7"), mqtttest.Persistent)
}

const (
	listed   = `document.querySelector('#list tbody th a[href$="/session?clientid=pump-7"]')`
	offline  = `document.querySelector("#list tbody tr")?.innerText.includes("Offline")`
	confirms = `#dialog[open] form button.danger, #dialog[open] form button.primary`
)

// chooseRefresh makes a page load its parts again every 5 seconds, once its scripts run.
func chooseRefresh(p *browsertest.Page) {
	p.WaitFor(`document.querySelector("[data-refresh]").closest("label").hidden === false`)
	p.Evaluate(`window.loaded = true; const choice = document.querySelector("[data-refresh]"); choice.value = "5"; choice.dispatchEvent(new Event("change", { bubbles: true }))`, nil)
}

// loadedOnce holds until the page is loaded again as a whole.
const loadedOnce = "window.loaded === true"

// onSessions follows the list of sessions without loading it again.
func (d *disconnection) onSessions() {
	d.WaitFor(`document.querySelector("#list .empty")`)
	chooseRefresh(d.Page)
	device := d.connect()
	d.WaitFor(listed + " && " + loadedOnce)
	d.Click(`#list tbody th a`)
	d.WaitFor(`location.pathname.endsWith("/session") && document.querySelector("#connection ~ dl .state.good")`)
	if facts := d.Text("#connection ~ dl"); !strings.Contains(facts, "127.0.0.1") || !strings.Contains(facts, "MQTT 5") || !strings.Contains(facts, "pump") {
		d.t.Errorf("the connection: %s", facts)
	}
	d.Click(`#heading a[href*="/session/disconnect?"]`)
	d.WaitFor(`document.querySelector("` + confirms + `")`)
	if asked := d.Text("#dialog"); !strings.Contains(asked, "pump-7") || !strings.Contains(asked, "The connection is closed.") {
		d.t.Errorf("the question: %s", asked)
	}
	d.Click("#dialog [data-cancel]")
	d.WaitFor(`!document.querySelector("#dialog").open`)
	device.Send(packet.Packet{Type: packet.Pingreq})
	device.Want(packet.Pingresp)
	d.Click(`#heading a[href*="/session/disconnect?"]`)
	d.Click(confirms)
	device.WantDisconnect(administrativeAction)
	d.WaitFor(`location.pathname.endsWith("/sessions") && document.querySelector("#messages .good")?.innerText.includes("pump-7") && ` + offline)
}

// onClients disables and enables the account of the client: the pages of sessions explain that
// they need more than a Mosquitto.
func (d *disconnection) onClients() {
	d.WaitFor(`document.querySelector("#list .empty")`)
	if text := d.Text("#list"); !strings.Contains(text, "This broker does not have this feature") || !strings.Contains(text, "$CONTROL/cedalo/inspect/v1") {
		d.t.Errorf("the sessions of a Mosquitto: %s", text)
	}
	connected := func(n string) {
		d.t.Helper()
		d.WaitFor(`document.querySelector('.figures [data-metric="connected"]')?.textContent === "` + n + `"`)
	}
	d.Click(`nav.side a[href$="/overview"]`)
	connected("1") // this service
	d.Evaluate("window.loaded = true", nil)
	device := d.connect()
	connected("2")
	d.WaitFor(loadedOnce)
	d.openClient("good")
	d.Click("#heading form button")
	device.WantDisconnect(administrativeAction)
	d.WaitFor(`document.querySelector("#messages .good")?.innerText.includes("was disabled and disconnected") && document.querySelector("#facts ~ dl .state.warn")`)
	if mqtttest.Accepts(d.t, d.address, "pump", secret) {
		d.t.Error("the disabled client can connect")
	}
	d.Click(`nav.side a[href$="/overview"]`)
	connected("1")
	d.openClient("warn")
	d.Click("#heading form button")
	d.WaitFor(`document.querySelector("#facts ~ dl .state.good")`)
	d.connect()
}

// openClient opens the page of the client from any other, and waits for its state.
func (d *disconnection) openClient(state string) {
	d.t.Helper()
	d.Click(`nav.side a[href$="/clients"]`)
	d.Click(`#list tbody a[href$="/client?username=pump"]`)
	d.WaitFor(`document.querySelector("#facts ~ dl .state.` + state + `")`)
}
