package mqtt_test

import (
	"fmt"
	"testing"

	"github.com/eclipse/paho.golang/paho"
)

// TestOut checks that messages keep QoS, RETAIN and properties, with another topic prefix.
func TestOut(t *testing.T) {
	t.Parallel()
	a := signalbox(t, "A")
	m, _ := mosquitto(t)
	p := join(t, a)
	p.send("here/kept", "before", 1, true)
	there := join(t, m, "#")
	a.bridge(t, link{to: m, mappings: []map[string]any{{"mqttTopics": []string{"#"}, "localPrefix": "here/", "remotePrefix": "there/"}}})
	there.want("retained before", "there/kept=before/1r")
	want := []string{"there/kept=before/1r"}
	for qos := range byte(3) {
		topic := fmt.Sprint("here/", qos)
		p.publish(&paho.Publish{Topic: topic, Payload: []byte("x"), QoS: qos, Retain: qos == 1, Properties: &paho.PublishProperties{
			ContentType: "text/plain", ResponseTopic: "back", CorrelationData: []byte{1, 2}, User: paho.UserProperties{{Key: "k", Value: "v"}},
		}})
		text := fmt.Sprintf("there/%d=x/%d", qos, qos)
		if qos == 1 {
			text += "r"
		}
		want = append(want, text)
	}
	p.send("elsewhere", "x", 1, false)
	p.send("here/last", "x", 1, false)
	there.want("live", append(want, "there/last=x/1")...)
	for _, got := range there.list() { // in any order: messages with another QoS may overtake
		if got.Topic == "there/kept" || got.Topic == "there/last" {
			continue
		}
		if o := got.Properties; o.ContentType != "text/plain" || o.ResponseTopic != "back" || string(o.CorrelationData) != "\x01\x02" || o.User.Get("k") != "v" {
			t.Errorf("properties of %s: %+v", got.Topic, o)
		}
	}
}

// TestIn receives messages, including those that were sent while this broker was stopped.
func TestIn(t *testing.T) {
	t.Parallel()
	a := signalbox(t, "A")
	m, _ := mosquitto(t)
	p := join(t, m)
	p.send("there/kept", "before", 2, true)
	here := join(t, a, "#")
	in := link{to: m, mappings: []map[string]any{
		{"mqttTopics": []string{"#", "1", "+/x"}, "localPrefix": "here/", "remotePrefix": "there/", "direction": "in"},
		{"name": "low", "mqttTopics": []string{"low/#"}, "direction": "in", "qos": 0, "retain": false},
	}}
	a.bridge(t, in)
	want := []string{"here/kept=before/2r"}
	here.want("retained before", want...)
	for qos := range byte(3) {
		p.send(fmt.Sprint("there/", qos), "x", qos, qos == 1)
	}
	p.send("there/a/x", "x", 1, false)
	p.send("low/a", "x", 2, true)
	p.send("elsewhere", "x", 1, false)
	want = append(want, "here/0=x/0", "here/1=x/1r", "here/2=x/2", "here/a/x=x/1", "low/a=x/0")
	here.want("live", want...)
	away := in
	away.disabled = true
	a.configure(t, away)
	for i := range 20 {
		text := fmt.Sprintf("away=%d/%d", i, 1+i%2)
		p.send("there/away", fmt.Sprint(i), byte(1+i%2), false)
		want = append(want, "here/"+text)
	}
	a.bridge(t, in)
	here.want("while away", want...)
}
