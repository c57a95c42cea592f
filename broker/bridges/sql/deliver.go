package sql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/target"
)

var errNotConnected = errors.New("there is no connection to the database")

// row is the row made from an entry.
type row struct {
	index  int // index in the batch
	plan   *plan
	values []any
}

// Deliver inserts the messages of a batch in one transaction. If the database rejects one of
// them, it inserts the others.
func (c *connector) Deliver(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error {
	if c.session == nil {
		return &bridges.Lost{Err: errNotConnected}
	}
	rows := make([]row, 0, len(batch))
	for i, e := range batch {
		r, err := c.row(e)
		if err != nil {
			results[i] = bridges.Result{State: bridges.Rejected, Reason: err.Error()}
			continue
		}
		r.index = i
		rows = append(rows, r)
	}
	d := delivery{session: c.session, results: results, startDeadline: startDeadline(ctx)}
	return d.insert(ctx, rows)
}

// delivery is the delivery of one batch.
type delivery struct {
	session       session
	results       []bridges.Result
	startDeadline time.Time // no further statement is started from then on, because the outcome of a cancelled one is unknown; zero for no limit
	hasResult     bool      // at least one row has a result
}

// startDeadline returns when three quarters of the remaining time will have passed.
func startDeadline(ctx context.Context) time.Time {
	deadline, bounded := ctx.Deadline()
	if !bounded {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(deadline.Sub(now) / 4 * 3)
}

// Preview returns the record of an entry as JSON. The table converts its values to the types of
// columns, which are known only to a connection.
func (c *connector) Preview(e *bridges.Entry) (bridges.Preview, error) {
	p := c.plans[e.Mapping]
	record, err := p.record.Record(e.MappingMessage())
	if err != nil {
		return bridges.Preview{}, err
	}
	return bridges.Preview{Destination: p.table.String(), Payload: record.AppendJSON(nil)}, nil
}

// row makes a row from an entry. The error is the reason for a dead letter.
func (c *connector) row(e *bridges.Entry) (row, error) {
	p := c.plans[e.Mapping]
	if p == nil {
		return row{}, fmt.Errorf("the topic mapping %q no longer exists", e.Mapping)
	}
	record, err := p.record.Record(e.MappingMessage())
	if err != nil {
		return row{}, err
	}
	r := row{plan: p, values: make([]any, len(record))}
	for i, f := range record {
		if r.values[i], err = p.columns[i].value(f.Value); err != nil {
			return row{}, err
		}
	}
	return r, nil
}

// insert inserts all rows together. If the database rejects one of them for good, it inserts one
// half and then the other, so that in the end only that row is rejected: a half that was inserted
// stays, whatever the outcome of the rest.
func (d *delivery) insert(ctx context.Context, rows []row) error {
	if len(rows) == 0 || d.hasResult && !d.startDeadline.IsZero() && time.Now().After(d.startDeadline) {
		return nil
	}
	groups := groupRows(rows)
	err := d.session.insert(ctx, groups)
	if err == nil {
		d.setResult(rows, bridges.Result{State: bridges.Delivered})
		return nil
	}
	class, why := d.session.classifyError(err, groups)
	switch {
	case class == classConnection:
		return &bridges.Lost{Err: target.Explain(err, why)}
	case class == classDatabase:
		return target.Explain(err, why)
	case len(rows) == 1:
		d.setResult(rows, bridges.Result{State: bridges.Rejected, Reason: why, Response: target.Response(err)})
		return nil
	}
	half := len(rows) / 2
	if err := d.insert(ctx, rows[:half]); err != nil {
		return err
	}
	return d.insert(ctx, rows[half:])
}

// setResult sets the result of rows.
func (d *delivery) setResult(rows []row, r bridges.Result) {
	d.hasResult = true
	for _, row := range rows {
		d.results[row.index] = r
	}
}

// groupRows groups rows by topic mapping, in their order.
func groupRows(rows []row) (groups []group) {
	indices := map[*plan]int{}
	for _, r := range rows {
		at, known := indices[r.plan]
		if !known {
			at = len(groups)
			indices[r.plan] = at
			groups = append(groups, group{plan: r.plan})
		}
		groups[at].rows = append(groups[at].rows, r.values)
	}
	return groups
}
