package mapping_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges/mapping"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// example is a message with every part that a message can have.
func example(t testing.TB, payload string) *mapping.Message {
	t.Helper()
	properties, err := packet.EncodeProperties([]packet.Property{
		{Identifier: packet.PropertyContentType, Value: "text/plain"},
		{Identifier: packet.PropertyResponseTopic, Value: "answers/1"},
		{Identifier: packet.PropertyCorrelationData, Value: "AAH/"},
		{Identifier: packet.PropertyUser, Name: "unit", Value: "km/h"},
		{Identifier: packet.PropertyUser, Name: "unit", Value: "second"},
		{Identifier: packet.PropertyUser, Name: "a b", Value: `"quoted"`},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &mapping.Message{MessageID: "id-1", Hostname: "machine", Message: &messaging.Message{
		Topic: "plant/hall 3/speed", Payload: []byte(payload), Properties: properties, QoS: 1, Retain: true,
		At: 1_700_000_000_123, ClientID: "sensor",
	}}
}

// bare is a message with the minimum of parts.
func bare(payload string) *mapping.Message {
	return &mapping.Message{Message: &messaging.Message{Payload: []byte(payload)}}
}

var came = time.UnixMilli(1_700_000_000_123).UTC()

const document = `{"n":5,"big":9007199254740993,"f":1.50,"e":1e3,"s":"a\u00e9\"","t":true,"z":null,"o":{"a b":[1, 2,{"c":3}]," ":1},"l":[],"d":1,"d":2,"":0,"x-y":7}`

func TestExpressions(t *testing.T) {
	for text, want := range map[string]mapping.Value{
		"payload": []byte(document), "topic": "plant/hall 3/speed", "topic[0]": "plant", "topic[1]": "hall 3", "topic[-1]": "speed",
		"topic[-3]": "plant", "topic[3]": nil, "topic[-4]": nil, "qos": int64(1), "retain": true, "client_id": "sensor",
		"timestamp": came, "hostname": "machine", "message_id": "id-1", "contentType": "text/plain", "responseTopic": "answers/1",
		"correlationData": []byte{0, 1, 255}, "userProperties.unit": "km/h", `userProperties["a b"]`: `"quoted"`, "userProperties.none": nil,
		"jsonPayload": json.RawMessage(document), "jsonPayload.n": int64(5), "jsonPayload.big": int64(9007199254740993), "jsonPayload.f": 1.5,
		"jsonPayload.e": 1000.0, "jsonPayload.s": `aé"`, "jsonPayload.t": true, "jsonPayload.z": nil, "jsonPayload.none": nil,
		`jsonPayload.o["a b"]`: json.RawMessage(`[1, 2,{"c":3}]`), `jsonPayload["o"]["a b"][0]`: int64(1), `jsonPayload.o["a b"][-1].c`: int64(3),
		`jsonPayload.o["a b"][3]`: nil, `jsonPayload.o["a b"][-4]`: nil, `jsonPayload.o["\u0020"]`: int64(1), "jsonPayload.l[0]": nil,
		"jsonPayload.d": int64(2), `jsonPayload[""]`: int64(0), "jsonPayload.x-y": int64(7), "jsonPayload.n.a": nil, "jsonPayload[0]": nil, "jsonPayload.l.a": nil,
	} {
		e, err := mapping.ParseExpression(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := e.Value(example(t, document))
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: got %#v, %v, want %#v", text, got, err, want)
		}
		if e.String() != text {
			t.Errorf("%s: got %s as its text", text, e)
		}
	}
}

func TestExpressionsOfABareMessage(t *testing.T) {
	for text, want := range map[string]mapping.Value{
		"client_id": nil, "message_id": nil, "contentType": nil, "responseTopic": nil, "correlationData": nil, "userProperties.a": nil,
		"topic": "", "topic[0]": "", "jsonPayload": 1e19, "qos": int64(0),
	} {
		e, err := mapping.ParseExpression(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Value(bare("1e19")); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: got %#v, %v, want %#v", text, got, err, want)
		}
	}
	e, _ := mapping.ParseExpression("hostname")
	if got, err := e.Value(bare("")); err != nil || got == nil || got == "" {
		t.Errorf("got %v, %v, want the name of this machine", got, err)
	}
}

func TestExpressionsRefused(t *testing.T) {
	for _, text := range []string{
		"", "Payload", "payload.a", "qos[0]", "topic.a", `topic["a"]`, "topic[0][1]", "topic[01]", "topic[]", "topic[a]", "topic[0", "topic[+1]",
		"topic[99999999999999999999]", "topic[2000000]", "jsonPayload.", "jsonPayload..a", "jsonPayload.1", "jsonPayload.-", "jsonPayload[", `jsonPayload["a`,
		`jsonPayload["a"`, `jsonPayload["a"x]`, `jsonPayload["\x"]`, `jsonPayload["\"]`, "jsonPayload.a b", "jsonPayload a", "userProperties", "userProperties[0]",
		"userProperties.a.b", "jsonPayload" + strings.Repeat("[0]", 33), "jsonPayload." + strings.Repeat("a", 1000), "jsonPayload[0]a",
	} {
		if e, err := mapping.ParseExpression(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, e)
		}
	}
}

func TestPayloadsThatAreNoJSON(t *testing.T) {
	e, err := mapping.ParseExpression("jsonPayload.a")
	if err != nil {
		t.Fatal(err)
	}
	for _, payload := range []string{"", "text", `{"a":1`, `{"a":1}}`, "\xff", `{"a":1e999}`, strings.Repeat("[", 100_000)} {
		v, err := e.Value(bare(payload))
		if _, ok := errors.AsType[*mapping.Unfit](err); !ok || v != nil {
			t.Errorf("%.20q: got %v, %v, want it to be unfit", payload, v, err)
		}
	}
}

func compiled(t testing.TB, text string) *mapping.Mapping {
	t.Helper()
	var s mapping.Spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	m, problems := mapping.Compile(s)
	if len(problems) > 0 {
		t.Fatalf("got problems %v", problems)
	}
	return m
}

func TestDefault(t *testing.T) {
	r, err := mapping.Default().Record(example(t, "21 \x01\u2028<\"é"))
	want := `{"topic":"plant/hall 3/speed","payload":"21 \u0001` + "\u2028" + `<\"é","qos":1,"retain":true,"timestamp":"2023-11-14T22:13:20.123Z","client_id":"sensor"}`
	if got := string(r.AppendJSON(nil)); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	r, err = mapping.Default().Record(bare("\xff\x00"))
	want = `{"topic":"","payload":"/wA=","qos":0,"retain":false,"timestamp":"1970-01-01T00:00:00.000Z","client_id":null}`
	if got := string(r.AppendJSON(nil)); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestRecord(t *testing.T) {
	m := compiled(t, `{"name":"s","mapping":[{"source":"jsonPayload.n","target":"a"},{"source":"jsonPayload.none","target":"b","default":7,"type":"number"},
		{"value":"fixed","target":"c \""},{"source":"jsonPayload.o","target":"d"},{"value":{"x":[1]},"target":"e"},{"value":null,"target":"f"},
		{"value":"2026-01-02T03:04:05+01:00","type":"time","target":"g"},{"source":"topic[-1]","target":"h","required":true}]}`)
	if got, want := m.Targets(), []string{"a", "b", `c "`, "d", "e", "f", "g", "h"}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := m.Types(), []string{"", "number", "", "", "", "", "time", ""}; !cmp.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	r, err := m.Record(example(t, document))
	want := `{"a":5,"b":7,"c \"":"fixed","d":{"a b":[1, 2,{"c":3}]," ":1},"e":{"x":[1]},"f":null,"g":"2026-01-02T02:04:05.000Z","h":"speed"}`
	if got := string(r.AppendJSON(nil)); err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

func TestRecordsUnfit(t *testing.T) {
	for name, c := range map[string]struct{ mapping, payload string }{
		"required": {`{"source":"jsonPayload.x","required":true}`, `{"x":null}`},
		"no JSON":  {`{"source":"jsonPayload.x"}`, `x`},
		"default is no way around a payload that is no JSON": {`{"source":"jsonPayload.x","default":1}`, `x`},
		"wrong type":     {`{"source":"jsonPayload.x","type":"number","default":1}`, `{"x":"fast"}`},
		"no text":        {`{"source":"payload","type":"string"}`, "\xff"},
		"json of a text": {`{"source":"payload","type":"json"}`, "text"},
	} {
		m := compiled(t, `{"mapping":[`+strings.Replace(c.mapping, "{", `{"target":"t",`, 1)+`]}`)
		r, err := m.Record(bare(c.payload))
		if unfit, ok := errors.AsType[*mapping.Unfit](err); !ok || r != nil || unfit.Msg == "" {
			t.Errorf("%s: got %v, %v, want it to be unfit", name, r, err)
		}
	}
}

func TestTypes(t *testing.T) {
	unfit := mapping.Value(&mapping.Unfit{})
	for _, c := range []struct {
		typ, source, payload string
		want                 mapping.Value
	}{
		{"string", "payload", "abc", "abc"}, {"string", "jsonPayload", "1.50", "1.5"}, {"string", "jsonPayload", "true", "true"},
		{"string", "jsonPayload", "[1]", "[1]"}, {"string", "timestamp", "", "1970-01-01T00:00:00.000Z"}, {"string", "jsonPayload", "1e-9", "1e-09"},
		{"number", "payload", " 21.5\n", 21.5}, {"number", "jsonPayload", "5", 5.0}, {"number", "jsonPayload", `"-1e3"`, -1000.0},
		{"number", "payload", "", unfit}, {"number", "payload", "NaN", unfit}, {"number", "payload", "0x10", unfit}, {"number", "payload", "1e999", unfit},
		{"number", "payload", "1_0", unfit}, {"number", "jsonPayload", "true", unfit}, {"number", "jsonPayload", "[]", unfit}, {"number", "timestamp", "", 0.0},
		{"integer", "payload", "9007199254740993", int64(9007199254740993)}, {"integer", "jsonPayload", "5.0", int64(5)}, {"integer", "jsonPayload", "5.5", unfit},
		{"integer", "payload", "1e3", int64(1000)}, {"integer", "payload", "1e300", unfit}, {"integer", "jsonPayload", "false", unfit}, {"integer", "timestamp", "", int64(0)},
		{"boolean", "payload", "TRUE", true}, {"boolean", "payload", "0", false}, {"boolean", "jsonPayload", "1", true}, {"boolean", "jsonPayload", "1.0", true},
		{"boolean", "jsonPayload", "2", unfit}, {"boolean", "payload", "on", unfit}, {"boolean", "jsonPayload", "{}", unfit}, {"boolean", "jsonPayload", "false", false},
		{"json", "payload", `{"a":1}`, json.RawMessage(`{"a":1}`)}, {"json", "jsonPayload", `"x"`, json.RawMessage(`"x"`)}, {"json", "topic", "", json.RawMessage(`""`)},
		{"json", "qos", "", json.RawMessage(`0`)}, {"json", "payload", "", unfit},
		{"time", "payload", "2026-01-02T03:04:05.678+02:00", time.Date(2026, 1, 2, 1, 4, 5, 678e6, time.UTC)}, {"time", "payload", "1700000000123", came},
		{"time", "jsonPayload", "1700000000123", came}, {"time", "payload", "yesterday", unfit}, {"time", "payload", "2026-01-02", unfit}, {"time", "payload", "1e17", unfit},
		{"time", "payload", "9999-12-31T23:59:59-10:00", unfit}, {"time", "jsonPayload", "true", unfit}, {"time", "timestamp", "", time.UnixMilli(0).UTC()},
	} {
		m := compiled(t, `{"mapping":[{"target":"t","source":"`+c.source+`","type":"`+c.typ+`"}]}`)
		r, err := m.Record(bare(c.payload))
		if c.want == unfit {
			if _, ok := errors.AsType[*mapping.Unfit](err); !ok {
				t.Errorf("%s of %s %q: got %v, want it to be unfit", c.typ, c.source, c.payload, r)
			}
			continue
		}
		if err != nil || !cmp.Equal(r[0].Value, c.want) {
			t.Errorf("%s of %s %q: got %#v, %v, want %#v", c.typ, c.source, c.payload, r, err, c.want)
		}
	}
}

func TestCompileNamesAllProblems(t *testing.T) {
	m, problems := mapping.Compile(mapping.Spec{Mapping: []mapping.FieldSpec{
		{Source: "payload", Target: "a"},
		{Source: "load", Target: "a"},
		{},
		{Source: "payload", Value: json.RawMessage("1"), Target: "c"},
		{Value: json.RawMessage(`"x"`), Type: "number", Target: "d"},
		{Value: json.RawMessage(`1`), Default: json.RawMessage(`1`), Target: "e"},
		{Source: "payload", Type: "float", Target: "f"},
		{Source: "payload", Type: "time", Default: json.RawMessage(`"now"`), Target: "g"},
		{Value: json.RawMessage(`1e999`), Target: "h"},
	}})
	var got []string
	for _, p := range problems {
		if p.Msg == "" {
			t.Errorf("%s: got no message", p.Path)
		}
		got = append(got, p.Path)
	}
	want := []string{"mapping[1].source", "mapping[1].target", "mapping[2].target", "mapping[2].source", "mapping[3].value", "mapping[4].value",
		"mapping[5].default", "mapping[6].type", "mapping[7].default", "mapping[8].value"}
	if m != nil || !cmp.Equal(got, want) {
		t.Errorf("got %v, %q, want %q", m, got, want)
	}
	for _, fields := range [][]mapping.FieldSpec{nil, make([]mapping.FieldSpec, 501)} {
		if _, problems := mapping.Compile(mapping.Spec{Mapping: fields}); len(problems) != 1 || problems[0].Path != "mapping" {
			t.Errorf("%d members: got %v, want a problem of the mapping", len(fields), problems)
		}
	}
}

func TestConvert(t *testing.T) {
	t.Parallel()
	if v, ok := mapping.Convert("21.0", "integer"); !ok || v != int64(21) {
		t.Errorf("got %v and %v, want 21", v, ok)
	}
	if v, ok := mapping.Convert("21.5", "integer"); ok {
		t.Errorf("got %v, want no integer", v)
	}
}
