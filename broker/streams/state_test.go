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

// next publishes to "in" and returns the output.
func (r *fixture) next() string {
	r.tb.Helper()
	r.broker.clearPublished()
	r.broker.deliverAll(0, `{"v":1}`)
	return r.broker.awaitPayloads(r.tb, "out", 1)[0]
}

// TestStateAcrossEngines checks that the state continues in the next engine if
// messages are stored, and is new otherwise.
func TestStateAcrossEngines(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{true, false} {
		t.Run(fmt.Sprint(keeps), func(t *testing.T) {
			t.Parallel()
			r := start(t, nil, streams.DefaultConfig())
			r.create(to("out"), withQuery(counting), func(s *broker.StreamSpec) { s.Persist = &keeps })
			for i := range 5 {
				want := `{"n":1}`
				if keeps {
					want = fmt.Sprintf(`{"n":%d}`, i+1)
				}
				if got := r.next(); got != want {
					t.Errorf("after %d restarts: got %s, want %s", i, got, want)
				}
				r.restart()
			}
		})
	}
}

// tenth is a query that matches from the tenth message on.
const tenth = `{"select":[{"target":"[n]","alias":"n","function":{"name":"count"}}],"where":[{"operator":">=","left":"n","right":10}]}`

// TestStateOfFiltered checks that the state is stored even if its messages are
// filtered, before their source is notified.
func TestStateOfFiltered(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faultyStore{Store: disk}
	r := start(t, s, streams.DefaultConfig())
	r.create(to("out"), persist, withQuery(tenth))
	var given notifiers
	for range 9 {
		r.broker.deliver(messaging.Message{Topic: "in", Payload: []byte(`{}`), QoS: 1}, given.next())
		given.wants(t, 0)
		r.restart()
	}
	if got := r.next(); got != `{"n":10}` {
		t.Errorf("got %s", got)
	}
	s.fails("append")
	r.modify(withQuery(`{"select":[{"target":"[n]","alias":"n","function":{"name":"count"}}],"where":[{"operator":">=","left":"n","right":100}]}`))
	r.broker.deliver(messaging.Message{Topic: "in", Payload: []byte(`{}`), QoS: 1}, given.next())
	given.wants(t, 1)
}

// TestStateUnchanged checks that nothing is stored for messages that change no
// aggregate.
func TestStateUnchanged(t *testing.T) {
	t.Parallel()
	disk := open(t, t.TempDir())
	t.Cleanup(func() { must(t, disk.Close(context.Background())) })
	s := &faultyStore{Store: disk}
	r := start(t, s, streams.DefaultConfig())
	r.create(persist, withQuery(`{"select":[{"target":"[n]","function":{"name":"count"}}],"where":[{"operator":"==","left":"[v]","right":5}]}`))
	s.fails("append")
	var given notifiers
	for range 100 {
		r.broker.deliver(messaging.Message{Topic: "in", Payload: []byte(`{"v":1}`), QoS: 1}, given.next())
	}
	given.wants(t, 0)
	r.counts("all are filtered", func(s broker.StreamStats) bool { return s.Filtered == 100 && s.Dropped == 0 })
}

// TestStateOfQuery checks that the state is kept as long as the query is.
func TestStateOfQuery(t *testing.T) {
	t.Parallel()
	r := start(t, nil, streams.DefaultConfig())
	r.create(to("out"), persist, withQuery(counting))
	r.next()
	for name, change := range map[string]func(*broker.StreamSpec){
		"a text":        func(s *broker.StreamSpec) { s.TextName = new("text") },
		"the source":    from("elsewhere"),
		"the QoS":       func(s *broker.StreamSpec) { s.TargetQoS = new(2) },
		"active":        inactive,
		"persist":       func(s *broker.StreamSpec) { s.Persist = new(false) },
		"the same once": withQuery(" " + counting + " "),
	} {
		before := r.next()
		r.modify(change)
		r.modify(from("in"), persist, func(s *broker.StreamSpec) { s.Active = new(true) })
		if got := count(t, r.next()); got != count(t, before)+1 {
			t.Errorf("after a change of %s the count went from %s to %d", name, before, got)
		}
	}
	r.modify(withQuery(`{"select":[{"target":"[n]","function":{"name":"count"}},{"source":"[v]","target":"[v]"}]}`))
	if got := r.next(); got != `{"n":1,"v":1}` {
		t.Errorf("another query goes on with %s", got)
	}
}

// count returns the count of an output.
func count(t *testing.T, output string) int {
	t.Helper()
	var v struct{ N json.Number }
	must(t, json.Unmarshal([]byte(output), &v))
	n, err := strconv.Atoi(v.N.String())
	must(t, err)
	return n
}
