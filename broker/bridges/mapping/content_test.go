package mapping_test

import (
	"testing"

	"signalbox/broker/bridges/mapping"
	"signalbox/broker/messaging"
)

func TestContent(t *testing.T) {
	t.Parallel()
	text, err := mapping.ParseTemplate("${topic}!", mapping.EscapeNone)
	if err != nil {
		t.Fatal(err)
	}
	record, problems := mapping.Compile(mapping.Spec{Name: "s", Mapping: []mapping.FieldSpec{{Source: "jsonPayload.v", Target: "speed", Required: true}}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	m := &mapping.Message{Message: &messaging.Message{Topic: "a/b", Payload: []byte(`{"v":1.5}`)}}
	for want, c := range map[string]mapping.Content{`{"v":1.5}`: {}, "a/b!": {Template: text}, `{"speed":1.5}`: {Record: record}} {
		got, err := c.Of(m)
		if err != nil || string(got) != want {
			t.Errorf("got %q and %v, want %q", got, err, want)
		}
	}
	if _, err := (mapping.Content{Record: record}).Of(&mapping.Message{Message: &messaging.Message{Payload: []byte("none")}}); err == nil {
		t.Error("a payload that is no JSON has a record")
	}
}
