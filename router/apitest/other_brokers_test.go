package apitest_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/control"
	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/pages"
	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// TestOtherBrokers adds brokers other than Mosquitto: what needs no plugin works on
// these too.
func TestOtherBrokers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{mochiBroker, natsBroker} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := addSetup(t, apitest.New(t), object{"url": "mqtt://" + startBrokerProcess(t, name)})
			x.wantCapabilities(slices.Clone(baseCapabilities))
			x.wantReason(broker.CapDynamicSecurity, "its own tools")
			x.useAll()
		})
	}
}

// fewMembers lists a client as Cedalo's plugin does: without the members that are an extension.
type fewMembers struct{ broker.Inspector }

func (fewMembers) InspectClients(context.Context, int, int, bool) (broker.Page[broker.ConnectedClient], error) {
	return broker.Page[broker.ConnectedClient]{Total: 1, Items: pages.Of([]broker.ConnectedClient{{ClientID: "pump-7", Connected: true}})}, nil
}

// TestInspectListOfCedalo lists the clients of a broker that reports no more than the API
// specification has.
func TestInspectListOfCedalo(t *testing.T) {
	t.Parallel()
	addr := startBrokerProcess(t, mochiBroker)
	plugin := mqtttest.Join(t, addr, "plugin", "")
	respond := func(c mqtt.Client, request mqtt.Message) {
		c.Publish(control.InspectTopic+control.ResponseSuffix, 1, false, control.Inspect(context.Background(), fewMembers{}, request.Payload()))
	}
	mqtttest.Acknowledged(t, plugin.Subscribe(control.InspectTopic, 1, respond))
	api := apitest.New(t)
	x := addSetup(t, api, object{"url": "mqtt://" + addr})
	waitFor(t, "the capability", func() bool { return slices.Contains(brokerRecord(api, x.id).Capabilities, broker.CapInspect) })
	list := string(api.Root.Get(x.at("/client-inspect?state=connected")).Want(200).Body)
	for _, absent := range []string{"numSubscriptions", "numDropped", "inflight", "listener", "rateIn"} {
		if !strings.Contains(list, `"pump-7"`) || strings.Contains(list, absent) {
			t.Errorf("%s in the list %s", absent, list)
		}
	}
	api.Root.Get(x.at("/client-inspect?dropped=true")).WantError(405, "NOT_SUPPORTED")

	v := api.Browser(apitest.RootEmail, apitest.RootPassword)
	page := v.Want(v.Get(v.Project("/b/"+x.id+"/sessions")), 200, "pump-7", "Queue").Text
	for _, absent := range []string{"In flight</th>", "Dropped</th>", `name="dropped"`, `name="rates"`} {
		if strings.Contains(page, absent) {
			t.Errorf("%s in the page\n%s", absent, page)
		}
	}
	v.Want(v.Get(v.Project("/b/"+x.id+"/sessions?dropped=true")), 200, "clients cannot be filtered by dropped messages", `name="dropped" value="true" checked`)
}

// TestConsoleKinds checks that the lists of brokers name each one as what it reports to be.
func TestConsoleKinds(t *testing.T) {
	t.Parallel()
	a, server := apitest.New(t), brokertest.Mosquitto(t, brokertest.WithoutPlugin())
	addSetup(t, a, object{"url": server.URL})
	addSetup(t, a, object{"url": "mqtt://" + startBrokerProcess(t, mochiBroker)})
	b := a.Browser(apitest.RootEmail, apitest.RootPassword)
	kind := regexp.MustCompile(`<td><span>(Embedded|Mosquitto|MQTT)</span>(?:<p class="quiet">([^<]+)</p>)?</td>`)
	for _, page := range []string{"/home", b.Project("/brokers")} {
		suite.Eventually(t, func() error {
			text, got := b.Want(b.Get(page), 200, ">Kind</th>").Text, map[string]string{}
			for _, m := range kind.FindAllStringSubmatch(text, -1) {
				got[m[1]] = m[2]
			}
			if len(got) != 3 || !strings.HasPrefix(got["Mosquitto"], "2.") {
				return fmt.Errorf("%s has the kinds %v:\n%s", page, got, text)
			}
			return nil
		})
	}
}
