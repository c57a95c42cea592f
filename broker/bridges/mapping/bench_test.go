package mapping_test

import (
	"testing"

	"signalbox/broker/bridges/mapping"
)

// BenchmarkRecord makes records of five fields of a payload, as JSON.
func BenchmarkRecord(b *testing.B) {
	m := compiled(b, `{"mapping":[{"source":"jsonPayload.n","target":"n"},{"source":"jsonPayload.f","target":"f"},{"source":"jsonPayload.s","target":"s"},
		{"source":"jsonPayload.o[\"a b\"][2].c","target":"c"},{"source":"topic","target":"topic"},{"source":"timestamp","target":"time"}]}`)
	msg := example(b, document)
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		r, err := m.Record(&mapping.Message{Message: msg.Message})
		if err != nil {
			b.Fatal(err)
		}
		out = r.AppendJSON(out[:0])
	}
}
