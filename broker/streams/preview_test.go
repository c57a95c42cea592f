package streams_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// preview returns the outcomes of payloads on topic "in" for a stream "s" with changes.
func (r *fixture) preview(payloads []string, change ...func(*broker.StreamSpec)) []broker.StreamOutcome {
	r.tb.Helper()
	p := broker.StreamPreview{StreamSpec: spec(change...)}
	for i, text := range payloads {
		p.Messages = append(p.Messages, broker.SampleMessage{Topic: "in", Payload: []byte(text), QoS: 1, At: origin + int64(i)})
	}
	outcomes, err := r.PreviewStream(r.tb.Context(), p)
	must(r.tb, err)
	return outcomes
}

// TestPreview checks the outcome of each message, and that a stream of the same definition
// publishes and counts what the preview shows.
func TestPreview(t *testing.T) {
	t.Parallel()
	const selects = `"select":[{"source":"[v]","target":"[sum]","alias":"sum","function":{"name":"sum"}},{"source":"[name]","target":"[name]"},{"target":"[n]","function":{"name":"count"}}]`
	payloads := []string{`{"v":2,"name":"x"}`, `text`, `{"v":2}`, `{"name":"x"}`, `{"v":"2","name":"x"}`, `{"v":1e999,"name":"x"}`, `{"v":1,"name":"y"}`, `{}`}
	for name, test := range map[string]struct {
		query string
		want  string
	}{
		"no query": {`{}`, strings.Join(payloads, "|")},
		"selects": {`{` + selects + `}`, `{"sum":2,"name":"x","n":1}|invalid notJSON |invalid missing query.select[1].source|invalid missing query.select[0].source|` +
			`invalid notNumber query.select[0].source|invalid overflow query.select[0].source|{"sum":3,"name":"y","n":2}|invalid missing query.select[1].source`},
		"a condition on the message": {`{` + selects + `,"where":[{"left":"[v]","operator":"<","right":2}]}`, `filtered conditionFalse query.where[0]|invalid notJSON |` +
			strings.Repeat(`filtered conditionFalse query.where[0]|`, 4) + `{"sum":1,"name":"y","n":1}|filtered conditionFalse query.where[0]`},
		"a condition on an aggregate": {`{` + selects + `,"where":[{"left":"sum","operator":">","right":2}]}`, `filtered conditionFalse query.where[0]|invalid notJSON |` +
			`invalid missing query.select[1].source|invalid missing query.select[0].source|invalid notNumber query.select[0].source|invalid overflow query.select[0].source|` +
			`{"sum":3,"name":"y","n":2}|invalid missing query.select[1].source`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, nil, streams.DefaultConfig())
			var got, results []string
			var filtered, invalid int64
			for _, o := range r.preview(payloads, to("out"), withQuery(test.query)) {
				switch o.Result {
				case broker.StreamPassed:
					got, results = append(got, o.Payload), append(results, o.Payload)
					if o.Topic != "out" || o.QoS != 1 || o.Stored || o.Size != len(o.Payload) {
						t.Errorf("%+v", o)
					}
					continue
				case broker.StreamFiltered:
					filtered++
				default:
					invalid++
				}
				got = append(got, o.Result+" "+o.Cause+" "+o.Path)
			}
			if joined := strings.Join(got, "|"); joined != test.want {
				t.Errorf("got  %s\nwant %s", joined, test.want)
			}
			r.create(to("out"), withQuery(test.query))
			r.broker.deliverAll(1, payloads...)
			if real := r.broker.awaitPayloads(t, "out", len(results)); fmt.Sprint(real) != fmt.Sprint(results) {
				t.Errorf("the stream publishes %q, the preview shows %q", real, results)
			}
			r.counts("all are processed", func(s broker.StreamStats) bool {
				return s.Filtered == filtered && s.Invalid == invalid && s.Republished == int64(len(results))
			})
		})
	}
}

func TestPreview_of_a_definition(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	ignored, err := r.PreviewStream(t.Context(), broker.StreamPreview{StreamSpec: spec(), Messages: []broker.SampleMessage{{Topic: "other"}}})
	must(t, err)
	if want := (broker.StreamOutcome{Result: broker.StreamIgnored, Cause: broker.CauseTopic, Path: "sourcetopic"}); ignored[0] != want {
		t.Errorf("another topic: %+v", ignored[0])
	}
	kept := r.preview([]string{"\xff"}, persist, func(s *broker.StreamSpec) { s.StreamName = "" })[0]
	if want := (broker.StreamOutcome{Result: broker.StreamPassed, Payload: "/w==", Encoding: "base64", Size: 1, Stored: true}); kept != want {
		t.Errorf("a stream that only stores: %+v", kept)
	}
	if o := r.preview([]string{"x"}, to("out"), func(s *broker.StreamSpec) { s.TargetQoS = new(2) })[0]; o.QoS != 2 {
		t.Errorf("a target QoS: %+v", o)
	}
	var wide []string
	for i := range 110 {
		wide = append(wide, fmt.Sprintf(`{"source":"[a]","target":"[%d]"}`, i))
	}
	long := `{"a":"` + strings.Repeat("x", 20_000) + `"}`
	if o := r.preview([]string{long}, withQuery(`{"select":[`+strings.Join(wide, ",")+`]}`))[0]; o.Result != broker.StreamInvalid || o.Cause != "tooLong" {
		t.Errorf("a result that is too long: %.200v", o)
	}
	if o := r.preview([]string{long})[0]; !o.Truncated || o.Size != len(long) || len(o.Payload) != 16<<10 {
		t.Errorf("a long result: %t, %d, %d", o.Truncated, o.Size, len(o.Payload))
	}
	_, err = r.PreviewStream(t.Context(), broker.StreamPreview{StreamSpec: spec(withQuery(`{"select":[{"source":"a"}],"were":[]}`), to("a/#"))})
	if e := wantKind(t, err, broker.Invalid); fmt.Sprint(e.Fields[0].Path, e.Fields[1].Path, e.Fields[2].Path) != "targettopicquery.werequery.select[0].source" {
		t.Errorf("mistakes: %+v", e.Fields)
	}
	if s, err := r.ListStreams(t.Context(), broker.ListOptions[broker.Stream]{Count: -1}); err != nil || s.Total != 0 {
		t.Errorf("a preview has made a stream: %+v, %v", s, err)
	}
	if n := r.broker.publishAttempts(); n != 0 {
		t.Errorf("a preview has published %d times", n)
	}
	r.create(withQuery(counting))
	r.broker.deliver(messaging.Message{Topic: "in", Payload: []byte("{}"), At: origin}, nil)
	r.counts("one message", func(s broker.StreamStats) bool { return s.Received == 1 })
	if o := r.preview([]string{"{}"}, withQuery(counting))[0]; o.Payload != `{"n":1}` {
		t.Errorf("aggregates of an existing stream: %+v", o)
	}
}
