package mapping_test

import (
	"fmt"
	"strings"
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

// BenchmarkManyFields makes records of twenty members from a payload of forty.
func BenchmarkManyFields(b *testing.B) {
	var members, fields []string
	for i := range 40 {
		members = append(members, fmt.Sprintf(`"sensor%d":{"value":%d.5,"unit":"degrees","ok":true}`, i, i))
		if i%2 == 0 {
			fields = append(fields, fmt.Sprintf(`{"source":"jsonPayload.sensor%d.value","target":"s%d"}`, i, i))
		}
	}
	m := compiled(b, `{"mapping":[`+strings.Join(fields, ",")+`]}`)
	msg := example(b, "{"+strings.Join(members, ",")+"}")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Record(&mapping.Message{Message: msg.Message}); err != nil {
			b.Fatal(err)
		}
	}
}
