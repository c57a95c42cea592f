package mqtt

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"signalbox/broker/bridges"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/packet"
)

// inFlightMessage is an entry that was sent. The client continues it on the next connection if
// one is lost, so it must not be sent again while it is in flight.
type inFlightMessage struct {
	delivery *client.Delivery
	index    int
}

// Deliver sends messages and waits for acknowledgements.
func (c *connector) Deliver(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error {
	c.prune(batch[0].ID)
	err := c.send(ctx, batch, results)
	if err == nil {
		err = c.awaitBatch(ctx, batch)
	}
	for i, e := range batch {
		c.setResult(e.ID, &results[i])
	}
	if broken := c.client.Reached(); err != nil && broken != nil {
		return &bridges.Lost{Err: broken}
	}
	return err
}

// prune removes entries that are no longer in the queue.
func (c *connector) prune(before uint64) {
	for id := range c.inFlight {
		if id < before {
			delete(c.inFlight, id)
		}
	}
}

// send sends the entries that are not in flight yet.
func (c *connector) send(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error {
	var list []messaging.Message
	var ids []uint64
	for i, e := range batch {
		if _, inFlight := c.inFlight[e.ID]; inFlight {
			continue
		}
		m, r := c.outgoing(e)
		if results[i] = r; r.State == bridges.Pending {
			list, ids = append(list, m), append(ids, e.ID)
		}
	}
	if len(list) == 0 {
		return nil
	}
	d, sent, err := c.client.Send(ctx, list)
	for i, id := range ids[:sent] {
		c.inFlight[id] = inFlightMessage{d, i}
	}
	return err
}

// outgoing makes the message for the other broker.
func (c *connector) outgoing(e *bridges.Entry) (messaging.Message, bridges.Result) {
	m := e.Message
	r := c.outRoutes[e.Mapping]
	if r == nil {
		return m, bridges.Result{State: bridges.Rejected, Reason: fmt.Sprintf("the topic mapping %q no longer sends messages", e.Mapping)}
	}
	topic, ok := r.toRemote(m.Topic)
	if !ok {
		return m, bridges.Result{State: bridges.Rejected, Reason: "its topic cannot be used at the other broker, with the prefixes of the topic mapping"}
	}
	if t, _ := splitTrace(m.Properties); t != nil && t.hasVisited(c.peer()) {
		return m, bridges.Result{State: bridges.Skipped}
	}
	m.Topic, m.QoS, m.Retain = topic, min(m.QoS, r.qos), m.Retain && r.retain
	return m, bridges.Result{}
}

// Preview returns the message for the other broker.
func (c *connector) Preview(e *bridges.Entry) (p bridges.Preview, err error) {
	m, r := c.outgoing(e)
	switch r.State {
	case bridges.Rejected:
		return p, errors.New(r.Reason)
	case bridges.Skipped:
		return p, errors.New("it is not sent, as it has been at the other broker already")
	}
	p.Destination, p.Payload = m.Topic, m.Payload
	p.AddAttribute("qos", []byte(strconv.Itoa(int(m.QoS))))
	p.AddAttribute("retain", []byte(strconv.FormatBool(m.Retain)))
	for _, property := range packet.DescribeProperties(m.Properties) {
		name := property.Identifier
		if property.Identifier == packet.PropertyUser {
			name = property.Name
		}
		p.AddAttribute(name, []byte(property.Value))
	}
	return p, nil
}

// awaitBatch waits until every message of a batch has an outcome, or the connection is lost.
func (c *connector) awaitBatch(ctx context.Context, batch []*bridges.Entry) error {
	for _, e := range batch {
		f, inFlight := c.inFlight[e.ID]
		for inFlight {
			select {
			case <-f.delivery.Done():
				inFlight = false
				continue
			case <-c.stateChanged:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := c.client.Reached(); err != nil {
				return err
			}
		}
	}
	return nil
}

// setResult sets the result of an entry that was sent.
func (c *connector) setResult(id uint64, r *bridges.Result) {
	f, inFlight := c.inFlight[id]
	if !inFlight {
		return
	}
	o := f.delivery.Outcome(f.index)
	switch {
	case o.Done && o.Code == 0:
		r.State = bridges.Delivered
	case o.Done && isTransient(o.Code):
		r.Reason = fmt.Sprintf("the broker does not accept it at present (reason code 0x%02x)", o.Code)
	case o.Done:
		r.State, r.Reason = bridges.Rejected, rejectReason(o.Code)
	case !isDone(f.delivery):
		return // still in flight
	}
	delete(c.inFlight, id)
}

func isDone(d *client.Delivery) bool {
	select {
	case <-d.Done():
		return true
	default:
		return false
	}
}

// isTransient reports whether a broker may accept later what it refuses now.
func isTransient(code byte) bool {
	return code == packet.ReasonUnspecified || code == packet.ReasonImplementationSpecific || code == packet.ReasonQuotaExceeded
}

// rejectReason returns why a broker refuses a message.
func rejectReason(code byte) string {
	switch code {
	case packet.ReasonNotAuthorized:
		return "the broker does not let the connection's user publish there"
	case packet.ReasonTopicNameInvalid:
		return "the broker does not accept its topic"
	case packet.ReasonPacketTooLarge:
		return "it is larger than the broker accepts"
	}
	return fmt.Sprintf("the broker refuses it with reason code 0x%02x", code)
}
