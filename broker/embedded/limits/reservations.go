package limits

// UncountedLoginBytes is the part of a connection's bytes before log-in that is not
// counted. It is enough for an ordinary CONNECT, so a flood of large ones does not lock
// ordinary clients out, and it is bounded by the number of connections.
const UncountedLoginBytes = 2 << 10

// Reserve sets how many bytes the connection holds for a client that has not logged in; 0
// once it has. Its error is a Refusal, after which the connection must be closed.
//
// At the limit of an address the newest reservation is refused. At the overall limit,
// connections of the address that holds most are evicted, or the newest reservation is
// refused where that is its own address: Reserve calls evict, as Admit does.
func (t *Admission) Reserve(bytes int) error {
	if bytes <= UncountedLoginBytes {
		bytes = 0
	}
	victims, err := t.limits.reserve(t, int64(bytes))
	for _, victim := range victims {
		victim.evict(LoginBytes)
	}
	return err
}

func (l *Limits) reserve(t *Admission, bytes int64) (victims []*Admission, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	more := bytes - t.reserved
	if t.released || more == 0 {
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

// holderOf returns the address that a connection's reservation counts against. All
// connections without a bound of their own share one.
func (l *Limits) holderOf(t *Admission) *address {
	if t.address == nil {
		return &l.exempted
	}
	return t.address
}

// largestHolder returns, of the oldest reservations, one of the address that holds most, or
// nil where none holds more than least.
func (l *Limits) largestHolder(least int64) (found *Admission) {
	n := 0
	for e := l.reservations.Front(); e != nil && n < evictionScan; e, n = e.Next(), n+1 {
		t := e.Value.(*Admission) //nolint:forcetypeassert // only admissions are in it
		if held := l.holderOf(t).reserved; held > least {
			found, least = t, held
		}
	}
	return found
}

// setReserved sets the bytes that a connection holds. The caller holds mu.
func (l *Limits) setReserved(t *Admission, bytes int64) {
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
