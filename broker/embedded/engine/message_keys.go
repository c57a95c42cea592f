package engine

// messageKey identifies a message of a queue. The same message can be queued by a
// subscription, as a retained message, and by shared subscriptions.
type messageKey struct {
	stamp  uint64
	retain bool
	share  string
}

// messageKeys is a set of messages that were forwarded from node to node. Only those can
// arrive twice.
type messageKeys map[messageKey]struct{}

// add adds a message and reports whether it is new.
func (k messageKeys) add(e *entry) bool {
	m := messageKeyOf(e.stamp, e.extra, e.retain)
	if m.stamp == 0 {
		return true
	}
	before := len(k)
	k[m] = struct{}{}
	return len(k) > before
}

func messageKeyOf(stamp uint64, x *extra, retain bool) messageKey {
	k := messageKey{stamp: stamp, retain: retain}
	if x != nil {
		k.share = x.share
	}
	return k
}

// has reports whether a message is in the set.
func (k messageKeys) has(m messageKey) bool {
	_, there := k[m]
	return there
}

// messageKeys returns the queued messages of the session. mu is held.
func (s *Session) messageKeys() messageKeys {
	known := messageKeys{}
	for e := range s.out.all() {
		known.add(e)
	}
	return known
}
