package embedded

import (
	"strings"
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/dynsec"
)

// The server asks the same question about a SUBSCRIBE as about a delivery, and
// none about an UNSUBSCRIBE. So it gets to see veiled filters only, which it
// refuses or does not find, and the work is done here.

// OnSubscribe takes the filters out of a SUBSCRIBE.
func (h *hook) OnSubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	linkOf(cl).filters = veilAll(pk.Filters)
	return pk
}

// OnSubscribed decides about the filters, puts them back and fills in the
// SUBACK's codes. The server goes on with the retained messages of those that
// were granted.
func (h *hook) OnSubscribed(cl *mqtt.Client, pk packets.Packet, codes []byte) {
	l := linkOf(cl)
	for i := range pk.Filters {
		pk.Filters[i].Filter = l.filters[i]
		code := h.b.subscribe(l, &pk.Filters[i])
		if cl.Properties.ProtocolVersion < 5 && code > packets.CodeGrantedQos2.Code {
			code = packets.ErrUnspecifiedError.Code // [MQTT-3.9.3-1]
		}
		codes[i] = code
	}
	l.filters = nil
}

// subscribe decides about one filter and gives the code of its SUBACK.
func (b *Broker) subscribe(l *link, sub *packets.Subscription) byte {
	shared := mqtt.IsSharedFilter(sub.Filter)
	switch {
	case !dynsec.ValidSubscription(sub.Filter), shared && !strings.HasPrefix(sub.Filter, "$share/"):
		return packets.ErrTopicFilterInvalid.Code
	case shared && sub.NoLocal:
		return packets.ErrProtocolViolationInvalidSharedNoLocal.Code // [MQTT-3.8.3-4]
	case !l.account.Allowed(dynsec.Subscribe, l.client.ID, sub.Filter):
		return packets.ErrNotAuthorized.Code
	}
	isNew := b.server.Topics.Subscribe(l.client.ID, *sub)
	if isNew {
		atomic.AddInt64(&b.server.Info.Subscriptions, 1)
	}
	l.client.State.Subscriptions.Add(sub.Filter, *sub)
	if !isNew && sub.RetainHandling == 1 { // [MQTT-3.3.1-10]
		sub.RetainHandling = 2
	}
	return sub.Qos
}

// OnUnsubscribe does an UNSUBSCRIBE and leaves the codes for the UNSUBACK.
func (h *hook) OnUnsubscribe(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	l := linkOf(cl)
	filters := veilAll(pk.Filters)
	l.codes = make([]byte, len(filters))
	for i, filter := range filters {
		l.codes[i] = h.b.unsubscribe(l, filter)
	}
	return pk
}

// unsubscribe decides about one filter and gives the code of its UNSUBACK.
func (b *Broker) unsubscribe(l *link, filter string) byte {
	if !l.account.Allowed(dynsec.Unsubscribe, l.client.ID, filter) {
		return packets.ErrNotAuthorized.Code
	}
	if _, ok := l.client.State.Subscriptions.Get(filter); !ok {
		return packets.CodeNoSubscriptionExisted.Code
	}
	b.drop(l, filter)
	return packets.CodeSuccess.Code
}

// drop removes a subscription.
func (b *Broker) drop(l *link, filter string) {
	if b.server.Topics.Unsubscribe(filter, l.client.ID) {
		atomic.AddInt64(&b.server.Info.Subscriptions, -1)
	}
	l.client.State.Subscriptions.Delete(filter)
}

// dropForbidden removes the subscriptions that a session may no longer have.
func (b *Broker) dropForbidden(l *link) {
	for filter := range l.client.State.Subscriptions.GetAll() {
		if !l.account.Allowed(dynsec.Subscribe, l.client.ID, filter) {
			b.drop(l, filter)
		}
	}
}

// veilAll takes the filters out of a packet.
func veilAll(subs packets.Subscriptions) []string {
	filters := make([]string, len(subs))
	for i := range subs {
		filters[i], subs[i].Filter = subs[i].Filter, veiled
	}
	return filters
}
