package handlers

import (
	"context"
	"encoding/json"

	"signalbox/broker"
	"signalbox/handlers/audit"
)

// operationControl is the operation of a row for a request with several commands that are in
// progress, or whose outcomes were not seen.
const operationControl = "control"

// maxControlChange bounds the recorded members of a command in bytes.
const maxControlChange = 16 << 10

// AuditControl records a request of an MQTT client to a control API of the broker in this process:
// one event for each command.
func (a *API) AuditControl(ctx context.Context, q broker.ControlRequest) (end func(outcomes []string), err error) {
	began := a.Now()
	events := make([]audit.Event, 0, len(q.Commands))
	for _, c := range q.Commands {
		events = append(events, audit.Event{Time: began, ActorKind: "client", ActorID: q.Username, ActorName: q.Username, Address: q.Address,
			UserAgent: q.ClientID, Operation: c.Name, ProjectID: a.embeddedProject, BrokerID: a.Embedded, Object: controlObject(c.Members), Change: controlChange(c.Members, "")})
	}
	begun := events[0]
	if len(events) > 1 {
		begun.Operation, begun.Object, begun.Change, begun.Count = operationControl, q.Topic, nil, len(events)
	}
	ctx, opened := audit.Start(context.WithoutCancel(ctx), begun)
	if err := a.Audit.Begin(ctx, opened); err != nil {
		return nil, err
	}
	return func(outcomes []string) {
		for i := range events {
			e := &events[i]
			e.Duration = a.Now().Sub(began)
			switch {
			case outcomes == nil:
				e.Outcome = audit.Unknown
			case outcomes[i] == "":
				e.Outcome = audit.Done
			default:
				e.Outcome, e.Change = audit.Failed, controlChange(q.Commands[i].Members, outcomes[i])
			}
		}
		a.Audit.EndAs(ctx, opened, events)
	}, nil
}

// controlObject returns the name of the object of a command, "" if it has none.
func controlObject(members map[string]any) string {
	for _, name := range []string{"username", "groupname", "rolename", "streamname", "clustername", "clientid", "connectionid", "bridgeid", "id", "topic", "name"} {
		if s, ok := members[name].(string); ok && s != "" {
			return s
		}
	}
	return ""
}

// controlChange returns what a command asks for, and its error, as they are recorded.
func controlChange(members map[string]any, failure string) json.RawMessage {
	change := map[string]any{}
	if len(members) > 0 {
		change["after"] = members
	}
	if failure != "" {
		change["error"] = failure
	}
	text, err := json.Marshal(change)
	if err != nil || len(text) > maxControlChange {
		return json.RawMessage(`{"after":{"omitted":"the change is too long for the audit log"}}`)
	}
	return text
}
