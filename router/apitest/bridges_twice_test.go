package apitest_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

// TestOneBrokerListedTwice adds a broker to two projects, each of which has a
// connection of the same name to the same target: they do not affect each other.
func TestOneBrokerListedTwice(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	from, to := brokertest.Mosquitto(t), brokertest.Mosquitto(t, brokertest.WithoutPlugin())
	listing := object{"name": "plant", "url": from.URL, "username": from.AdminUsername, "password": string(from.AdminPassword)}
	var project handlers.ProjectRecord
	var second handlers.Identifier
	api.Root.Post("/api/projects", object{"name": "other"}).Want(200).Decode(&project)
	api.Root.Post("/api/projects/"+project.ID+"/brokers", listing).Want(200).Decode(&second)
	first := addBroker(t, api, listing)
	brokers := []string{api.BrokerAt(first, ""), "/api/projects/" + project.ID + "/brokers/" + second.ID}
	states := func(at string) (s broker.BridgeStatus) {
		var all []broker.BridgeStatus
		api.Root.Get(at + "/bridges/mqtt-bridge/status").Want(200).Decode(&all)
		if len(all) == 1 {
			s = all[0]
		}
		return s
	}
	for i, at := range brokers {
		waitFor(t, "the connection", func() bool {
			var record handlers.BrokerRecord
			api.Root.Get(at).Want(200).Decode(&record)
			return record.Status.Connected
		})
		api.Root.Put(at+"/bridges/mqtt-bridge/config", object{"connections": []object{{"name": "c",
			"connection": object{"url": to.URL}, "options": object{"retryMinInsertDelay": 20},
			"topicMappings": []object{{"name": "m", "mqttTopics": []string{"in/#"}, "direction": "out", "remotePrefix": fmt.Sprintf("%d/", i)}}}}}).Want(204)
	}
	for _, at := range brokers {
		waitFor(t, "the bridge", func() bool { return states(at).IsConnected })
	}
	const n = 20
	for i := range n {
		api.Root.Post(brokers[0]+"/messages", object{"topic": "in/1", "payload": fmt.Sprint(i), "qos": 1}).Want(204)
	}
	for _, at := range brokers {
		waitFor(t, "all to be delivered", func() bool {
			s := states(at)
			return s.Stats.Delivered == n && s.QueuedMessages == 0
		})
		if s := states(at); !s.IsConnected || s.Error != "" || s.Stats.Received != n || s.Stats.Retries > 0 {
			text, _ := json.Marshal(s)
			t.Errorf("status %s", text)
		}
	}
}
