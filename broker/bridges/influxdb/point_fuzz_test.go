package influxdb

import (
	"fmt"
	"testing"
	"time"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
)

// FuzzLine checks that a message makes one point or none: whatever a publisher writes, it cannot
// become a second point, another tag or field, or a comment.
func FuzzLine(f *testing.F) {
	for _, payload := range []string{`{"v":1}`, `{"a b,c=d":"x\ny\"z\\"}`, "1\nm v=2", "#", "20.5", `{"v":1e400}`, `"\u0000"`, "\xff", `{"a\\":1}`, `{"":1}`, `{"v":true,"v":2}`} {
		f.Add("plant/a b", payload)
	}
	f.Add("#", "1")
	f.Add("a,b=c d=1", "1")
	var problems bridges.Problems
	l := newPlan(mappingOptions{Name: "t1", Target: "${topic}", Tags: map[string]string{"t": "${topic}", "p": "${payload}"}}, nil, "", &problems)
	if len(problems) > 0 {
		f.Fatal(problems)
	}
	f.Fuzz(func(t *testing.T, topic, payload string) {
		e := bridgestest.Entry(1, topic, payload)
		line, err := l.line(e)
		if err != nil {
			return
		}
		d := lineprotocol.NewDecoderWithBytes(line)
		if !d.Next() {
			t.Fatalf("%q is no point", line)
		}
		if name, err := d.Measurement(); err != nil || string(name) != topic {
			t.Fatalf("%q: measurement %q, %v, want %q", line, name, err, topic)
		}
		if tags := 0; true {
			for key, value, err := d.NextTag(); key != nil || err != nil; key, value, err = d.NextTag() {
				if want := map[string]string{"t": topic, "p": payload}[string(key)]; err != nil || string(value) != want {
					t.Fatalf("%q: tag %q is %q, %v, want %q", line, key, value, err, want)
				}
				tags++
			}
			if tags > 2 {
				t.Fatalf("%q has %d tags", line, tags)
			}
		}
		want, err := payloadFields([]byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			key, value, err := d.NextField()
			if err != nil || string(key) != w.name || fmt.Sprint(value) != fmt.Sprint(w.value) {
				t.Fatalf("%q: field %q is %v, %v, want %q: %v", line, key, value, err, w.name, w.value)
			}
		}
		if key, _, err := d.NextField(); key != nil || err != nil {
			t.Fatalf("%q: one more field %q, %v", line, key, err)
		}
		at, err := d.Time(lineprotocol.Nanosecond, time.Time{})
		if err != nil || at.UnixMilli() != e.At {
			t.Fatalf("%q: time %v, %v", line, at, err)
		}
		if d.Next() {
			t.Fatalf("%q is more than one point", line)
		}
	})
}
