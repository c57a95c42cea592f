package mqtt

import (
	"context"
	"fmt"

	"signalbox/broker/bridges"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/packet"
)

// flight is an entry that was sent. The client continues it on the next connection if one is
// lost, so it must not be sent again while it is in flight.
type flight struct {
	delivery *client.Delivery
	index    int
}

// Deliver sends messages and waits for acknowledgements.
func (c *connector) Deliver(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error {
	c.prune(batch[0].ID)
	err := c.send(ctx, batch, results)
	if err == nil {
		err = c.await(ctx, batch)
	}
	for i, e := range batch {
		c.conclude(e.ID, &results[i])
	}
	if broken := c.feed.Reached(); err != nil && broken != nil {
		return &bridges.Lost{Err: broken}
	}
	return err
}

// prune removes entries that are no longer in the queue.
func (c *connector) prune(before uint64) {
	for id := range c.flights {
		if id < before {
			delete(c.flights, id)
		}
	}
}

// send sends the entries that are not in flight yet.
func (c *connector) send(ctx context.Context, batch []*bridges.Entry, results []bridges.Result) error {
	var list []messaging.Message
	var ids []uint64
	for i, e := range batch {
		if _, under := c.flights[e.ID]; under {
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
	d, sent, err := c.feed.Send(ctx, list)
	for i, id := range ids[:sent] {
		c.flights[id] = flight{d, i}
	}
	return err
}

// outgoing makes the message for the other broker.
func (c *connector) outgoing(e *bridges.Entry) (messaging.Message, bridges.Result) {
	m := e.Message
	r := c.outs[e.Mapping]
	if r == nil {
		return m, bridges.Result{State: bridges.Rejected, Reason: fmt.Sprintf("the topic mapping %q sends nothing any more", e.Mapping)}
	}
	topic, ok := r.abroad(m.Topic)
	if !ok {
		return m, bridges.Result{State: bridges.Rejected, Reason: "its topic cannot be used at the other broker, with the prefixes of the topic mapping"}
	}
	if t, _ := splitTrace(m.Properties); t != nil && t.hasVisited(c.peer()) {
		return m, bridges.Result{State: bridges.Skipped}
	}
	m.Topic, m.QoS, m.Retain = topic, min(m.QoS, r.qos), m.Retain && r.retain
	return m, bridges.Result{}
}

// await waits until every message of a batch has an outcome, or the connection is lost.
func (c *connector) await(ctx context.Context, batch []*bridges.Entry) error {
	for _, e := range batch {
		f, under := c.flights[e.ID]
		for under {
			select {
			case <-f.delivery.Done():
				under = false
				continue
			case <-c.stir:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := c.feed.Reached(); err != nil {
				return err
			}
		}
	}
	return nil
}

// conclude sets the result of an entry that was sent.
func (c *connector) conclude(id uint64, r *bridges.Result) {
	f, under := c.flights[id]
	if !under {
		return
	}
	o := f.delivery.Outcome(f.index)
	switch {
	case o.Done && o.Code == 0:
		r.State = bridges.Delivered
	case o.Done && passing(o.Code):
		r.Reason = fmt.Sprintf("the broker does not take it at present (reason code 0x%02x)", o.Code)
	case o.Done:
		r.State, r.Reason = bridges.Rejected, whyRejected(o.Code)
	case !over(f.delivery):
		return // still in flight
	}
	delete(c.flights, id)
}

func over(d *client.Delivery) bool {
	select {
	case <-d.Done():
		return true
	default:
		return false
	}
}

// passing reports whether a broker may accept later what it refuses now.
func passing(code byte) bool {
	return code == packet.ReasonUnspecified || code == packet.ReasonImplementationSpecific || code == packet.ReasonQuotaExceeded
}

// whyRejected returns why a broker refuses a message.
func whyRejected(code byte) string {
	switch code {
	case packet.ReasonNotAuthorized:
		return "the broker does not let the connection's user publish there"
	case packet.ReasonTopicNameInvalid:
		return "the broker does not take its topic"
	case packet.ReasonPacketTooLarge:
		return "it is larger than the broker takes"
	}
	return fmt.Sprintf("the broker refuses it with reason code 0x%02x", code)
}
