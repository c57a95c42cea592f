package backlog

import (
	"context"
	"fmt"
)

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
	if err := q.store.readers.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM node WHERE id = ? AND complete)`, q.node).Scan(&complete); err != nil {
		return nil, false, fmt.Errorf("read the subscriptions of node %d: %w", q.node, err)
	}
	rows, err := q.store.readers.QueryContext(ctx, `SELECT filter, interest FROM route WHERE node = ?`, q.node)
	if err != nil {
		return nil, false, fmt.Errorf("read the subscriptions of node %d: %w", q.node, err)
	}
	defer rows.Close()
	for rows.Next() {
		var r Route
		if err := rows.Scan(&r.Filter, &r.Interest); err != nil {
			return nil, false, fmt.Errorf("read the subscriptions of node %d: %w", q.node, err)
		}
		routes = append(routes, r)
	}
	return routes, complete, rows.Err()
}
