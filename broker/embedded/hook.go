package embedded

import (
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/dynsec"
)

// hook is where the server asks the broker. What it says about a client comes
// on the goroutine of that client's connection, except OnACLCheck, which comes
// on the publisher's, OnPublishDropped, likewise, OnPacketEncode and
// OnPacketSent of a PUBLISH, which come on the goroutine that writes to the
// client, and OnClientExpired.
type hook struct {
	mqtt.HookBase
	b *Broker
}

var provided = func() (p [256]bool) {
	for _, b := range []byte{
		mqtt.OnPacketRead, mqtt.OnConnect, mqtt.OnConnectAuthenticate, mqtt.OnSessionEstablish,
		mqtt.OnDisconnect, mqtt.OnClientExpired, mqtt.OnACLCheck, mqtt.OnPublish, mqtt.OnPublished,
		mqtt.OnRetainMessage, mqtt.OnPublishDropped, mqtt.OnSubscribe, mqtt.OnSubscribed,
		mqtt.OnUnsubscribe, mqtt.OnSelectSubscribers, mqtt.OnPacketEncode, mqtt.OnPacketSent, mqtt.OnPacketProcessed,
	} {
		p[b] = true
	}
	return p
}()

// ID names the hook.
func (h *hook) ID() string { return "signalbox" }

// Provides tells which methods are to be called.
func (h *hook) Provides(b byte) bool { return provided[b] }

// OnPacketRead sees every packet of a client before the server does.
func (h *hook) OnPacketRead(cl *mqtt.Client, pk packets.Packet) (packets.Packet, error) {
	l := linkOf(cl)
	h.b.meters.packetsReceived.Add(1)
	switch pk.FixedHeader.Type {
	case packets.Connect:
		return h.b.greet(l, pk)
	case packets.Publish:
		h.b.meters.publishesReceived.Add(1)
		h.b.meters.payloadBytesReceived.Add(int64(len(pk.Payload)))
		pk.TopicName = veil(pk.TopicName)
	case packets.Disconnect:
		if pk.ReasonCode == packets.CodeDisconnect.Code { // [MQTT-3.14.4-3]
			l.will = nil
		}
	}
	return pk, nil
}

// OnConnect turns off topic aliases towards the client: the server would assign
// them to messages that another connection gets to see.
func (h *hook) OnConnect(cl *mqtt.Client, _ packets.Packet) error {
	cl.Properties.Props.TopicAliasMaximum = 0
	return nil
}

// OnConnectAuthenticate decides whether a client is let in.
func (h *hook) OnConnectAuthenticate(cl *mqtt.Client, _ packets.Packet) bool {
	l := linkOf(cl)
	l.client = cl
	l.refusal = h.b.admit(l)
	return l.refusal == packets.CodeSuccess
}

// OnSessionEstablish comes when the client is let in and before its session is
// there.
func (h *hook) OnSessionEstablish(cl *mqtt.Client, _ packets.Packet) {
	h.b.establish(linkOf(cl))
}

// OnDisconnect comes when the server is done with an established connection.
func (h *hook) OnDisconnect(cl *mqtt.Client, _ error, expire bool) {
	if l := linkOf(cl); l != nil {
		l.ended, l.expired = true, expire
	}
}

// OnClientExpired comes when a session has waited too long for its client.
func (h *hook) OnClientExpired(cl *mqtt.Client) {
	h.b.expire(linkOf(cl))
}

// OnACLCheck lets every PUBLISH pass, as OnPublish decides about it, and refuses
// every filter of a SUBSCRIBE, as OnSubscribed does; what remains is delivery.
func (h *hook) OnACLCheck(cl *mqtt.Client, topic string, write bool) bool {
	if write {
		return true
	}
	if topic == veiled {
		return false
	}
	return h.b.deliver(linkOf(cl), cl, topic)
}

// deliver decides whether a client receives a message.
func (b *Broker) deliver(l *link, cl *mqtt.Client, topic string) bool {
	if l == nil || !l.account.Allowed(dynsec.PublishReceive, cl.ID, topic) {
		return false
	}
	if isControl(topic) {
		l.answers.Add(1)
	}
	return true
}

// OnPublishDropped counts a message that a client was too slow for.
func (h *hook) OnPublishDropped(cl *mqtt.Client, pk packets.Packet) {
	h.b.meters.publishesDropped.Add(1)
	linkOf(cl).answerGone(pk.TopicName)
}

// answerGone notes that a message is no longer queued, in case it was a control
// answer.
func (l *link) answerGone(topic string) {
	if isControl(topic) && l.answers.Add(-1) <= 0 {
		select {
		case l.answered <- struct{}{}:
		default:
		}
	}
}

// OnPacketEncode puts right what the server is about to send.
func (h *hook) OnPacketEncode(cl *mqtt.Client, pk packets.Packet) packets.Packet {
	l := linkOf(cl)
	switch pk.FixedHeader.Type {
	case packets.Connack:
		return h.b.connack(l, pk)
	case packets.Puback:
		return l.puback(pk)
	case packets.Suback:
		pk.Properties.ReasonString = ""
	case packets.Unsuback:
		pk.ReasonCodes, pk.Properties.ReasonString = l.codes, ""
	}
	return pk
}

// OnPacketSent takes note of what went out.
func (h *hook) OnPacketSent(cl *mqtt.Client, pk packets.Packet, _ []byte) {
	l := linkOf(cl)
	h.b.meters.packetsSent.Add(1)
	switch pk.FixedHeader.Type {
	case packets.Connack:
		if pk.ReasonCode == packets.CodeSuccess.Code {
			close(l.welcomed)
		}
	case packets.Publish:
		h.b.meters.publishesSent.Add(1)
		h.b.meters.payloadBytesSent.Add(int64(len(pk.Payload)))
		l.answerGone(pk.TopicName)
	case packets.Suback:
		h.b.beginRetained(l)
	}
}

// OnPacketProcessed comes when a packet of the client has been dealt with.
func (h *hook) OnPacketProcessed(cl *mqtt.Client, _ packets.Packet, _ error) {
	if l := linkOf(cl); l != nil {
		h.b.endRetained(l)
	}
}
