package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// readRetained subscribes a new client to the retained messages. It reads until covered
// accepts what was delivered and the broker had time to send more.
func readRetained(ctx context.Context, s *server, name string, covered func(got map[int]message) bool) (got map[int]message, err error) {
	l, err := connect(ctx, s, packet.Login{ClientID: name, Clean: true})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	l.subscribe(retainedFilter, 1)
	if err := l.Flush(); err != nil {
		return nil, err
	}
	const enough = 30 * time.Millisecond
	got = map[int]message{}
	for began := time.Now(); ; {
		took := time.Since(began)
		if took > enough && covered(got) || took > suite.HangLimit {
			return got, nil
		}
		first, body, err := l.Next(time.Now().Add(enough))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case err != nil:
			return nil, err
		case packet.Kind(first) == packet.Publish:
			err = l.takeRetained(got, first, body)
		}
		if err != nil {
			return nil, err
		}
	}
}

// takeRetained adds a retained message to got. What is published meanwhile comes
// without RETAIN [MQTT-3.3.1-9] and is ignored.
func (l *link) takeRetained(got map[int]message, first byte, body []byte) error {
	p, ok := packet.ReadPublish(first, body)
	if !ok {
		return errWrongPacket
	}
	if p.QoS == 1 {
		l.Out = packet.AppendAck(l.Out, packet.Puback, p.ID)
		if err := l.Flush(); err != nil {
			return err
		}
	}
	if !p.Retain {
		return nil
	}
	m, known := readMessage(p.Payload)
	if !known || string(p.Topic) != retainedTopic(retainedTopicOf(m.n)) {
		return fmt.Errorf("retained message % x on %s: %w", p.Payload, p.Topic, errWrongPacket)
	}
	got[retainedTopicOf(m.n)] = m
	return nil
}

// checkRetained returns what is wrong with what a topic retains, "" for nothing. The
// publisher's messages before acked were acknowledged before the subscription, and
// those before sent may have been stored when the message came.
func checkRetained(k int, got *message, acked, sent int) string {
	oldest := -1 // of the versions that the topic may hold
	var may []string
	for n := k; n < sent; n += retainedTopics {
		if n < acked {
			oldest = n
		}
	}
	for n := max(oldest, k); n < sent; n += retainedTopics {
		switch {
		case got != nil && got.n == n && !clears(n), got == nil && clears(n):
			return ""
		case clears(n):
			may = append(may, "none")
		default:
			may = append(may, fmt.Sprint(n))
		}
	}
	if oldest < 0 {
		if got == nil {
			return ""
		}
		may = append(may, "none")
	}
	if got == nil {
		return fmt.Sprintf("%s is empty and should hold %s", retainedTopic(k), strings.Join(may, " or "))
	}
	return fmt.Sprintf("%s holds message %d and should hold %s", retainedTopic(k), got.n, strings.Join(may, " or "))
}
