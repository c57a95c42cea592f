package crash

import (
	"strings"
	"testing"
)

// TestRecord_reports shows which deliveries are violations, and which are not: each
// case is a scenario of a subscriber of QoS 2 that received the messages 0 and 1 of the
// publishers 0 (QoS 1) and 1 (QoS 2) in the first life of the broker.
func TestRecord_reports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		scenario func(*record, []*delivery)
		want     string // in the violation; empty for none
	}{
		"the next ones": {func(r *record, _ []*delivery) {
			r.receive(message{0, 2}, 1, false, 1)
			r.receive(message{1, 2}, 2, false, 1)
		}, ""},
		"one that is missing between": {func(r *record, _ []*delivery) { r.receive(message{0, 3}, 1, false, 1) }, "when message 1 was its last"},
		"one that was not sent":       {func(r *record, _ []*delivery) { r.receive(message{0, 9}, 1, false, 1) }, "which no publisher sent"},
		"one of an unknown publisher": {func(r *record, _ []*delivery) { r.receive(message{7, 0}, 1, false, 1) }, "which no publisher sent"},
		"another QoS":                 {func(r *record, _ []*delivery) { r.receive(message{1, 2}, 1, false, 1) }, "with QoS 1 instead of 2"},
		"QoS 2 again": {func(r *record, _ []*delivery) {
			r.connected()
			r.receive(message{1, 1}, 2, true, 1)
		}, "of QoS 2 again"},
		"QoS 1 again in a new connection": {func(r *record, _ []*delivery) {
			r.connected()
			r.receive(message{0, 0}, 1, true, 1)
			r.receive(message{0, 1}, 1, true, 1)
		}, ""},
		"QoS 1 again in another order": {func(r *record, _ []*delivery) {
			r.connected()
			r.receive(message{0, 1}, 1, true, 1)
			r.receive(message{0, 0}, 1, true, 1)
		}, "again after message 1 again"},
		"QoS 1 again without DUP": {func(r *record, _ []*delivery) {
			r.connected()
			r.receive(message{0, 1}, 1, false, 1)
		}, "again without DUP"},
		"QoS 1 again in the same connection": {func(r *record, _ []*delivery) { r.receive(message{0, 1}, 1, true, 1) }, "in the same connection"},
		"QoS 1 again that the publisher sent again": {func(r *record, _ []*delivery) {
			r.expected.sending(message{0, 1})
			r.receive(message{0, 1}, 1, false, 1)
		}, ""},
		"an old one that the publisher sent again, to a late subscriber": {func(r *record, _ []*delivery) {
			delete(r.deliveries[0], 0)
			r.from[0] = 2
			r.expected.sending(message{0, 0})
			r.receive(message{0, 0}, 1, false, 1)
		}, ""},
		"an old one that was sent once, to a late subscriber": {func(r *record, _ []*delivery) {
			delete(r.deliveries[0], 0)
			r.from[0] = 2
			r.receive(message{0, 0}, 1, false, 1)
		}, "when message 1 was its last"},
		"QoS 2 again that the publisher sent again": {func(r *record, _ []*delivery) {
			r.expected.sending(message{1, 1})
			r.receive(message{1, 1}, 2, true, 1)
		}, "of QoS 2 again"},
		"QoS 1 again though its PUBACK was processed": {func(r *record, got []*delivery) {
			r.ackProcessed(got, 1)
			r.connected()
			r.receive(message{0, 1}, 1, true, 1)
		}, "the same broker had processed"},
		"QoS 1 again after a crash, whose PUBACK may not be on disk": {func(r *record, got []*delivery) {
			r.ackProcessed(got, 1)
			r.connected()
			r.receive(message{0, 1}, 1, true, 2)
		}, ""},
		"QoS 1 again after a crash that later changes survived": {func(r *record, got []*delivery) {
			r.ackProcessed(got, 1)
			r.expected.acknowledged(1, r.expected.sending(message{0, 5}))
			r.connected()
			r.receive(message{0, 1}, 1, true, 2)
		}, "later changes than its acknowledgement survived"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, got := recordWithDeliveries()
			c.scenario(r, got)
			all := strings.Join(r.expected.reported(), "\n")
			if all == "" && c.want != "" || c.want == "" && all != "" || !strings.Contains(all, c.want) {
				t.Errorf("got the violation %q, want %q", all, c.want)
			}
		})
	}
}

// recordWithDeliveries returns the record of a subscriber with two messages of each of
// two publishers.
func recordWithDeliveries() (r *record, got []*delivery) {
	l := newExpectedState(1, 2, 1)
	r = newRecord(l, "subscriber", 2)
	r.from = make([]int, len(l.qos))
	r.connected()
	for n := range 4 {
		l.sending(message{0, n})
		l.sending(message{1, n})
	}
	for n := range 2 {
		got = append(got, r.receive(message{0, n}, 1, false, 1), r.receive(message{1, n}, 2, false, 1))
	}
	return r, got
}

func TestRecord_misses(t *testing.T) {
	t.Parallel()
	r, _ := recordWithDeliveries()
	if n, first := r.missing(); n != 4 || first != (message{0, 2}) {
		t.Errorf("got %d missing, the first %v; want 4 and {0 2}", n, first)
	}
	r.from = []int{3, 4, 0}
	if n, first := r.missing(); n != 1 || first != (message{0, 3}) {
		t.Errorf("after a later subscription: got %d missing, the first %v; want 1 and {0 3}", n, first)
	}
}

// TestPublisher_takes shows which acknowledgements are accepted while the messages
// 0 to 2 of QoS 2 are in flight, the first of them released.
func TestPublisher_takes(t *testing.T) {
	t.Parallel()
	const puback, pubrec, pubcomp = 0x40, 0x50, 0x70
	for name, c := range map[string]struct {
		first byte
		id    uint16
		want  bool
	}{
		"PUBREC of the first that has none":       {pubrec, 2, true},
		"PUBREC of the one after it":              {pubrec, 3, false},
		"PUBREC of one that is released":          {pubrec, 1, false},
		"PUBCOMP of the one released":             {pubcomp, 1, true},
		"PUBCOMP of one that is not":              {pubcomp, 2, false},
		"PUBACK":                                  {puback, 1, false},
		"PUBREC of an identifier that is not out": {pubrec, 9, false},
	} {
		p := &publisher{expected: newExpectedState(2, 1), qos: 2, inflight: []inflightMessage{{id: 1, released: true}, {id: 2}, {id: 3}}}
		if got := p.acknowledge(&link{}, c.first, c.id); got != c.want {
			t.Errorf("%s: accepted %t, want %t", name, got, c.want)
		}
	}
}

// TestCheckRetained goes through what the topic of message 6 may retain: 6, which
// clears it, as every seventh does, then 18, 30, 42.
func TestCheckRetained(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		got         int // -1 for nothing
		acked, sent int
		ok          bool
	}{
		"nothing was sent":                      {-1, 0, 0, true},
		"nothing is acknowledged":               {-1, 0, 20, true},
		"one that is not acknowledged":          {18, 0, 20, true},
		"one that was not sent":                 {18, 0, 18, false},
		"the last acknowledged":                 {18, 19, 20, true},
		"an older one":                          {18, 31, 40, false},
		"a newer one":                           {30, 19, 40, true},
		"nothing, though one is acknowledged":   {-1, 19, 40, false},
		"nothing, where it was cleared last":    {-1, 7, 10, true},
		"nothing, though it was cleared before": {-1, 19, 20, false},
		"the one that clears":                   {6, 7, 10, false},
	} {
		var m *message
		if c.got >= 0 {
			m = &message{n: c.got}
		}
		if wrong := checkRetained(6, m, c.acked, c.sent); (wrong == "") != c.ok {
			t.Errorf("%s: got %q, want it right: %t", name, wrong, c.ok)
		}
	}
}

func TestReadMessage(t *testing.T) {
	t.Parallel()
	for _, m := range []message{{0, 0}, {3, 7}, {1, 123456}} {
		if got, ok := readMessage(m.payload()); got != m || !ok {
			t.Errorf("got %v %t, want %v", got, ok, m)
		}
		changed := m.payload()
		changed[len(changed)-1]++
		if got, ok := readMessage(changed); ok && got == m {
			t.Errorf("%v is accepted after a change", m)
		}
	}
}
