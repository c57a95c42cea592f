package kafka_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/packet"
	"signalbox/scripts/suite"
)

const secret = "c0rrect-horse"

func TestRecord(t *testing.T) {
	t.Parallel()
	properties, err := packet.EncodeProperties([]packet.Property{
		{Identifier: packet.PropertyContentType, Value: "text/plain"},
		{Identifier: packet.PropertyCorrelationData, Value: "AAE="},
		{Identifier: packet.PropertyUser, Name: "unit", Value: "m/s"},
		{Identifier: packet.PropertyUser, Name: "mqtt.topic", Value: "other"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, mapping, topic, key, value string }{
		{"as it is", ``, "a.b", "a/b", `{"v":1.5}`},
		{"target and key", `,"target":"plant.${topic[0]}","key":"${jsonPayload.v}"`, "plant.a", "1.5", `{"v":1.5}`},
		{"no key", `,"key":""`, "a.b", "", `{"v":1.5}`},
		{"value", `,"value":"<${jsonPayload.v}>"`, "a.b", "a/b", `<1.5>`},
		{"record", `,"schemaMapping":"s1"`, "a.b", "a/b", `{"value":1.5}`},
		{"without headers", `,"mqttHeaders":false`, "a.b", "a/b", `{"v":1.5}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, kfake.SeedTopics(1, tt.topic))
			e := bridgestest.Entry(1, "a/b", `{"v":1.5}`)
			e.Properties = properties
			bridgestest.Drive(t, compile(t, p.brokers(), ``, tt.mapping), []*bridges.Entry{e}, 10, nil)
			r := p.consume(t, tt.topic, 1)[0]
			if string(r.Key) != tt.key || string(r.Value) != tt.value || r.Timestamp.UnixMilli() != e.At {
				t.Errorf("got %q: %q at %v, want %q: %q", r.Key, r.Value, r.Timestamp, tt.key, tt.value)
			}
			want := []kgo.RecordHeader{{Key: "mqtt.topic", Value: []byte("a/b")}, {Key: "mqtt.qos", Value: []byte("1")},
				{Key: "mqtt.retain", Value: []byte("false")}, {Key: "mqtt.message_id", Value: []byte("store-1-1")},
				{Key: "mqtt.content_type", Value: []byte("text/plain")}, {Key: "mqtt.correlation_data", Value: []byte{0, 1}}, {Key: "unit", Value: []byte("m/s")}}
			if tt.name == "without headers" {
				want = nil
			}
			if diff := cmp.Diff(want, r.Headers); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOptions checks that each option works with the peer.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, options := range []string{`"compression":"gzip"`, `"compression":"snappy"`, `"compression":"lz4"`, `"compression":"zstd"`, `"acks":"leader"`, `"idempotent":false`, `"acks":"all","idempotent":true`} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, kfake.SeedTopics(1, "a"))
			o := bridgestest.Drive(t, compile(t, p.brokers(), options, ``), []*bridges.Entry{bridgestest.Entry(1, "a", strings.Repeat("x", 10_000))}, 10, nil)
			if r := p.consume(t, "a", 1)[0]; len(r.Value) != 10_000 || len(o.Failures) > 0 {
				t.Errorf("got %d bytes and failures %q", len(r.Value), o.Failures)
			}
		})
	}
}

// TestPoison checks that messages that can never be delivered are rejected and the others
// delivered in order, even if the broker refuses a batch because of one message.
func TestPoison(t *testing.T) {
	t.Parallel()
	for _, options := range []string{`"maxMessageBytes":5000`, ``, `"idempotent":false`} {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, kfake.SeedTopics(3, "x"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "5000"}))
			c := compile(t, p.brokers(), options, `,"target":"${jsonPayload.t}"`)
			var entries []*bridges.Entry
			wanted := map[string]int{}
			for i := range 60 {
				topic, payload := fmt.Sprint("m/", i%3), fmt.Sprintf(`{"t":"x","n":%d}`, i)
				switch i {
				case 7, 33:
					payload = fmt.Sprintf(`{"t":"x","n":%d,"fill":%q}`, i, strings.Repeat("x", 6000))
				case 8:
					payload = "no JSON"
				case 9:
					payload = `{"t":"no topic","n":9}`
				case 10:
					payload = `{"t":"","n":10}`
				default:
					wanted[topic]++
				}
				entries = append(entries, bridgestest.Entry(uint64(i), topic, payload))
			}
			o := bridgestest.Drive(t, c, entries, 30, nil)
			if len(o.Failures) > 0 || len(o.Rejected) != 5 {
				t.Errorf("got failures %q and rejected %v", o.Failures, o.Rejected)
			}
			for _, id := range []uint64{7, 33, 8, 9, 10} {
				if o.Rejected[id] == "" {
					t.Errorf("entry %d was not rejected", id)
				}
			}
			inOrder(t, p.consume(t, "x", 55), wanted)
		})
	}
}

// inOrder checks that the numbers in the records of each key increase, and how many there are.
func inOrder(t *testing.T, records []*kgo.Record, want map[string]int) {
	t.Helper()
	last, got := map[string]int{}, map[string]int{}
	for _, r := range records {
		key, value := string(r.Key), string(r.Value)
		var n int
		if _, err := fmt.Sscan(strings.Trim(value[strings.LastIndexAny(value, ": ")+1:], "}"), &n); err != nil {
			t.Fatalf("%q: %v", value, err)
		}
		if before, ok := last[key]; ok && n <= before {
			t.Errorf("%s: %d came after %d", key, n, before)
		}
		last[key] = n
		got[key]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records of each key (-want +got):\n%s", diff)
	}
}

func numbered(count int) (entries []*bridges.Entry, want map[string]int) {
	want = map[string]int{}
	for i := range count {
		topic := fmt.Sprint("t/", i%4)
		want[topic]++
		entries = append(entries, bridgestest.Entry(uint64(i+1), topic, fmt.Sprint(i)))
	}
	return entries, want
}

// TestRestart restarts the cluster, with its data, during deliveries. No message is lost or
// duplicated, and the order is kept.
func TestRestart(t *testing.T) {
	t.Parallel()
	p := startPeer(t, kfake.SeedTopics(3, "kept"), kfake.DataDir(t.TempDir()), kfake.SyncWrites())
	c := compile(t, p.brokers(), ``, `,"target":"kept"`)
	const count = 3000
	entries, want := numbered(count)
	o := bridgestest.DriveOverOutages(t, c, entries, 50, p.stop, p.stop, func() { p.start(t) })
	if len(o.Rejected) > 0 {
		t.Errorf("got rejected %v", o.Rejected)
	}
	inOrder(t, p.consume(t, "kept", count), want)
}

// TestForgetfulCluster continues with a cluster that has lost its data: records and producer
// state.
func TestForgetfulCluster(t *testing.T) {
	t.Parallel()
	p := startPeer(t, kfake.SeedTopics(1, "t"))
	c := compile(t, p.brokers(), ``, `,"target":"t"`)
	before, _ := numbered(200)
	bridgestest.Drive(t, c, before, 50, nil)
	p.stop()
	p.start(t)
	after, want := numbered(200)
	bridgestest.Drive(t, c, after, 50, nil)
	inOrder(t, p.consume(t, "t", 200), want)
}

// TestDataLoss continues after the error of a broker that has lost a producer's sequence number.
func TestDataLoss(t *testing.T) {
	t.Parallel()
	for _, lost := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping} {
		t.Run(lost.Message, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, kfake.SeedTopics(1, "t"))
			c := compile(t, p.brokers(), ``, `,"target":"t"`)
			before, want := numbered(100)
			bridgestest.Drive(t, c, before[:50], 10, nil)
			p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: lost, Count: 3})
			o := bridgestest.Drive(t, c, before[50:], 10, nil)
			if len(o.Rejected) > 0 {
				t.Errorf("got rejected %v", o.Rejected)
			}
			inOrder(t, p.consume(t, "t", 100), want)
		})
	}
}

// TestUncertain checks that a record whose acknowledgement was lost is not written twice.
func TestUncertain(t *testing.T) {
	t.Parallel()
	p := startPeer(t, kfake.SeedTopics(1, "t"))
	c := compile(t, p.brokers(), ``, `,"target":"t"`)
	entries, want := numbered(100)
	p.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicasAfterAppend, Count: 2})
	bridgestest.Drive(t, c, entries, 25, nil)
	inOrder(t, p.consume(t, "t", 100), want)
}

// TestNoTopic checks that messages of a missing topic wait, and those of other topics do not.
func TestNoTopic(t *testing.T) {
	t.Parallel()
	p := startPeer(t, kfake.SeedTopics(1, "there"))
	c := compile(t, p.brokers(), ``, ``)
	entries := []*bridges.Entry{bridgestest.Entry(1, "late", "1"), bridgestest.Entry(2, "there", "2"), bridgestest.Entry(3, "late", "3")}
	made := false
	o := bridgestest.Drive(t, c, entries, 10, func(left int) {
		if !made {
			made = true
			if left != 2 {
				t.Errorf("%d messages wait, want 2", left)
			}
			if err := p.cluster.CreateTopic("late", 1, nil); err != nil {
				t.Error(err)
			}
		}
	})
	want := `there is no topic "late": create it, or set the option createTopics if the cluster permits that`
	if len(o.Failures) != 1 || o.Failures[0] != want {
		t.Errorf("got failures %q, want %q", o.Failures, want)
	}
	inOrder(t, p.consume(t, "late", 2), map[string]int{"late": 2})
}

func TestCreateTopics(t *testing.T) {
	t.Parallel()
	p := startPeer(t, kfake.AllowAutoTopicCreation())
	bridgestest.Drive(t, compile(t, p.brokers(), `"createTopics":true`, ``), []*bridges.Entry{bridgestest.Entry(1, "new/one", "1")}, 10, nil)
	p.consume(t, "new.one", 1)
}

// TestTrial checks that a trial reports a missing topic and does not create it.
func TestTrial(t *testing.T) {
	t.Parallel()
	p := startPeer(t, kfake.AllowAutoTopicCreation())
	document := fmt.Sprintf(`{"connection":{%s},"topicMappings":[{"name":"t1","mqttTopics":["#"],"target":"fixed"}]}`, p.brokers())
	connection := bridgestest.Connection(t, document)
	connection.Trial = true
	err := bridgestest.Connect(t, bridgestest.Compile(t, kind, connection))
	if err == nil || !strings.HasPrefix(err.Error(), `there is no topic "fixed"`) {
		t.Errorf("got %v, want that there is no topic", err)
	}
	if p.cluster.TopicInfo("fixed") != nil {
		t.Error("the topic was made")
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	for mechanism, method := range map[string]string{"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, kfake.EnableSASL(), kfake.Superuser(method, "u", secret))
			login := func(password string) string {
				return fmt.Sprintf(`%s,"saslMechanism":%q,"credentials":{"username":"u","password":%q}`, p.brokers(), mechanism, password)
			}
			if err := bridgestest.Connect(t, compile(t, login(secret), ``, ``)); err != nil {
				t.Errorf("got %v, want a connection", err)
			}
			err := bridgestest.Connect(t, compile(t, login("wr0ng-secret"), ``, ``))
			if err == nil || !strings.Contains(err.Error(), "check the user name, the password and the mechanism") || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("a wrong password: got %v, want a sentence without it", err)
			}
			const want = "a broker ended the connection at once: check whether it expects TLS, or SASL"
			if err := bridgestest.Connect(t, compile(t, p.brokers(), ``, ``)); err == nil || err.Error() != want {
				t.Errorf("without a login: got %v, want %s", err, want)
			}
		})
	}
}

// TestNotPermitted checks that messages wait if the user may not write to the topic.
func TestNotPermitted(t *testing.T) {
	t.Parallel()
	allow := func(name string, op kmsg.ACLOperation) kfake.ACL {
		return kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: name, Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: op, Allow: true}
	}
	p := startPeer(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.SeedTopics(1, "yes", "no"),
		kfake.User("PLAIN", "u", secret, allow("yes", kmsg.ACLOperationWrite), allow("yes", kmsg.ACLOperationDescribe), allow("no", kmsg.ACLOperationDescribe)))
	c := compile(t, fmt.Sprintf(`%s,"saslMechanism":"plain","credentials":{"username":"u","password":%q}`, p.brokers(), secret), ``, ``)
	if err := bridgestest.Connect(t, c); err != nil {
		t.Fatal(err)
	}
	results := make([]bridges.Result, 2)
	err := c.Deliver(t.Context(), []*bridges.Entry{bridgestest.Entry(1, "no", "x"), bridgestest.Entry(2, "yes", "x")}, results)
	const want = `the user may not write to the topic "no": allow it at the cluster, or change the target`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if diff := cmp.Diff([]bridges.Result{{State: bridges.Pending, Reason: want}, {State: bridges.Delivered}}, results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ca, stranger := brokertest.NewCA(t), brokertest.NewCA(t)
	pair := ca.Issue(t, brokertest.CertOptions{Subject: "kafka", Names: []string{"127.0.0.1"}})
	certificate, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	secure := startPeer(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}))
	plain := startPeer(t)
	for _, tt := range []struct {
		name string
		peer *peer
		tls  string
		want string
	}{
		{"trusted", secure, fmt.Sprintf(`{"enabled":true,"caCertificate":%q}`, ca.PEM), ""},
		{"a stranger's", secure, fmt.Sprintf(`{"enabled":true,"caCertificate":%q}`, stranger.PEM), "certificate is not trusted"},
		{"not switched on", secure, `{}`, "check whether it expects TLS"},
		{"not offered", plain, `{"enabled":true}`, "did not answer in time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			limit := suite.HangLimit
			if strings.Contains(tt.want, "in time") {
				limit = 2 * time.Second // the peer without TLS does not respond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := compile(t, tt.peer.brokers()+`,"tls":`+tt.tls, ``, ``).Connect(ctx)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("got %v, want a connection", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}
