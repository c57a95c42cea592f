package handlers

import (
	"context"

	"signalbox/broker"
	"signalbox/handlers/audit"
)

// operationControl is the operation of the row of a request with several commands while that is
// in progress, or if its end was not seen.
const operationControl = "control"

// AuditControl records a request of an MQTT client to a control API of the broker in this process:
// one event for each command that was executed. Those that failed are counted if they are
// repeated.
func (a *API) AuditControl(ctx context.Context, q broker.ControlRequest) (end func([]broker.ControlOutcome), err error) {
	events := a.controlEvents(q)
	begun := events[0]
	if len(events) > 1 {
		begun.Operation, begun.Object, begun.Change, begun.Count = operationControl, q.Topic, nil, len(events)
	}
	ctx, opened := audit.Start(ctx, begun)
	if err := a.Audit.Begin(ctx, opened); err != nil {
		return nil, err
	}
	return func(outcomes []broker.ControlOutcome) {
		var ended, failed []audit.Event
		for i, e := range events {
			e.Duration = a.Now().Sub(e.Time)
			switch {
			case outcomes == nil:
				e.Outcome = audit.Unknown
			case !outcomes[i].Failed:
				e.Outcome = audit.Done
			default:
				e.Outcome, e.Change = audit.Failed, audit.Change{After: q.Commands[i].Members, Error: outcomes[i].Reason}.Encode()
				failed = append(failed, e)
				continue
			}
			ended = append(ended, e)
		}
		a.Audit.EndAs(ctx, opened, ended)
		for _, e := range failed {
			a.Audit.Repeatable(ctx, e)
		}
	}, nil
}

// controlEvents returns the events of the commands of a request.
func (a *API) controlEvents(q broker.ControlRequest) []audit.Event {
	now := a.Now()
	own := a.embedded()
	events := make([]audit.Event, 0, len(q.Commands))
	for _, c := range q.Commands {
		events = append(events, audit.Event{Time: now, ActorKind: "client", ActorID: q.Username, ActorName: q.Username, Address: q.Address,
			UserAgent: q.ClientID, Operation: c.Name, ProjectID: own.projectID, BrokerID: own.id, Count: 1,
			Object: audit.ObjectOf(c.Members), Change: audit.Change{After: c.Members}.Encode()})
	}
	return events
}
