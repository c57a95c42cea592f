package streams

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams/query"
)

// previewBytes is how much of a result a preview shows.
const previewBytes = 16 << 10

// previewName is the name in a preview of a stream that has none yet.
const previewName = "preview"

// PreviewStream returns what a stream of this definition would do with messages, by the
// code that processes them. Its aggregates begin with the first message.
func (e *Engine) PreviewStream(ctx context.Context, r broker.StreamPreview) ([]broker.StreamOutcome, error) {
	if err := e.Await(ctx, opPreview); err != nil {
		return nil, err
	}
	var old *Definition
	if s := e.stream(r.StreamName); s != nil {
		old = &s.plan.Load().Definition
	} else if r.StreamName == "" {
		r.StreamName = previewName
	}
	d, q, err := define(opPreview, old, r.StreamSpec, true)
	if err != nil {
		return nil, err
	}
	p, outcomes := newPlan(d, q), make([]broker.StreamOutcome, 0, len(r.Messages))
	for _, m := range r.Messages {
		outcomes = append(outcomes, p.preview(messaging.Message{Topic: m.Topic, Payload: m.Payload, QoS: byte(m.QoS), At: m.At}))
	}
	return outcomes, nil
}

// preview returns what the plan does with a message.
func (p *plan) preview(m messaging.Message) broker.StreamOutcome {
	if !broker.FilterMatches(p.SourceTopic, m.Topic) {
		return broker.StreamOutcome{Result: broker.StreamIgnored, Cause: broker.CauseTopic, Path: "sourcetopic"}
	}
	if p.query != nil {
		out, v, why := p.apply(nil, &m)
		if v != query.Match {
			return excluded(v, why)
		}
		m.Payload = out
	}
	o := broker.StreamOutcome{Result: broker.StreamPassed, Stored: p.Persist, Size: len(m.Payload)}
	o.Payload, o.Encoding, o.Truncated = broker.ShowPayload(m.Payload, previewBytes)
	if p.TargetTopic != "" {
		p.address(&m)
		o.Topic, o.QoS = m.Topic, int(m.QoS)
	}
	return o
}

// excluded returns the outcome for a message without a result.
func excluded(v query.Verdict, why query.Cause) broker.StreamOutcome {
	o := broker.StreamOutcome{Result: broker.StreamInvalid, Cause: string(why.Reason)}
	if v == query.Filtered {
		o.Result = broker.StreamFiltered
	}
	if why.Path != "" {
		o.Path = "query." + why.Path
	}
	return o
}
