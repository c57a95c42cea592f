package kafka_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"signalbox/broker"
	"signalbox/broker/bridges/bridgestest"
)

// fullDocument is a document with every member.
const fullDocument = `{"version":"v1","connections":[
	{"name":"c1","connection":{"brokers":["ADDRESS"],"clientId":"plant","saslMechanism":"plain","credentials":{"username":"u","password":"secret-1"},"tls":{"enabled":false}},
		"options":{"acks":"all","idempotent":true,"compression":"gzip","maxMessageBytes":100000,"createTopics":false,"retryMinInsertDelay":1,"retryMaxInsertDelay":20},
		"topicMappings":[{"name":"m","mqttTopics":["a/#"],"target":"plant","key":"${topic}","schemaMapping":"s","mqttHeaders":true},
			{"name":"v","mqttTopics":["b/#"],"value":"${payload}"}]}],
	"schemaMappings":[{"name":"s","mapping":[{"source":"jsonPayload.n","target":"n","type":"integer","required":true}]}]}`

// TestEngine has the engine deliver messages to a cluster that is stopped meanwhile.
func TestEngine(t *testing.T) {
	t.Parallel()
	p := startPeer(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "secret-1"), kfake.SeedTopics(3, "plant"), kfake.DataDir(t.TempDir()))
	r := bridgestest.Start(t, kind, nil)
	r.Set(strings.ReplaceAll(fullDocument, "ADDRESS", p.address))
	want := map[string]int{}
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			topic := fmt.Sprint("a/", i%3)
			want[topic]++
			r.Broker.Text(topic, fmt.Sprintf(`{"n":%d}`, i))
		}
	}
	publish(0, 300)
	r.Broker.Text("a/0", `{"n":"poison"}`)
	r.Until("c1", "some are delivered", func(s broker.BridgeStatus) bool { return s.Stats.Delivered > 0 })
	p.stop()
	publish(300, 600)
	p.start(t)
	r.Until("c1", "all are delivered", func(s broker.BridgeStatus) bool {
		return s.QueuedMessages == 0 && s.Stats.Delivered == 600 && s.Stats.DeadLetters == 1 && s.Error == ""
	})
	inOrder(t, p.consume(t, "plant", 600, kgo.SASL(plain.Auth{User: "u", Pass: "secret-1"}.AsMechanism())), want)
	r.Reread(t, 1, p.address, "127.0.0.1:1")
}
