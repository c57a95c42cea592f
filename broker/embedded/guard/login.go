package guard

// UncountedLoginBytes is how much every connection may hold before it has logged
// in without being counted. That is enough for an ordinary CONNECT, so a flood of
// large ones does not keep ordinary clients out, and it is bounded with the
// number of connections.
const UncountedLoginBytes = 2 << 10

// Reserve sets how many bytes the connection holds for a client that has not
// logged in; 0 once it has. Its error is a Refusal, after which the connection
// must be closed.
//
// Of one address the newcomer loses. Overall, connections of the address that
// holds most give way, or the newcomer where that is its own address: Reserve
// calls their cut, as Enter does.
func (t *Ticket) Reserve(bytes int) error {
	if bytes <= UncountedLoginBytes {
		bytes = 0
	}
	victims, err := t.limits.reserve(t, int64(bytes))
	for _, victim := range victims {
		victim.cut(LoginBytes)
	}
	return err
}

func (l *Limits) reserve(t *Ticket, bytes int64) (victims []*Ticket, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	more := bytes - t.reserved
	if t.left || more == 0 {
		return nil, nil
	}
	holder := l.holderOf(t)
	if most := int64(l.config.MaxLoginBytesPerAddress); more > 0 && most > 0 && t.address != nil && holder.reserved+more > most {
		return nil, AddressLoginBytes
	}
	for most := int64(l.config.MaxLoginBytes); more > 0 && most > 0 && l.reserved+more > most; {
		victim := l.largestHolder(holder.reserved + more)
		if victim == nil {
			return victims, LoginBytes
		}
		l.setReserved(victim, 0)
		victims = append(victims, victim)
	}
	l.setReserved(t, bytes)
	return victims, nil
}

// holderOf returns the address that a connection's reservation counts against.
// All connections without a bound of their own share one.
func (l *Limits) holderOf(t *Ticket) *address {
	if t.address == nil {
		return &l.exempted
	}
	return t.address
}

// largestHolder returns, of the oldest reservations, one of the address that
// holds most, or nil where none holds more than least.
func (l *Limits) largestHolder(least int64) (found *Ticket) {
	n := 0
	for e := l.reservations.Front(); e != nil && n < looked; e, n = e.Next(), n+1 {
		t := e.Value.(*Ticket) //nolint:forcetypeassert // only tickets are in it
		if held := l.holderOf(t).reserved; held > least {
			found, least = t, held
		}
	}
	return found
}

// setReserved notes what a connection holds. mu is held.
func (l *Limits) setReserved(t *Ticket, bytes int64) {
	more := bytes - t.reserved
	t.reserved = bytes
	l.reserved += more
	l.holderOf(t).reserved += more
	switch {
	case bytes == 0 && t.reservation != nil:
		l.reservations.Remove(t.reservation)
		t.reservation = nil
	case bytes > 0 && t.reservation == nil:
		t.reservation = l.reservations.PushBack(t)
	}
}
