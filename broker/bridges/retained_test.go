package bridges_test

import (
	"fmt"
	"testing"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/messaging"
)

// retainedKind is a kind that takes retained messages.
type retainedKind struct{ *bridgestest.Kind }

type retainedConnector struct {
	bridges.Connector
	filters []string
}

func (c retainedConnector) Filters(string) []string { return c.filters }
func (retainedConnector) Retained(string) bool      { return true }

// Enter refuses messages that say so, and marks the others.
func (retainedConnector) Enter(_ string, m *messaging.Message) bool {
	m.Properties = []byte("entered")
	return string(m.Payload) != "not this"
}

func (k retainedKind) Compile(c *bridges.Connection) (bridges.Connector, bridges.Problems) {
	made, problems := k.Kind.Compile(c)
	if made == nil {
		return nil, problems
	}
	var d struct {
		TopicMappings []struct {
			MQTTTopics []string `json:"mqttTopics"`
		} `json:"topicMappings"`
	}
	problems = append(problems, bridges.Decode(c.Document, &d)...)
	var filters []string
	for _, f := range d.TopicMappings[0].MQTTTopics {
		filters = append(filters, "local/"+f)
	}
	return retainedConnector{made, filters}, problems
}

// TestRetained checks that a new mapping, and a new filter, take retained messages.
func TestRetained(t *testing.T) {
	t.Parallel()
	k := &bridgestest.Kind{}
	r := bridgestest.Start(t, retainedKind{k}, disk(t))
	for i := range 200 {
		r.Broker.ClientPublish(messaging.Message{Topic: fmt.Sprintf("local/a/%d", i), Payload: []byte("kept"), Retain: true})
	}
	r.Broker.ClientPublish(messaging.Message{Topic: "local/b/1", Payload: []byte("b"), Retain: true})
	r.Set(doc(takes("c", "a/#", "a/1")))
	arrives(t, k.Target("t"), 200)
	for _, e := range k.Target("t").Delivered() {
		if !e.Retain || e.Mapping != "m" || string(e.Properties) != "entered" {
			t.Errorf("got %+v, want it with RETAIN", e)
		}
	}
	r.Restart()
	publishTexts(r.Broker, "local/a/1", "not this")
	r.Set(doc(takes("c", "a/#", "a/1", "b/+")))
	if got := arrives(t, k.Target("t"), 201); len(got) != 201 || got[200] != "b" {
		t.Errorf("got %q, want only what the new filter matches", got[200:])
	}
}
