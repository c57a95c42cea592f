package influxdb_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/influxdb"
	"signalbox/broker/bridges/peertest"
)

// fullDocument is a document with every member; the second connection is of version 2.
const fullDocument = `{"version":"v1","connections":[
	{"name":"c1","connection":{"version":1,"url":"URL","database":"plant","retentionPolicy":"autogen","credentials":{"username":"admin","password":"secret-PASSWORD"},"tls":{"enabled":false}},
		"options":{"compression":"gzip","uniqueTimestamps":true,"retryMinInsertDelay":1,"retryMaxInsertDelay":20},
		"topicMappings":[{"name":"m","mqttTopics":["a/#"],"target":"m","tags":{"line":"${topic[1]}"},"schemaMapping":"s","timestamp":"timestamp","timestampUnit":"ms"}]},
	{"name":"c2","enabled":false,"connection":{"version":2,"url":"http://influx:8086","organization":"o","bucket":"b","token":"secret-token"},"topicMappings":[{"name":"m","mqttTopics":["b/#"],"target":"m"}]}],
	"schemaMappings":[{"name":"s","mapping":[{"source":"jsonPayload.n","target":"n","type":"integer","required":true}]}]}`

// TestEngine has the engine deliver messages to InfluxDB, which is killed meanwhile.
func TestEngine(t *testing.T) {
	t.Parallel()
	p := peertest.StartInfluxDB(t)
	p.Query(t, "SET PASSWORD FOR admin = 'secret-"+p.Password+"'")
	p.Password = "secret-" + p.Password
	r := bridgestest.Start(t, influxdb.Kind{}, nil)
	r.Set(strings.NewReplacer("URL", p.URL, "secret-PASSWORD", p.Password).Replace(fullDocument))
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			r.Broker.Text(fmt.Sprint("a/", i%3), fmt.Sprintf(`{"n":%d}`, i))
		}
	}
	publish(0, 300)
	r.Broker.Text("a/0", `{"n":"poison"}`)
	r.Until("c1", "some are delivered", func(s broker.BridgeStatus) bool { return s.Stats.Delivered > 0 })
	p.Kill(t)
	publish(300, 600)
	r.Until("c1", "the end is noticed", func(s broker.BridgeStatus) bool { return s.Error != "" })
	p.Start(t)
	r.Until("c1", "all are delivered", func(s broker.BridgeStatus) bool {
		return s.QueuedMessages == 0 && s.Stats.Delivered == 600 && s.Stats.DeadLetters == 1 && s.Error == ""
	})
	if got := p.Query(t, "SELECT count(distinct(n)), count(n) FROM m"); got[0][1] != 600.0 || got[0][2] != 600.0 {
		t.Errorf("got %v points, want 600", got)
	}
	r.Reread(t, 2, p.URL, "http://127.0.0.1:1")
}
