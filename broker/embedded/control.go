package embedded

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker/dynsec"
)

// controlPrefix begins the topics of control APIs. What is published to them is
// a request to the broker and is neither delivered nor retained.
const controlPrefix = "$CONTROL/"

// responseSuffix makes the topic of the answers out of that of the requests.
const responseSuffix = "/response"

// controlTimeout is how long a request may take.
const controlTimeout = 30 * time.Second

// noEndpoint is Mosquitto's answer, byte for byte, where no control API is.
const noEndpoint = `{"error": "endpoint not available"}`

func isControl(topic string) bool { return strings.HasPrefix(topic, controlPrefix) }

// controlRequest is a message to a control API, from a client that may send it.
type controlRequest struct {
	topic   string
	payload []byte
}

// dispatch does a request. The answer goes out before anybody is cut off, also
// to an administrator who changed itself.
func (b *Broker) dispatch(l *link, r *controlRequest) {
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	switch r.topic {
	case dynsec.Topic:
		answer, cuts := b.control.Handle(ctx, r.payload)
		b.answer(dynsec.ResponseTopic, answer)
		b.cut(cuts)
	case brokerTopic:
		b.answer(brokerTopic+responseSuffix, b.handleBroker(ctx, r.payload))
	default:
		b.answerNegative(l, r.topic)
	}
}

// answer publishes an answer to all who are subscribed to it and may receive
// it. Nil means that there is none in time; the request may still be done.
func (b *Broker) answer(topic string, payload []byte) {
	if payload == nil {
		b.log.Warn("a control request was not answered in time", "topic", topic)
		return
	}
	b.publish(packets.Packet{TopicName: topic, Payload: payload})
}

// answerNegative tells the requester alone, subscribed or not, that there is no
// such control API.
func (b *Broker) answerNegative(l *link, topic string) {
	topic += responseSuffix
	if len(topic) > math.MaxUint16 || !b.deliver(l, l.client, topic) {
		return
	}
	err := l.client.WritePacket(packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish},
		TopicName:   topic,
		Payload:     []byte(noEndpoint),
	})
	if err != nil {
		b.log.Debug("a control answer could not be sent", "clientid", l.client.ID, "error", err)
	}
}

// cut throws out the clients whose rights or credentials changed. It does not
// wait for them to be gone; their rights are the new ones already.
func (b *Broker) cut(cuts []dynsec.Cut) {
	b.registry.cut(cuts, &b.tasks, b.throwOut)
}

// throwOut ends a connection, after the control answers that are queued for it.
func (b *Broker) throwOut(l *link) {
	timeout := time.NewTimer(grace)
	defer timeout.Stop()
	for waiting := true; waiting && l.answers.Load() > 0; {
		select {
		case <-l.answered:
		case <-timeout.C:
			waiting = false
		case <-l.done:
			return
		}
	}
	b.log.Debug("client cut off", "clientid", l.client.ID, "username", l.hello.credentials.Username)
	l.end(packets.ErrAdministrativeAction)
}
