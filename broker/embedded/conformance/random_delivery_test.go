package conformance

import (
	"fmt"
	"slices"
	"strings"
)

func (p *scriptedClient) takePublish(got packet) {
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
		p.record(d)
		if d.dup {
			p.breach("QoS 0 with DUP: %+v", d)
		}
		return
	}
	if _, known := p.inflight[got.id]; known {
		p.takeAgain(got.id, d)
	} else {
		p.takeFirst(got.id, d)
	}
	p.acknowledge(got.id, d)
}

// takeAgain checks a delivery whose identifier is in use: it must be the next one to be
// repeated on this connection.
func (p *scriptedClient) takeAgain(id uint16, d delivery) {
	was := p.inflight[id]
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

// due removes the identifier from those to be repeated.
func (p *scriptedClient) due(id uint16) {
	at := slices.Index(p.pending, id)
	switch {
	case at < 0:
		p.breach("identifier %d is sent again on one connection", id)
	case p.inflight[p.pending[0]].released == p.inflight[id].released && at > 0:
		p.breach("identifier %d is sent again before %d, which was sent first", id, p.pending[0])
	}
	if at >= 0 {
		p.pending = slices.Delete(p.pending, at, at+1)
	}
}

func (p *scriptedClient) takeFirst(id uint16, d delivery) {
	if id == 0 {
		p.breach("%+v has packet identifier 0", d)
	}
	if d.dup && !p.blind {
		p.breach("%+v has DUP at first", d)
	}
	for _, other := range p.pending {
		if !p.inflight[other].released {
			p.breach("%+v comes before %+v is sent again", d, p.inflight[other].delivery)
		}
	}
	p.inflight[id] = inflightMessage{delivery: d}
	p.order = append(p.order, id)
	if p.window > 0 && len(p.inflight)-len(p.pending) > p.window {
		p.breach("%d messages are under way in a window of %d", len(p.inflight)-len(p.pending), p.window)
	}
}

// acknowledge acknowledges a delivery, unless the client withholds that. The delivery
// counts as received when the first acknowledgement is sent.
func (p *scriptedClient) acknowledge(id uint16, d delivery) {
	switch {
	case p.mute == stepMute:
	case d.qos == 1 && p.mute == stepHalf:
	case d.qos == 1:
		p.record(d)
		p.complete(id)
		p.write(ack(p.version, typePuback, id, success))
	default:
		p.record(d)
		p.inflight[id] = inflightMessage{delivery: d, released: true}
		p.write(ack(p.version, typePubrec, id, success))
	}
}

func (p *scriptedClient) complete(id uint16) {
	delete(p.inflight, id)
	p.order = slices.DeleteFunc(p.order, func(other uint16) bool { return other == id })
}

func (p *scriptedClient) takePubrel(got packet) {
	f, known := p.inflight[got.id]
	switch {
	case !known || !f.released:
		p.breach("got %v for a message that is not released", got)
		return
	case slices.Contains(p.pending, got.id):
		p.due(got.id)
	}
	f.pubrelReceived = true
	p.inflight[got.id] = f
	if p.mute != stepHalf {
		p.complete(got.id)
		p.write(ack(p.version, typePubcomp, got.id, success))
	}
}

// countable returns the properties of a PUBLISH that must be the same with every broker.
// The rest of an expiry interval depends on the clock.
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
