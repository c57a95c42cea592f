package systemtest

import (
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// connectWorker is connectMQTT for a worker that must be accepted.
func connectWorker(t testing.TB, m *machine, clientID string, clean bool) *link {
	t.Helper()
	l, err := connectWithin(t.Context(), suite.HangLimit, m.mqtt, packet.Login{ClientID: clientID, Clean: clean, Username: worker, Password: passwordOf(worker)})
	if err != nil {
		t.Fatalf("node %d: %s: %v", m.id, clientID, err)
	}
	t.Cleanup(l.Close)
	return l
}

// wantSubscribed subscribes.
func (l *link) wantSubscribed(t testing.TB, filter string, qos byte) {
	t.Helper()
	if code, err := l.subscribe(filter, qos); err != nil || code != qos {
		t.Fatalf("subscribe to %s: %#x, %v", filter, code, err)
	}
}

// publish publishes, and waits for the acknowledgement of QoS 1.
func (l *link) publish(t testing.TB, topic, payload string, qos byte, retain bool) {
	t.Helper()
	l.Out = packet.AppendPublish(l.Out, packet.Message{Topic: []byte(topic), Payload: []byte(payload), ID: uint16(qos), QoS: qos, Retain: retain})
	var err error
	if qos == 0 {
		err = l.Flush()
	} else {
		_, err = l.ask(packet.Puback)
	}
	if err != nil {
		t.Fatalf("publish to %s: %v", topic, err)
	}
}

// receive waits for a message. No other packet may be outstanding.
func (l *link) receive(t testing.TB) packet.Message {
	t.Helper()
	first, body, err := l.Next(time.Now().Add(l.timeout))
	m, ok := packet.ReadPublish(first, body)
	if err != nil || packet.Kind(first) != packet.Publish || !ok {
		t.Fatalf("got packet %#x % x, %v; want a message", first, body, err)
	}
	if m.QoS == 1 {
		l.Out = packet.AppendAck(l.Out, packet.Puback, m.ID)
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// connectClean is connectWorker with a clean start.
func connectClean(t testing.TB, m *machine, clientID string) *link {
	t.Helper()
	return connectWorker(t, m, clientID, true)
}

// retainedAt returns what a machine retains for a topic, "" for nothing. Messages
// published in the meantime arrive too, before the SUBACK or after it, and are not
// retained.
func retainedAt(t testing.TB, m *machine, topic string) (payload string) {
	t.Helper()
	l := connectClean(t, m, "looks")
	defer l.Close()
	l.Out = packet.AppendSubscribe(l.Out, 1, topic, 1)
	for granted := false; ; {
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		first, body, err := l.Next(time.Now().Add(l.timeout))
		p, ok := packet.ReadPublish(first, body)
		switch {
		case err != nil:
			t.Fatal(err)
		case packet.Kind(first) == packet.Publish && ok:
			if p.Retain {
				payload = string(p.Payload)
			}
		case first == packet.Suback && len(body) == 3 && body[2] == 1:
			granted = true
			l.Out = packet.AppendEmpty(l.Out, packet.Pingreq)
		case first == packet.Pingresp && granted:
			return payload
		default:
			t.Fatalf("got packet %#x % x of a subscription to %s", first, body, topic)
		}
	}
}
