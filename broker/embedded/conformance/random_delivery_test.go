package conformance

import (
	"fmt"
	"slices"
	"strings"
)

func (p *player) takePublish(got packet) {
	if got.topic == p.cue() {
		p.prompted = got.payload
		p.write(ack(p.version, typePuback, got.id, success))
		return
	}
	d := delivery{
		topic: strings.TrimPrefix(got.topic, p.prefix), payload: got.payload, qos: got.qos(),
		retain: got.first&1 != 0, dup: got.first&8 != 0, props: countable(got), ids: got.subscriptions(),
	}
	if d.qos == 0 {
		p.hear(d)
		if d.dup {
			p.breach("QoS 0 with DUP: %+v", d)
		}
		return
	}
	if _, known := p.flights[got.id]; known {
		p.takeAgain(got.id, d)
	} else {
		p.takeFirst(got.id, d)
	}
	p.acknowledge(got.id, d)
}

// takeAgain checks a delivery whose identifier is in use: it must be one that is
// due again on this connection, and the next of them.
func (p *player) takeAgain(id uint16, d delivery) {
	was := p.flights[id]
	if was.released {
		p.breach("%+v is sent again after PUBREC, or identifier %d is used twice", d, id)
		return
	}
	if !d.dup {
		p.breach("%+v is sent again without DUP", d)
	}
	if was.delivery.topic != d.topic || was.delivery.payload != d.payload {
		p.breach("identifier %d is used for %+v and, before that is acknowledged, for %+v", id, was.delivery, d)
	}
	p.due(id)
}

// due takes the identifier off what must be sent again.
func (p *player) due(id uint16) {
	at := slices.Index(p.pending, id)
	switch {
	case at < 0:
		p.breach("identifier %d is sent again on one connection", id)
	case p.flights[p.pending[0]].released == p.flights[id].released && at > 0:
		p.breach("identifier %d is sent again before %d, which was sent first", id, p.pending[0])
	}
	if at >= 0 {
		p.pending = slices.Delete(p.pending, at, at+1)
	}
}

func (p *player) takeFirst(id uint16, d delivery) {
	if id == 0 {
		p.breach("%+v has packet identifier 0", d)
	}
	if d.dup && !p.blind {
		p.breach("%+v has DUP at first", d)
	}
	for _, other := range p.pending {
		if !p.flights[other].released {
			p.breach("%+v comes before %+v is sent again", d, p.flights[other].delivery)
		}
	}
	p.flights[id] = flight{delivery: d}
	p.order = append(p.order, id)
	if p.window > 0 && len(p.flights)-len(p.pending) > p.window {
		p.breach("%d messages are under way in a window of %d", len(p.flights)-len(p.pending), p.window)
	}
}

// acknowledge answers a delivery, unless the player keeps that back. It counts
// as heard when the first acknowledgement goes out.
func (p *player) acknowledge(id uint16, d delivery) {
	switch {
	case p.mute == stepHush:
	case d.qos == 1 && p.mute == stepHalf:
	case d.qos == 1:
		p.hear(d)
		p.complete(id)
		p.write(ack(p.version, typePuback, id, success))
	default:
		p.hear(d)
		p.flights[id] = flight{delivery: d, released: true}
		p.write(ack(p.version, typePubrec, id, success))
	}
}

func (p *player) complete(id uint16) {
	delete(p.flights, id)
	p.order = slices.DeleteFunc(p.order, func(other uint16) bool { return other == id })
}

func (p *player) takePubrel(got packet) {
	f, known := p.flights[got.id]
	switch {
	case !known || !f.released:
		p.breach("got %v for a message that is not released", got)
		return
	case slices.Contains(p.pending, got.id):
		p.due(got.id)
	}
	f.told = true
	p.flights[got.id] = f
	if p.mute != stepHalf {
		p.complete(got.id)
		p.write(ack(p.version, typePubcomp, got.id, success))
	}
}

// countable is what of a PUBLISH's properties must be the same with every
// broker. How much of an expiry is left depends on the clock.
func countable(got packet) string {
	var b strings.Builder
	for _, q := range got.props {
		switch q.id {
		case subscriptionIdentifier, topicAlias:
		case messageExpiry:
			fmt.Fprintf(&b, " expires=%t", got.number(messageExpiry, 0) > 30_000)
		case userProperty:
			fmt.Fprintf(&b, " user=%q", q.value)
		}
	}
	for _, q := range got.props {
		if q.id == payloadFormat || q.id == contentType {
			fmt.Fprintf(&b, " %#02x=%q", q.id, q.value)
		}
	}
	return b.String()
}
