package embedded

import (
	"strings"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/dynsec"
)

// will is the PUBLISH that a client left for the case that its connection ends
// without DISCONNECT. The server never hears of it: it would publish it without
// regard to rights and without its properties.
type will struct {
	packets.Packet
	delay time.Duration
	owner *link // whose rights count
}

// takeWill takes the Will out of CONNECT. A Will that could not be published by
// anybody ends the connection.
func takeWill(l *link, pk packets.Packet) (packets.Packet, error) {
	c := &pk.Connect
	if !c.WillFlag {
		return pk, nil
	}
	if c.WillQos > 2 || !dynsec.ValidTopic(c.WillTopic) { // [MQTT-3.1.2-12] [MQTT-4.7.1-1]
		return pk, packets.ErrRejectPacket
	}
	l.will = &will{owner: l, delay: time.Duration(c.WillProperties.WillDelayInterval) * time.Second}
	l.will.Packet = packets.Packet{
		FixedHeader: packets.FixedHeader{Qos: c.WillQos, Retain: c.WillRetain},
		TopicName:   strings.Clone(c.WillTopic), // not CONNECT as a whole
		Payload:     append([]byte{}, c.WillPayload...),
		Properties:  c.WillProperties.Copy(false),
		Origin:      c.ClientIdentifier,
	}
	l.will.Properties.WillDelayInterval = 0
	c.WillFlag, c.WillQos, c.WillRetain = false, 0, false
	c.WillTopic, c.WillPayload, c.WillProperties = "", nil, packets.Properties{}
	return pk, nil
}

// publishWill publishes a Will if its client may publish it now.
func (b *Broker) publishWill(w *will) {
	l := w.owner
	if !l.account.Allowed(dynsec.PublishSend, l.client.ID, w.TopicName) {
		b.log.Debug("Will denied", "clientid", l.client.ID, "topic", w.TopicName)
		return
	}
	b.publish(w.Packet)
}

// wait is how long the Will waits for its client: its own delay, but no longer
// than the session [MQTT-3.1.3-9].
func (w *will) wait(sessionExpiry uint32) time.Duration {
	return min(w.delay, time.Duration(sessionExpiry)*time.Second)
}

// publishDue publishes the Wills whose delay is over.
func (b *Broker) publishDue() {
	for _, w := range b.registry.due(b.now()) {
		b.publishWill(w)
	}
}
