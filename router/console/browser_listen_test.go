package console_test

import (
	"regexp"
	"strings"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// TestListenToRemoteBroker shows messages of a Mosquitto with their properties, and the times at
// which they came in the time zone of the user.
func TestListenToRemoteBroker(t *testing.T) {
	t.Parallel()
	api, server := apitest.New(t), brokertest.Mosquitto(t)
	id := addMosquitto(t, api, server)
	publisher := mqtttest.Dial(t, server.URL, nil, packet.V5)
	publisher.Connect(mqtttest.As(server.AdminUsername, string(server.AdminPassword)))

	api.Root.Put("/api/auth/preferences", object{"time_zone": "Asia/Tokyo"}).Want(204)
	p := signIn(t, api.URL+"/ui/p/"+api.Project+"/b/"+id+"/messages")
	const pauseIsShown = "document.querySelector('[data-listen] [aria-pressed]').checkVisibility()"
	var early bool
	if p.Evaluate(pauseIsShown, &early); early {
		t.Error("Pause is shown before anything is listened to")
	}
	p.Click("[data-listen] button")
	p.WaitFor(pauseIsShown)
	text := byte(1)
	suite.WaitFor(t, "a message is shown", func() bool { // those before the subscription are not
		publisher.Publish("a", "x", 0, mqtttest.Retained, func(pk *packet.Packet) {
			pk.Properties = packet.Properties{PayloadFormat: &text, MessageExpiry: 600, ContentType: markup,
				User: []packet.UserProperty{{Name: "unit", Value: markup}}}
		})
		return p.Text(".scroll tbody tr") != ""
	})
	if got, want := p.Text(".scroll tbody tr td:last-child"), "contentType: "+markup+"\npayloadFormat: 1\nunit="+markup+"\nexpiry: 600"; got != want {
		t.Errorf("the properties are shown as\n%s\nwant\n%s", got, want)
	}
	if at := p.Text(".scroll tbody tr td"); !regexp.MustCompile(`^\d\d:\d\d:\d\d GMT\+9$`).MatchString(at) {
		t.Errorf("the message came at %q", at)
	}
	if row := p.Text(".scroll tbody tr"); !strings.Contains(row, "0 R") {
		t.Errorf("RETAIN is not shown: %s", row)
	}
}
