package embedded

import (
	"errors"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/dynsec"
)

// veiled begins what stands in a packet for a topic or filter that the server
// is not to see. No packet from outside can hold it [MQTT-1.5.4-2].
const veiled = "\x00"

// veil hides a topic that the server would swallow without an answer, such as
// one in $SYS, until OnPublish has decided about it.
func veil(topic string) string {
	if topic == "" || strings.ContainsAny(topic, "+#") || mqtt.IsValidFilter(topic, true) {
		return topic
	}
	return veiled + topic
}

// OnPublish decides whether a message passes. It returns no error but the two
// that stop a message whatever the version and QoS of its sender; the server
// takes any other for consent.
func (h *hook) OnPublish(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	l := linkOf(cl)
	if l == nil { // the broker itself
		h.b.retain(pk)
		return pk, nil
	}
	pk.TopicName = strings.TrimPrefix(pk.TopicName, veiled)
	switch {
	case !l.account.Allowed(dynsec.PublishSend, cl.ID, pk.TopicName):
		return pk, h.b.deny(cl, pk)
	case isControl(pk.TopicName):
		l.request = &controlRequest{topic: pk.TopicName, payload: pk.Payload}
		return pk, packets.CodeSuccessIgnore
	}
	l.unmatched = cl.Properties.ProtocolVersion == 5 && pk.FixedHeader.Qos == 1 && !h.b.subscribed(pk.TopicName)
	h.b.retain(pk)
	return pk, nil
}

// deny answers a message that its sender may not publish: MQTT 5 is told so,
// older versions get the acknowledgement of a message that was delivered
// [MQTT-3.3.5-2].
func (b *Broker) deny(cl *mqtt.Client, pk packets.Packet) error {
	if cl.Properties.ProtocolVersion < 5 || pk.FixedHeader.Qos == 0 {
		return packets.CodeSuccessIgnore
	}
	ack := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Puback},
		PacketID:    pk.PacketID,
		ReasonCode:  packets.ErrNotAuthorized.Code,
	}
	if pk.FixedHeader.Qos == 2 {
		ack.FixedHeader.Type = packets.Pubrec
	}
	if err := cl.WritePacket(ack); err != nil && !errors.Is(err, mqtt.ErrConnectionClosed) {
		b.log.Debug("a refusal could not be sent", "clientid", cl.ID, "error", err)
	}
	return packets.ErrRejectPacket
}

// subscribed tells whether any session has a subscription that matches.
func (b *Broker) subscribed(topic string) bool {
	s := b.server.Topics.Subscribers(topic)
	return len(s.Subscriptions) > 0 || len(s.Shared) > 0
}

// puback tells an MQTT 5 publisher that nobody got its message. The reason
// string makes the server send the code at all.
func (l *link) puback(pk packets.Packet) packets.Packet {
	if l.unmatched && pk.ReasonCode < packets.ErrUnspecifiedError.Code {
		pk.ReasonCode = packets.CodeNoMatchingSubscribers.Code
		pk.Properties.ReasonString = packets.CodeNoMatchingSubscribers.Reason
		l.unmatched = false
	}
	return pk
}

// OnPublished comes when a message has been acknowledged and delivered. A
// request to a control API is done here, on the requester's own goroutine: it
// waits for its answer, nobody else does.
func (h *hook) OnPublished(cl *mqtt.Client, _ packets.Packet) {
	l := linkOf(cl)
	if l == nil || l.request == nil {
		return
	}
	r := l.request
	l.request = nil
	h.b.dispatch(l, r)
}
