package apitest_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

func brokerInfo(c *apitest.Caller, path string) (info handlers.BrokerInfo) {
	c.Get(path + "/info").Want(200).Decode(&info)
	return info
}

func sysNames(s broker.SysTopics) []string { return slices.Sorted(maps.Keys(s.Topics)) }

// TestInfoHasMosquittosNames compares what the embedded broker publishes about itself
// with a real Mosquitto, both through the API.
func TestInfoHasMosquittosNames(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addMosquitto(t, api)
	viewer := api.Token("viewer")
	ours := sysNames(brokerInfo(viewer, api.At("")).SysTopics)
	var theirs broker.SysTopics
	uptimes := map[string]bool{}
	waitFor(t, "Mosquitto to tell twice, and of its clients", func() bool {
		theirs = brokerInfo(viewer, api.BrokerAt(id, "")).SysTopics
		if theirs.Topics["$SYS/broker/clients/maximum"] != "" {
			uptimes[theirs.Topics["$SYS/broker/uptime"]] = true
		}
		return len(uptimes) >= 3 // the uptime is first, the rest of the second update may arrive until the third
	})
	if diff := cmp.Diff(sysNames(theirs), ours); diff != "" {
		t.Errorf("(-Mosquitto's +ours):\n%s", diff)
	}
}

// TestInfo reads the figures and waits until there are two samples of them.
func TestInfo(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	d := join(t, api, 5, "d", asAdmin)
	d.SubscribeTo(filter("a", 0), filter("b", 0))
	d.Publish("kept", "12345", 1, retained)
	viewer := api.Token("viewer")
	info := brokerInfo(viewer, api.At(""))
	for name, want := range map[string]string{"clients/connected": "1", "subscriptions/count": "2", "publish/messages/received": "1",
		"publish/bytes/received": "5", "version": "signalbox version test"} {
		if got := info.SysTopics.Topics["$SYS/broker/"+name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if info.ID != api.Embedded || info.ProjectID != api.Project || info.Name != handlers.EmbeddedName || !info.IsConnected ||
		info.LicenseInfo.Edition != "embedded" || info.SysTopics.Date == 0 {
		t.Errorf("info: %+v", info)
	}
	const clients = "$SYS/broker/clients/connected"
	var first, last broker.SysTopics
	brokertest.WaitFor(t, "there are two samples, the last one with the client", func() bool {
		info = brokerInfo(viewer, api.At(""))
		history := info.SysTopicsHistory
		if len(history) < 2 {
			return false
		}
		first, last = history[0], history[len(history)-1]
		return last.Topics[clients] == "1" // it may have arrived after the second sample
	})
	if diff := cmp.Diff(sysNames(info.SysTopics), sysNames(last)); diff != "" || first.Date >= last.Date || last.Date > info.SysTopics.Date {
		t.Errorf("samples of %d, %d, %d; names (-now +then):\n%s", first.Date, last.Date, info.SysTopics.Date, diff)
	}
	if was := first.Topics[clients]; was != "0" {
		t.Errorf("clients connected: %s in the first sample", was)
	}
}

// TestInfoOfABrokerThatIsAway has all members.
func TestInfoOfABrokerThatIsAway(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	id := addBroker(t, api, object{"name": "gone", "url": "mqtt://127.0.0.1:1"})
	var members map[string]json.RawMessage
	api.Root.Get(api.BrokerAt(id, "/info")).Want(200).Decode(&members)
	if got, want := keysOf(members), "id isConnected licenseInfo name project_id sysTopics sysTopicsHistory url"; got != want {
		t.Errorf("members %s, want %s", got, want)
	}
	sys, history := string(members["sysTopics"]), string(members["sysTopicsHistory"])
	if sys != `{"topics":{},"date":0}` || history != "[]" || string(members["isConnected"]) != "false" {
		t.Errorf("sysTopics %s, history %s", sys, history)
	}
}

// TestFeaturesOfTheEmbeddedBroker lists the topic tree among them.
func TestFeaturesOfTheEmbeddedBroker(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	features := strings.Join(brokerInfo(api.Root, api.At("")).LicenseInfo.Features, " ")
	if want := "topic-tree ttl"; !strings.Contains(features, want) {
		t.Errorf("features %q, want %q among them", features, want)
	}
}
