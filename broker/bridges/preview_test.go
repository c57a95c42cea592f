package bridges_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// TestPreviewBridge checks what each kind of bridge shows of a message. The addresses lead
// nowhere: nothing is connected.
func TestPreviewBridge(t *testing.T) {
	t.Parallel()
	_, e := withAllKinds(t)
	sample := broker.PublishSpec{Topic: "plant/7/raw", Payload: []byte(`{"speed":2.5}`), QoS: 1, Retain: true, ContentType: "application/json",
		CorrelationData: []byte{0xff}, UserProperties: []broker.UserProperty{{Name: "unit", Value: "m/s"}}}
	const record = `,"schemaMappings":[{"name":"r","mapping":[{"source":"topic[1]","target":"machine"},{"source":"jsonPayload.speed","target":"speed","type":"number","required":true}]}]}`
	for _, c := range []struct {
		kind, connection, mapping, rest string
		want                            broker.BridgePreview
		attributes                      []string // that are among others
	}{
		{"http-bridge", `{"url":"http://h.invalid/api","token":"a secret token","secretHeaders":{"X-Key":"another secret"},"headers":{"X-Site":"here"},"hmac":{"secret":"a third secret"}}`,
			`"target":"/${topic[1]}","schemaMapping":"r","headers":{"X-Unit":"${userProperties.unit}"}`, record,
			broker.BridgePreview{Destination: "POST http://h.invalid/api/7", Payload: `{"machine":"7","speed":2.5}`},
			[]string{"Content-Type=application/json", "X-Unit=m/s", "X-Signalbox-Topic=plant%2F7%2Fraw"}},
		{"http-bridge", `{"url":"http://h.invalid"}`, `"method":"PUT","batch":true,"body":"{\"v\":${jsonPayload.speed}}"`, "}",
			broker.BridgePreview{Destination: "PUT http://h.invalid/", Payload: `[{"v":2.5}]`}, nil},
		{"influxdb-bridge", `{"url":"http://h.invalid","database":"d"}`, `"target":"m${topic[1]}","timestamp":"jsonPayload.speed","timestampUnit":"s","tags":{"site":"x"}`, "}",
			broker.BridgePreview{Destination: "m7", Payload: "m7,site=x speed=2.5 2500000000\n"}, nil},
		{"kafka-bridge", `{"brokers":["h.invalid:9092"]}`, `"target":"plant.${topic[1]}","key":"${topic[1]}"`, "}",
			broker.BridgePreview{Destination: "plant.7", Payload: `{"speed":2.5}`}, []string{"key=7", "mqtt.topic=plant/7/raw", "mqtt.correlation_data=/w==", "unit=m/s"}},
		{"mqtt-bridge", `{"url":"mqtt://h.invalid"}`, `"qos":0,"retain":false,"remotePrefix":"site/"`, "}",
			broker.BridgePreview{Destination: "site/plant/7/raw", Payload: `{"speed":2.5}`}, []string{"qos=0", "retain=false", "unit=m/s"}},
		{"nats-bridge", `{"servers":["nats://h.invalid"]}`, `"value":"${jsonPayload.speed}"`, "}",
			broker.BridgePreview{Destination: "plant.7.raw", Payload: "2.5"}, []string{"Mqtt-Qos=1", "unit=m/s"}},
		{"sql-bridge", `{"driver":"postgresql","hostname":"h.invalid","database":"d","credentials":{"username":"u","password":"p"}}`, `"target":"plant.sensor","schemaMapping":"r"`, record,
			broker.BridgePreview{Destination: "plant.sensor", Payload: `{"machine":"7","speed":2.5}`}, nil},
		{"sql-bridge", `{"driver":"mysql","hostname":"h.invalid","database":"d","credentials":{"username":"u"}}`, `"target":"t","schemaMapping":"r"`,
			strings.ReplaceAll(record, "speed", "pace"), broker.BridgePreview{Error: "the message has no jsonPayload.pace, which is required"}, nil},
	} {
		config := `{"connections":[{"name":"c","enabled":false,"connection":` + c.connection + `,"topicMappings":[` +
			`{"name":"other","mqttTopics":["other/#"],` + c.mapping + `},{"name":"m","mqttTopics":["plant/+/raw"],` + c.mapping + `}]}]` + c.rest
		got, err := e.PreviewBridge(t.Context(), c.kind, json.RawMessage(config), sample)
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %+v, %v", c.kind, got, err)
			continue
		}
		attributes := ""
		for _, a := range got[0].Attributes {
			attributes += a.Name + "=" + a.Value + "\n"
		}
		for _, a := range c.attributes {
			if !strings.Contains(attributes, a+"\n") {
				t.Errorf("%s lacks %s:\n%s", c.kind, a, attributes)
			}
		}
		if strings.Contains(attributes, "secret") || strings.Contains(attributes, "X-Site") {
			t.Errorf("%s shows the headers of the connection:\n%s", c.kind, attributes)
		}
		c.want.ConnectionName, c.want.Mapping, c.want.Size, got[0].Attributes = "c", "m", len(c.want.Payload), nil
		if diff := cmp.Diff(c.want, got[0]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.kind, diff)
		}
	}
	sample.Topic = "$SYS/x"
	const toAll = `{"connections":[{"name":"c","connection":{"servers":["nats://h.invalid"]},"topicMappings":[{"name":"m","mqttTopics":["#"]}]}]}`
	if got, err := e.PreviewBridge(t.Context(), "nats-bridge", json.RawMessage(toAll), sample); len(got) != 0 || err != nil {
		t.Errorf("of a topic that bridges do not take: %+v, %v", got, err)
	}
	if got, err := e.PreviewBridge(t.Context(), "nats-bridge", nil, sample); len(got) != 0 || err != nil {
		t.Errorf("without a configuration: %+v, %v", got, err)
	}
	_, err := e.PreviewBridge(t.Context(), "nats-bridge", json.RawMessage(`{"connections":[{"name":"c"}]}`), sample)
	wantKind(t, err, broker.Invalid)
	sample.ContentType = strings.Repeat("x", 70_000)
	_, err = e.PreviewBridge(t.Context(), "nats-bridge", nil, sample)
	wantKind(t, err, broker.Invalid)
	_, err = e.PreviewBridge(t.Context(), "no-bridge", nil, sample)
	wantKind(t, err, broker.NotFound)
}

// TestPreviewConfirmsNoGuess shows what a caller guesses of the secrets of a connection like
// any other text, so that the answer does not tell whether a guess is right.
func TestPreviewConfirmsNoGuess(t *testing.T) {
	t.Parallel()
	_, e := withAllKinds(t)
	const secret = "a secret token"
	for _, guess := range []string{secret, "a se…", "a secret tok..."} {
		for _, c := range []struct{ kind, connection, mapping string }{
			{"http-bridge", `"url":"http://h.invalid","token":"` + secret + `"`, `"target":"/${payload}","headers":{"X-A":"${payload}"}`},
			{"http-bridge", `"url":"http://h.invalid","token":"` + secret + `"`, `"schemaMapping":"${payload}"`},
			{"nats-bridge", `"servers":["nats://h.invalid"],"token":"` + secret + `"`, `"value":"${userProperties.unit}"`},
		} {
			config := `{"connections":[{"name":"c","connection":{` + c.connection + `},"topicMappings":[{"name":"m","mqttTopics":["#"],` + c.mapping + `}]}]}`
			sample := broker.PublishSpec{Topic: "t", Payload: []byte(guess), UserProperties: []broker.UserProperty{{Name: "unit", Value: guess}}}
			got, err := e.PreviewBridge(t.Context(), c.kind, json.RawMessage(config), sample)
			if text := fmt.Sprintf("%+v %v", got, err); strings.Contains(text, "***") {
				t.Errorf("%s, %q: %s", c.kind, guess, text)
			}
		}
	}
}

// TestPreviewIsBounded shows the first attributes of a message with many, and the beginnings of
// long ones, and rejects headers that no server accepts.
func TestPreviewIsBounded(t *testing.T) {
	t.Parallel()
	_, e := withAllKinds(t)
	sample := broker.PublishSpec{Topic: "t", CorrelationData: []byte{0xff}}
	for i := range 200 {
		sample.UserProperties = append(sample.UserProperties, broker.UserProperty{Name: fmt.Sprint("p", i, strings.Repeat("n", 2000)), Value: strings.Repeat("v", 2000)})
	}
	preview := func(kind, connection, mapping string) broker.BridgePreview {
		t.Helper()
		got, err := e.PreviewBridge(t.Context(), kind, json.RawMessage(`{"connections":[{"name":"c","connection":{`+connection+`},"topicMappings":[{"name":"m","mqttTopics":["#"]`+mapping+`}]}]}`), sample)
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		return got[0]
	}
	list := preview("kafka-bridge", `"brokers":["h.invalid:9092"]`, "").Attributes
	if len(list) != 100 {
		t.Errorf("%d attributes", len(list))
	}
	binary := false
	for _, a := range list {
		if len(a.Name) > broker.PreviewLimit || len(a.Value) > broker.PreviewLimit || a.Truncated != (len(a.Value) == broker.PreviewLimit) {
			t.Errorf("%d bytes of %d, cut: %t", len(a.Value), len(a.Name), a.Truncated)
		}
		binary = binary || a.Encoding == broker.EncodingBase64
	}
	if !binary {
		t.Error("no attribute is shown in base64")
	}
	sample.UserProperties, sample.Payload = nil, []byte(strings.Repeat("x", 200<<10))
	got := preview("http-bridge", `"url":"http://h.invalid"`, `,"headers":{"X-A":"${payload}","X-B":"${payload}"}`)
	if !strings.Contains(got.Error, "headers of more than 262144 bytes") {
		t.Errorf("got %+v", got)
	}
}
