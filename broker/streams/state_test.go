package streams_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// next says something to "in" and gives what comes out.
func (r *rig) next() string {
	r.tb.Helper()
	r.desk.forget()
	r.desk.say(0, `{"v":1}`)
	return r.desk.comes(r.tb, "out", 1)[0]
}

// TestStateAcrossEngines goes on where messages are kept, and begins anew where
// they are not.
func TestStateAcrossEngines(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint(keeps), func(t *testing.T) {
			t.Parallel()
			r := start(t, nil, streams.DefaultConfig())
			r.has(to("out"), asking(counting), func(s *broker.StreamSpec) { s.Persist = &keeps })
			for i := range 5 {
				want := `{"n":1}`
				if keeps {
					want = fmt.Sprintf(`{"n":%d}`, i+1)
				}
				if got := r.next(); got != want {
					t.Errorf("after %d restarts: got %s, want %s", i, got, want)
				}
				r.again()
			}
		})
	}
}

// tenth is a query that lets through what comes behind nine others.
const tenth = `{"select":[{"target":"[n]","alias":"n","function":{"name":"count"}}],"where":[{"operator":">=","left":"n","right":10}]}`

// TestStateOfFiltered keeps the state also of messages that are counted and not
// let through, before their source is acknowledged.
func TestStateOfFiltered(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faulty{Store: disk}
	r := start(t, s, streams.DefaultConfig())
	r.has(to("out"), persist, asking(tenth))
	var given receipts
	for range 9 {
		r.desk.send(messaging.Message{Topic: "in", Payload: []byte(`{}`), QoS: 1}, given.next())
		given.wants(t, 0)
		r.again()
	}
	if got := r.next(); got != `{"n":10}` {
		t.Errorf("got %s", got)
	}
	s.fails("append")
	r.modify(asking(`{"select":[{"target":"[n]","alias":"n","function":{"name":"count"}}],"where":[{"operator":">=","left":"n","right":100}]}`))
	r.desk.send(messaging.Message{Topic: "in", Payload: []byte(`{}`), QoS: 1}, given.next())
	given.wants(t, 1)
}

// TestStateUnchanged keeps nothing for messages that no aggregate has seen.
func TestStateUnchanged(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faulty{Store: disk}
	r := start(t, s, streams.DefaultConfig())
	r.has(persist, asking(`{"select":[{"target":"[n]","function":{"name":"count"}}],"where":[{"operator":"==","left":"[v]","right":5}]}`))
	s.fails("append")
	var given receipts
	for range 100 {
		r.desk.send(messaging.Message{Topic: "in", Payload: []byte(`{"v":1}`), QoS: 1}, given.next())
	}
	given.wants(t, 0)
	r.counts("all are filtered", func(s broker.StreamStats) bool { return s.Filtered == 100 && s.Dropped == 0 })
}

// TestStateOfQuery stays as long as the query does.
func TestStateOfQuery(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.has(to("out"), persist, asking(counting))
	r.next()
	for name, change := range map[string]func(*broker.StreamSpec){
		"a text":        func(s *broker.StreamSpec) { s.TextName = new("text") },
		"the source":    from("elsewhere"),
		"the QoS":       func(s *broker.StreamSpec) { s.TargetQoS = new(2) },
		"active":        inactive,
		"persist":       func(s *broker.StreamSpec) { s.Persist = new(false) },
		"the same once": asking(" " + counting + " "),
	} {
		before := r.next()
		r.modify(change)
		r.modify(from("in"), persist, func(s *broker.StreamSpec) { s.Active = new(true) })
		if got := count(t, r.next()); got != count(t, before)+1 {
			t.Errorf("after a change of %s the count went from %s to %d", name, before, got)
		}
	}
	r.modify(asking(`{"select":[{"target":"[n]","function":{"name":"count"}},{"source":"[v]","target":"[v]"}]}`))
	if got := r.next(); got != `{"n":1,"v":1}` {
		t.Errorf("another query goes on with %s", got)
	}
}

// count gives the count in an output.
func count(t *testing.T, output string) int {
	t.Helper()
	var v struct{ N json.Number }
	must(t, json.Unmarshal([]byte(output), &v))
	n, err := strconv.Atoi(v.N.String())
	must(t, err)
	return n
}
