package bridges_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/scripts/suite"
)

// TestInvalidDocumentsAreRefusedQuickly sends documents of half a megabyte that are designed to
// take long.
func TestInvalidDocumentsAreRefusedQuickly(t *testing.T) {
	t.Parallel()
	const slots = 1 << 19
	fill := func(before, one, after string) string {
		return before + strings.TrimSuffix(strings.Repeat(one, (slots-len(before)-len(after))/len(one)), ",") + after
	}
	counted := func(before, format, after string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, strconv.FormatInt(int64(i), 36))
		}
		return before + strings.TrimSuffix(b.String(), ",") + after
	}
	for name, text := range map[string]string{
		"many entries below a long name": fill(`{"`+strings.Repeat("n", slots/2)+`":[`, `0,`, `]}`),
		"long names in one another":      strings.Repeat(`{"`+strings.Repeat("n", slots/40)+`":`, 39) + "1" + strings.Repeat("}", 39),
		"one member again and again":     fill(`{`, `"a":1,`, `}`),
		"unknown members":                counted(`{"connections":[{"name":"c","connection":{"address":"t",`, `"%s":1,`, `}}]}`, 20_000),
		"unknown members of connections": counted(`{"connections":[{"name":"c","connection":{"address":"t"},`, `"x%s":1,`, `}]}`, 20_000),
		"unknown credentials":            counted(`{"connections":[{"name":"c","connection":{"address":"t","credentials":{`, `"x%s":1,`, `}}}]}`, 20_000),
		"connections that are none":      fill(`{"connections":[`, `0,`, `]}`),
		"empty schema mappings":          fill(`{"connections":[],"schemaMappings":[`, `{},`, `]}`),
		"too many connections":           counted(`{"connections":[`, `{"name":"%s","connection":{"address":"t"}},`, `]}`, 10_000),
		"empty connections":              fill(`{"connections":[`, `{},`, `]}`),
		"topics":                         counted(`{"connections":[{"name":"c","connection":{"address":"t"},"topicMappings":[{"name":"m","target":"x","mqttTopics":[`, `"%s",`, `]}]}]}`, 50_000),
		"deep":                           strings.Repeat("[", slots/2) + strings.Repeat("]", slots/2),
		"numbers":                        fill(`{"connections":[`, `1e400,`, `]}`),
		"NUL":                            doc(conn("c\x00d")),
		"a name that leads elsewhere":    doc(conn("..")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, _ := start(t)
			began := suite.ThreadTime(t)
			e := wantKind(t, set(r, text), broker.Invalid)
			if took := suite.ThreadTime(t) - began; took > 10*time.Second {
				t.Errorf("refused after %s of processor time", took)
			}
			size := len(e.Msg)
			for _, f := range e.Fields {
				size += len(f.Path) + len(f.Msg)
			}
			if len(e.Fields) > 200 || size > 200_000 {
				t.Errorf("%d problems are told, in %d bytes", len(e.Fields), size)
			}
		})
	}
}
