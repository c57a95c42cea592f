package console_test

import (
	"testing"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/apitest"
)

// join connects a device with MQTT 5 as the client pump.
func join(t *testing.T, address string, options ...mqtttest.Option) *mqtttest.Client {
	t.Helper()
	c := mqtttest.Dial(t, "mqtt://"+address, nil, packet.V5)
	c.Connect(append([]mqtttest.Option{mqtttest.As("pump", secret)}, options...)...)
	return c
}

// notAuthorized is the reason of a PUBACK, from MQTT 5, §3.4.2.1.
const notAuthorized = 0x87

// TestDeniedFlow looks at what a device was denied and why, allows it, and sees it work.
func TestDeniedFlow(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Post(api.At("/clients"), object{"username": "pump", "password": secret}).Want(204)
	p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/denials")
	p.WaitFor(`document.querySelector("#list .empty")`)
	chooseRefresh(p)
	if reason := join(t, api.MQTT).Publish("plant/horn", "on", 1); reason != notAuthorized {
		t.Fatalf("PUBACK with reason %#x, want %#x", reason, notAuthorized)
	}
	p.WaitFor(loadedOnce + ` && document.querySelector("#list tbody")?.innerText.includes("plant/horn")`)
	p.Click(`#list tbody a[href*="/check?"]`)
	p.WaitFor(`document.querySelector("#verdict ~ .message.bad") && document.querySelector("tr.current")?.innerText.includes("Default access")`)
	p.Click(`main a[href*="/denials/allow?"]`)
	p.WaitFor(`document.querySelector("#gain")`)
	p.Fill(`main [name="new"]`, "horns")
	p.Click("main form .primary")
	p.WaitFor(`location.pathname.endsWith("/check") && document.querySelector("#verdict ~ .message.good")`)
	p.WaitFor(`document.querySelector("tr.current")?.innerText.match(/plant\/horn.*horns|horns.*plant\/horn/s)`)
	if reason := join(t, api.MQTT).Publish("plant/horn", "on", 1); reason >= 0x80 {
		t.Errorf("PUBACK with reason %#x after it was allowed", reason)
	}
}

// TestReplayFlow replays what a stream stores to a device, and sees the number.
func TestReplayFlow(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Post(api.At("/roles"), object{"rolename": "reader", "acls": []object{{"acltype": "subscribePattern", "topic": "again/#", "priority": 0, "allow": true}}}).Want(204)
	api.Root.Post(api.At("/clients"), object{"username": "pump", "password": secret, "roles": []object{{"rolename": "reader"}}}).Want(204)
	api.Root.Post(api.At("/streams"), object{"streamname": "kept", "sourceTopic": "in", "persist": true, "active": true}).Want(204)
	for _, payload := range []string{"one", "two", "three"} {
		api.Root.Post(api.At("/messages"), object{"topic": "in", "payload": payload, "qos": 1}).Want(204)
	}
	device := join(t, api.MQTT)
	device.Subscribe(0, "again/#")
	p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+api.Embedded+"/streams/detail?streamname=kept")
	p.Click(`header a[href*="/streams/replay?"]`)
	p.Fill(`#dialog [name="replaytopic"]`, "again/in")
	p.Click(`#dialog form .primary`)
	p.WaitFor(`document.querySelector("#dialog [role=status]")?.innerText.includes("3 of 3 stored messages")`)
	p.Click(`#dialog form button[value=""]`)
	p.WaitFor(`location.pathname.endsWith("/streams/detail") && document.querySelector("#messages .good")?.innerText.includes("has started")`)
	for _, payload := range []string{"one", "two", "three"} {
		device.WantMessage("again/in", payload)
	}
	chooseRefresh(p)
	p.WaitFor(loadedOnce + ` && [...document.querySelectorAll("#stream dt")].find(e => e.innerText === "Replayed")?.nextElementSibling.innerText === "3"`)
}
