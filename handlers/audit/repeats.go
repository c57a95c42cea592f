package audit

import (
	"cmp"
	"slices"
	"sync"

	"signalbox/db"
)

// maxRepeated bounds how many kinds of events are counted apart in a minute; further ones are
// counted together.
const maxRepeated = 1000

// OperationOthers is the operation of a row that counts events of many kinds.
const OperationOthers = "others"

// repeats counts equal events between two calls of take.
type repeats struct {
	mu   sync.Mutex
	seen map[repeatKey]*db.AuditEvent // the last one of each kind, with the number of those not stored
}

// repeatKey is what equal events have in common.
type repeatKey struct {
	actor, address, operation, project, broker, object, outcome, code string
}

func keyOf(e *db.AuditEvent) repeatKey {
	return repeatKey{e.ActorID, e.Address, e.Operation, e.ProjectID, e.BrokerID, e.Object, e.Outcome, e.Code}
}

// first reports whether the event is the first of its kind, which is to be stored. Another one
// is counted.
func (r *repeats) first(e db.AuditEvent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[repeatKey]*db.AuditEvent{}
	}
	key := keyOf(&e)
	known, ok := r.seen[key]
	if !ok && len(r.seen) >= maxRepeated {
		e = db.AuditEvent{Time: e.Time, Operation: OperationOthers, Outcome: e.Outcome}
		key = keyOf(&e)
		known, ok = r.seen[key]
		if !ok {
			known, ok = &e, true
			r.seen[key] = known
			known.Count = 0
		}
	}
	if !ok {
		e.Count = 0
		r.seen[key] = &e
		return true
	}
	known.Count++
	known.Time, known.RequestID = e.Time, e.RequestID
	return false
}

// take returns the events that were counted, in order of their time, and begins anew.
func (r *repeats) take() []db.AuditEvent {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []db.AuditEvent
	for _, e := range r.seen {
		if e.Count > 0 {
			all = append(all, *e)
		}
	}
	r.seen = nil
	slices.SortFunc(all, func(a, b db.AuditEvent) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Operation, b.Operation))
	})
	return all
}
