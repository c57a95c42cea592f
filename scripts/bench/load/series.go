//go:build linux

package load

import (
	"fmt"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// pipeline bounds the messages of publishAll in flight.
const pipeline = 200

// publishAll publishes that many messages of QoS 1 in order, and waits for their
// acknowledgements.
func (c *client) publishAll(messages int, message func(n int) packet.Message) error {
	var out []byte
	for sent, acked := 0, 0; acked < messages; {
		out = out[:0]
		if sent-acked <= pipeline/2 {
			for ; sent < min(acked+pipeline, messages); sent++ {
				m := message(sent)
				m.ID = packetID(int64(sent))
				out = packet.AppendPublish(out, m)
			}
		}
		if err := c.write(out); err != nil {
			return err
		}
		first, body, err := c.next()
		if err != nil {
			return fmt.Errorf("after %d of %d acknowledgements: %w", acked, messages, err)
		}
		if first != packet.Puback || packet.ReadID(body) != packetID(int64(acked)) {
			return fmt.Errorf("packet %#x of %d after %d acknowledgements: %w", first, packet.ReadID(body), acked, errWrong)
		}
		acked++
	}
	return nil
}

// readAll receives that many messages of that QoS and acknowledges them, with one write
// for those that were read together. A SUBACK may precede or interrupt them.
func (c *client) readAll(messages int, qos byte, take func(packet.Message) error) error {
	var out []byte
	for taken := 0; taken < messages; {
		first, body, err := c.next()
		if err != nil {
			return fmt.Errorf("after %d of %d messages: %w", taken, messages, err)
		}
		if first == packet.Suback {
			continue
		}
		m, ok := packet.ReadPublish(first, body)
		if packet.Kind(first) != packet.Publish || !ok || m.QoS != qos {
			return fmt.Errorf("packet %#x after %d messages: %w", first, taken, errWrong)
		}
		if err := take(m); err != nil {
			return err
		}
		if taken++; qos == 1 {
			out = packet.AppendAck(out, packet.Puback, m.ID)
		}
		if !c.in.More() || taken == messages {
			if err := c.write(out); err != nil {
				return err
			}
			out = out[:0]
		}
	}
	return nil
}

// next reads a packet, within a time limit.
func (c *client) next() (first byte, body []byte, err error) {
	if !c.in.More() {
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return 0, nil, err
		}
	}
	return c.in.Next()
}

func (c *client) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := c.Write(b)
	return err
}
