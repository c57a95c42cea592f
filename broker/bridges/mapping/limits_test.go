package mapping_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"signalbox/broker/bridges/mapping"
	"signalbox/broker/messaging"
)

// TestRepeatedPayloads checks that repeated payloads cannot exhaust the memory.
func TestRepeatedPayloads(t *testing.T) {
	t.Parallel()
	large := &mapping.Message{Message: &messaging.Message{Topic: "a", Payload: []byte(strings.Repeat("\"", 1<<20))}}
	small := &mapping.Message{Message: &messaging.Message{Topic: "a", Payload: []byte("x")}}
	var spec mapping.Spec
	for i := range 400 {
		spec.Mapping = append(spec.Mapping, mapping.FieldSpec{Source: "payload", Target: fmt.Sprint("f", i)})
	}
	record, problems := mapping.Compile(spec)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, filter := range []string{"raw", "json", "url", "base64"} {
		text, err := mapping.ParseTemplate(strings.Repeat("${payload|"+filter+"}", 3000), mapping.EscapeNone)
		if err != nil {
			t.Fatal(err)
		}
		got, err := text.Append(nil, large)
		if _, unfit := errors.AsType[*mapping.Unfit](err); !unfit || len(got) > 64<<20 {
			t.Errorf("%s: %d bytes, %v", filter, len(got), err)
		}
		if _, err := text.Append(nil, small); err != nil {
			t.Errorf("%s of a small payload: %v", filter, err)
		}
	}
	if _, err := record.Record(large); err == nil {
		t.Error("a record of 400 times the payload is made")
	}
	if _, err := record.Record(small); err != nil {
		t.Error(err)
	}
}

// TestDeepPayloads checks that deeply nested payloads are refused or parsed.
func TestDeepPayloads(t *testing.T) {
	t.Parallel()
	e, err := mapping.ParseExpression(`jsonPayload.a["b c"][0]`)
	if err != nil {
		t.Fatal(err)
	}
	for _, payload := range []string{
		strings.Repeat("[", 1<<20), strings.Repeat("[", 1<<19) + strings.Repeat("]", 1<<19),
		strings.Repeat(`{"a":`, 1<<19) + "1" + strings.Repeat("}", 1<<19), `{"a":{"b c":[1e400]}}`, `{"a":{"b c":[` + strings.Repeat("9", 1<<20) + `]}}`,
	} {
		_, err := e.Value(&mapping.Message{Message: &messaging.Message{Payload: []byte(payload)}})
		if _, unfit := errors.AsType[*mapping.Unfit](err); !unfit {
			t.Errorf("%.20s…: %v", payload, err)
		}
	}
}
