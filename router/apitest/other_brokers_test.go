package apitest_test

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
	nats "github.com/nats-io/nats-server/v2/server"

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
	for name, start := range map[string]func(*testing.T) string{"mochi": startMochi, "NATS": startNATS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := addSetup(t, apitest.New(t), object{"url": "mqtt://" + start(t)})
			x.wantCapabilities(slices.Clone(baseCapabilities))
			x.wantReason(broker.CapDynamicSecurity, "its own tools")
			x.useAll()
		})
	}
}

// startMochi starts a broker in this process that allows every client everything.
func startMochi(t *testing.T) (addr string) {
	t.Helper()
	s := mochi.New(&mochi.Options{Logger: slog.New(slog.DiscardHandler)})
	if err := s.AddHook(new(auth.AllowHook), nil); err != nil {
		t.Fatal(err)
	}
	l := listeners.NewTCP(listeners.Config{ID: "t", Address: "127.0.0.1:0"})
	if err := s.AddListener(l); err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() }) //nolint:errcheck // the test is over
	return l.Address()
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
	addr := startMochi(t)
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

// startNATS starts a NATS server that supports MQTT.
func startNATS(t *testing.T) (addr string) {
	t.Helper()
	o := &nats.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(), ServerName: "n"}
	o.MQTT.Host, o.MQTT.Port, o.MQTT.JSAPITimeout = "127.0.0.1", -1, suite.HangLimit
	s, err := nats.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(suite.HangLimit) {
		t.Fatal("NATS does not start")
	}
	return fmt.Sprintf("127.0.0.1:%d", o.MQTT.Port)
}

// TestConsoleKinds checks that the lists of brokers name each one as what it reports to be.
func TestConsoleKinds(t *testing.T) {
	t.Parallel()
	a, server := apitest.New(t), brokertest.Mosquitto(t, brokertest.WithoutPlugin())
	addSetup(t, a, object{"url": server.URL})
	addSetup(t, a, object{"url": "mqtt://" + startMochi(t)})
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
