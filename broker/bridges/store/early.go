package store

import "slices"

// reservation is the number of IDs that are reserved at once.
const reservation = 1 << 16

// mayBeEarly reports whether an entry for which there is space may be early: readers get it before it
// is stored, which it is then whatever the bounds are later. Entries of QoS 2 are never early, as
// the target would get another one if the process crashed before the entry is stored. It accounts
// for the bytes. The caller holds mu.
func (s *Store) mayBeEarly(j *queueState, i *item) bool {
	if i.record.QoS > 1 || j.deleted.Load() || j.late > 0 || j.next >= j.reserved ||
		!j.window.fits(cost(i.record.Entry)) || s.commits.Err() != nil {
		return false
	}
	early := s.queues.early.Add(i.size)
	if s.options.MaxBytes > 0 && s.queues.stored.Load()+early > s.options.MaxBytes {
		s.queues.early.Add(-i.size)
		return false
	}
	return true
}

// addEarly adds an early entry to the window: a copy, as readers may count its attempts while it is
// being stored. The caller holds mu.
func (j *queueState) addEarly(i *item) {
	e := *i.record.Entry
	j.window.append(&e)
	j.next++
	j.window.to = j.next
	j.early.messages++
	j.early.bytes += i.size
	j.notify()
}

// collect begins the transaction of a group: it divides it into the changes of queues. Early
// entries that are to be removed already are elided. It reports whether there is something to
// store, and whether there is anything to write.
func (tx *transaction) collect(group []*item) (stores, writes bool) {
	for _, i := range group {
		ch := tx.change(i.state)
		switch {
		case i.remove:
			continue
		case i.early:
			ch.early.messages++
			ch.early.bytes += i.size
			ch.sums.next = max(ch.sums.next, i.record.ID+1)
		default:
			ch.late++
		}
		if !i.state.purging {
			ch.items = append(ch.items, i)
		}
	}
	for _, ch := range tx.order {
		tx.elide(ch, slices.Sorted(slices.Values(ch.state.takeRemovals(ch.sums.next))))
		stores = stores || len(ch.items) > 0
		writes = writes || len(ch.removals) > 0
	}
	return stores, stores || writes
}

// elide takes the items that are to be removed out of a change, and notes the other removals.
func (tx *transaction) elide(ch *change, ids []uint64) {
	ch.allRemoved = true
	if ch.state.purging {
		return
	}
	items, removals := ch.items[:0], ids[:0]
	for _, i := range ch.items {
		for i.early && len(ids) > 0 && ids[0] < i.record.ID {
			removals, ids = append(removals, ids[0]), ids[1:]
		}
		if i.early && len(ids) > 0 && ids[0] == i.record.ID {
			ids = ids[1:]
			tx.early -= i.size
			continue
		}
		items = append(items, i)
	}
	ch.items, ch.removals = items, append(removals, ids...)
}

// withdrawal has, of each queue, the entries that were to be removed when the first entry of a group was withdrawn.
type withdrawal map[*queueState]map[uint64]bool

// withdraw takes an early entry that cannot be stored out of its queue. It reports whether it was
// to be removed, as it was delivered.
func (s *Store) withdraw(i *item, w withdrawal) (delivered bool) {
	j := i.state
	j.mu.Lock()
	defer j.mu.Unlock()
	id := i.record.ID
	j.window.remove(id)
	j.early.messages--
	j.early.bytes -= i.size
	s.queues.early.Add(-i.size)
	if w[j] == nil {
		w[j] = map[uint64]bool{}
		for _, ids := range [][]uint64{j.pendingRemovals, j.takenRemovals} {
			for _, id := range ids {
				w[j][id] = true
			}
		}
	}
	return w[j][id]
}

// addLate counts entries without an ID: until the committer has finished them none is early, so that
// IDs are in the order in which entries were put.
func (j *queueState) addLate(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.late += n
}

// begin begins a change.
func (j *queueState) begin() *change {
	j.mu.Lock()
	defer j.mu.Unlock()
	return &change{state: j, bounds: j.bounds, sums: j.sums, next: j.next, reserved: j.reserved, blocks: map[uint64]*blockChange{}}
}
