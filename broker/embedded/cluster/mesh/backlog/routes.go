package backlog

import "context"

// Route is a filter that clients of a node have subscribed to, and how.
type Route struct {
	Filter   string
	Interest byte
	Removed  bool // it is deleted
}

// PutRoutes stores changed filters, soon; complete means that the filters are all of the node
// then. It does not wait: what a crash within some milliseconds undoes comes again with the next
// table of the node.
func (q *Queue) PutRoutes(routes []Route, complete bool) {
	q.store.submit(&entry{kind: kindRoutes, queue: q, routes: routes, complete: complete})
}

// Routes returns the filters that were stored when the file was opened, and whether they were complete.
func (q *Queue) Routes(ctx context.Context) (routes []Route, complete bool, err error) {
	q.mu.Lock()
	cleared := q.cleared
	q.mu.Unlock()
	if cleared {
		return nil, false, nil
	}
	var r Route
	err = q.store.each(ctx, func() bool {
		routes = append(routes, r)
		return true
	}, []any{&r.Filter, &r.Interest}, `SELECT filter, interest FROM route WHERE node = ?`, q.node)
	if err == nil {
		err = q.store.each(ctx, func() bool { return true }, []any{&complete}, `SELECT complete FROM node WHERE id = ?`, q.node)
	}
	return routes, complete, err
}
