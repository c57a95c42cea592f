package crash

// record is what one subscriber has received, and what it has acknowledged. It
// checks every message as it is delivered.
type record struct {
	expected    *expectedState
	name        string
	qos         byte  // of its subscription
	from        []int // what it must receive of each publisher, at least from here; nil before its SUBACK
	deliveries  []map[int]*delivery
	last        []int // latest first delivery of each publisher, -1 for none
	redelivered []int // latest redelivery of each publisher in this connection, -1 for none
	links       int   // connections so far
}

// delivery is a message that was delivered.
type delivery struct {
	link        int   // in which it was delivered last
	life        int   // of the broker, in which its acknowledgement was surely processed; 0 for none
	processedAt int64 // time of that, by expectedState
}

func newRecord(l *expectedState, name string, qos byte) *record {
	r := &record{expected: l, name: name, qos: qos}
	r.forget()
	return r
}

// forget starts over, where a subscription was not granted: it may have taken effect
// or not.
func (r *record) forget() {
	r.deliveries, r.last = nil, nil
	for range r.expected.qos {
		r.deliveries, r.last = append(r.deliveries, map[int]*delivery{}), append(r.last, -1)
	}
}

// connected begins a connection.
func (r *record) connected() {
	r.links++
	r.redelivered = nil
	for range r.expected.qos {
		r.redelivered = append(r.redelivered, -1)
	}
}

// receive checks a message that is delivered to the application: one of QoS 2 when it
// comes first, not when it is sent again before it is released.
func (r *record) receive(m message, qos byte, dup bool, life int) *delivery {
	if sent := r.expected.sentUpTo(); m.publisher >= len(sent) || m.n >= sent[m.publisher] {
		r.expected.report("%s got %v, which no publisher sent", r.name, m)
		return &delivery{}
	}
	if want := min(r.qos, r.expected.qos[m.publisher]); qos != want {
		r.expected.report("%s got %v with QoS %d instead of %d", r.name, m, qos, want)
	}
	a, again := r.deliveries[m.publisher][m.n]
	switch {
	case !again:
		a = &delivery{}
		r.deliveries[m.publisher][m.n] = a
		r.checkOrder(m)
	case !r.expected.mayBeDuplicated(m):
		r.checkRedelivery(m, a, qos, dup, life)
	}
	*a = delivery{link: r.links}
	return a
}

// checkOrder checks that first deliveries follow one another [MQTT-4.6.0-6]. What a
// publisher sends again may reach a client that subscribed after it was sent first.
func (r *record) checkOrder(m message) {
	last := r.last[m.publisher]
	early := r.from == nil || m.n < r.from[m.publisher]
	if m.n < last && early && r.expected.mayBeDuplicated(m) {
		return
	}
	if m.n != last+1 && last >= 0 || m.n != 0 && last < 0 && r.from != nil && m.n > r.from[m.publisher] {
		r.expected.reportOrder("%s got %v for the first time when message %d was its last", r.name, m, last)
	}
	r.last[m.publisher] = max(last, m.n)
}

// checkRedelivery checks that only what the broker need not know to have been
// acknowledged comes again, with DUP [MQTT-3.3.1-1], and in the same order
// [MQTT-4.6.0-1].
func (r *record) checkRedelivery(m message, a *delivery, qos byte, dup bool, life int) {
	if before := r.redelivered[m.publisher]; m.n < before {
		r.expected.reportOrder("%s got %v again after message %d again", r.name, m, before)
	}
	r.redelivered[m.publisher] = m.n
	switch {
	case qos == 2:
		r.expected.report("%s got %v of QoS 2 again (DUP %t), in connection %d after %d", r.name, m, dup, r.links, a.link)
	case a.link == r.links:
		r.expected.report("%s got %v again in the same connection", r.name, m)
	case !dup:
		r.expected.report("%s got %v again without DUP", r.name, m)
	case a.life == life:
		r.expected.report("%s got %v again, though the same broker had processed with its acknowledgement", r.name, m)
	case a.life > 0 && r.expected.wasCommitted(a.life, a.processedAt):
		r.expected.report("%s got %v again, though later changes than its acknowledgement survived", r.name, m)
	}
}

// ackProcessed notes that the broker has processed the acknowledgements of these.
func (r *record) ackProcessed(arrivals []*delivery, life int) {
	now := r.expected.tick()
	for _, a := range arrivals {
		a.life, a.processedAt = life, now
	}
}

// missing returns how many messages were sent and not delivered, and the first of
// them.
func (r *record) missing() (n int, first message) {
	for p, sent := range r.expected.sentUpTo() {
		for i := r.from[p]; i < sent; i++ {
			if p == r.expected.retainedPublisher || r.deliveries[p][i] != nil {
				continue
			}
			if n == 0 {
				first = message{p, i}
			}
			n++
		}
	}
	return n, first
}
