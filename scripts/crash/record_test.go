package crash

// record is what one subscriber has got, and what it has acknowledged. It
// judges every message as it comes.
type record struct {
	ledger *ledger
	name   string
	qos    byte  // of its subscription
	from   []int // what it must get of each publisher, at least from here; nil before its SUBACK
	came   []map[int]*arrival
	last   []int // message of each publisher that came first last, -1 for none
	again  []int // message of each publisher that came again last in this connection, -1 for none
	links  int   // connections so far
}

// arrival is a message that came.
type arrival struct {
	link    int   // in which it came last
	life    int   // of the broker, in which its acknowledgement was surely dealt with; 0 for none
	settled int64 // the ledger's time of that
}

func newRecord(l *ledger, name string, qos byte) *record {
	r := &record{ledger: l, name: name, qos: qos}
	r.forget()
	return r
}

// forget begins anew, where a subscription was not granted: it may have held
// or not.
func (r *record) forget() {
	r.came, r.last = nil, nil
	for range r.ledger.qos {
		r.came, r.last = append(r.came, map[int]*arrival{}), append(r.last, -1)
	}
}

// connected begins a connection.
func (r *record) connected() {
	r.links++
	r.again = nil
	for range r.ledger.qos {
		r.again = append(r.again, -1)
	}
}

// take judges a message that the subscriber hands on: one of QoS 2 when it comes
// first, not when it is sent again before it is released.
func (r *record) take(m message, qos byte, dup bool, life int) *arrival {
	if sent := r.ledger.sentUpTo(); m.publisher >= len(sent) || m.n >= sent[m.publisher] {
		r.ledger.complain("%s got %v, which nobody sent", r.name, m)
		return &arrival{}
	}
	if want := min(r.qos, r.ledger.qos[m.publisher]); qos != want {
		r.ledger.complain("%s got %v with QoS %d instead of %d", r.name, m, qos, want)
	}
	a, again := r.came[m.publisher][m.n]
	switch {
	case !again:
		a = &arrival{}
		r.came[m.publisher][m.n] = a
		r.judgeOrder(m)
	case !r.ledger.mayBeTwo(m):
		r.judgeRepetition(m, a, qos, dup, life)
	}
	*a = arrival{link: r.links}
	return a
}

// judgeOrder holds that first arrivals follow one another [MQTT-4.6.0-6]. What a
// publisher sends again may reach one who came when it had been sent before.
func (r *record) judgeOrder(m message) {
	last := r.last[m.publisher]
	early := r.from == nil || m.n < r.from[m.publisher]
	if m.n < last && early && r.ledger.mayBeTwo(m) {
		return
	}
	if m.n != last+1 && last >= 0 || m.n != 0 && last < 0 && r.from != nil && m.n > r.from[m.publisher] {
		r.ledger.complainOfOrder("%s got %v for the first time when message %d was its last", r.name, m, last)
	}
	r.last[m.publisher] = max(last, m.n)
}

// judgeRepetition holds that only what the broker need not know to have been
// acknowledged comes again, with DUP [MQTT-3.3.1-1], and in the same order
// [MQTT-4.6.0-1].
func (r *record) judgeRepetition(m message, a *arrival, qos byte, dup bool, life int) {
	if before := r.again[m.publisher]; m.n < before {
		r.ledger.complainOfOrder("%s got %v again after message %d again", r.name, m, before)
	}
	r.again[m.publisher] = m.n
	switch {
	case qos == 2:
		r.ledger.complain("%s got %v of QoS 2 again (DUP %t), in connection %d after %d", r.name, m, dup, r.links, a.link)
	case a.link == r.links:
		r.ledger.complain("%s got %v again in the same connection", r.name, m)
	case !dup:
		r.ledger.complain("%s got %v again without DUP", r.name, m)
	case a.life == life:
		r.ledger.complain("%s got %v again, though the same broker had dealt with its acknowledgement", r.name, m)
	case a.life > 0 && r.ledger.wasCommitted(a.life, a.settled):
		r.ledger.complain("%s got %v again, though later things than its acknowledgement survived", r.name, m)
	}
}

// settle notes that the broker has dealt with the acknowledgements of these.
func (r *record) settle(arrivals []*arrival, life int) {
	now := r.ledger.tick()
	for _, a := range arrivals {
		a.life, a.settled = life, now
	}
}

// missing lists what should have come of what was sent, but did not: the number
// of messages, and the first of them.
func (r *record) missing() (n int, first message) {
	for p, sent := range r.ledger.sentUpTo() {
		for i := r.from[p]; i < sent; i++ {
			if p == r.ledger.keeper || r.came[p][i] != nil {
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
