package nats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"

	"signalbox/broker"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/nats"
)

// fullDocument is a document with every member.
const fullDocument = `{"version":"v1","connections":[
	{"name":"c1","connection":{"servers":["URL"],"clientName":"plant","credentials":{"username":"u","password":"secret-1"},"tls":{"enabled":false}},
		"options":{"jetStream":true,"retryMinInsertDelay":1,"retryMaxInsertDelay":20},
		"topicMappings":[{"name":"m","mqttTopics":["a/#"],"target":"plant.${topic}","schemaMapping":"s","mqttHeaders":true},
			{"name":"v","mqttTopics":["b/#"],"value":"${payload}"}]},
	{"name":"c2","enabled":false,"connection":{"servers":["tls://nats:4222"],"token":"secret-2","tls":{"enabled":true}}}],
	"schemaMappings":[{"name":"s","mapping":[{"source":"jsonPayload.n","target":"n","type":"integer","required":true}]}]}`

// TestEngine has the engine deliver messages to a stream whose server is stopped meanwhile.
func TestEngine(t *testing.T) {
	t.Parallel()
	p := startPeer(t, func(o *server.Options) { o.Username, o.Password = "u", "secret-1" })
	login := natsgo.UserInfo("u", "secret-1")
	p.addStream(t, "plant", "plant.>", -1, login)
	r := bridgestest.Start(t, nats.Kind{}, nil)
	r.Set(strings.ReplaceAll(fullDocument, "URL", p.url))
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			r.Broker.Text(fmt.Sprint("a/", i%3), fmt.Sprintf(`{"n":%d}`, i))
		}
	}
	publish(0, 300)
	r.Broker.Text("a/0", `{"n":"poison"}`)
	r.Until("c1", "some are delivered", func(s broker.BridgeStatus) bool { return s.Stats.Delivered > 0 })
	p.stop()
	r.Until("c1", "the end is noticed", func(s broker.BridgeStatus) bool { return s.Error != "" })
	publish(300, 600)
	p.start(t)
	r.Until("c1", "all are delivered", func(s broker.BridgeStatus) bool {
		return s.QueuedMessages == 0 && s.Stats.Delivered == 600 && s.Stats.DeadLetters == 1 && s.Error == ""
	})
	p.stored(t, "plant", "plant.>", 600, login)
	r.Reread(t, 2, p.url, "nats://127.0.0.1:1")
}
