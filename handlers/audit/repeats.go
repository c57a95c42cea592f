package audit

import (
	"cmp"
	"slices"
	"sync"

	"signalbox/db"
)

// These bound how many kinds of events are counted apart in a minute; further ones are counted
// together. Callers that are not authenticated choose what makes an event another kind, so that
// they could displace the rest of the log.
const (
	maxRepeated          = 300
	maxRepeatedAnonymous = 30
)

// OperationOthers is the operation of a row that counts events of many kinds.
const OperationOthers = "others"

// repeats counts equal events between two calls of take.
type repeats struct {
	mu        sync.Mutex
	seen      map[repeatKey]*db.AuditEvent // the last one of each kind, with the number of those not stored
	anonymous int                          // of these, kinds of callers that are not authenticated
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
	e.Count = 0
	if known, ok := r.seen[keyOf(&e)]; ok {
		count(known, &e)
		return false
	}
	if !r.full(&e) {
		r.seen[keyOf(&e)] = &e
		return true
	}
	others := db.AuditEvent{Operation: OperationOthers, Outcome: e.Outcome}
	known, ok := r.seen[keyOf(&others)]
	if !ok {
		known = &others
		r.seen[keyOf(&others)] = known
	}
	count(known, &e)
	return false
}

// full reports whether a new kind is counted together with others, and counts it if not.
func (r *repeats) full(e *db.AuditEvent) bool {
	if e.ActorID != "" {
		return len(r.seen)-r.anonymous >= maxRepeated
	}
	if r.anonymous >= maxRepeatedAnonymous {
		return true
	}
	r.anonymous++
	return false
}

// putBack counts events that take returned, or that first reported, and that could not be stored.
func (r *repeats) putBack(events ...db.AuditEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[repeatKey]*db.AuditEvent{}
	}
	for _, e := range events {
		known, ok := r.seen[keyOf(&e)]
		if ok {
			known.Count += e.Count
			continue
		}
		r.seen[keyOf(&e)] = &e
		if e.ActorID == "" && e.Operation != OperationOthers {
			r.anonymous++
		}
	}
}

// count adds an event to those that a row stands for.
func count(row, e *db.AuditEvent) {
	row.Count++
	row.Time = e.Time
	if row.Operation != OperationOthers {
		row.RequestID = e.RequestID
	}
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
	r.seen, r.anonymous = nil, 0
	slices.SortFunc(all, func(a, b db.AuditEvent) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Operation, b.Operation))
	})
	return all
}
