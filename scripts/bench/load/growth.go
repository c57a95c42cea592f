//go:build linux

package load

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// Growth is the load of one publisher and one subscriber that is played beside what grows. The
// publisher cycles through topics among which AddSubscriptions subscribes.
var Growth = Flow{Publishers: 1, Subscribers: 1, Topics: 1, Name: "growth", Window: windowFree, Paths: growthPaths}

const growthPaths = 1_000

// FiltersEach is how many filters a client of AddSubscriptions has: as many as the product
// allows one client.
const FiltersEach = 10_000

// filtersPerPacket is how many filters one SUBSCRIBE has.
const filtersPerPacket = 500

// AddSubscriptions adds the subscriptions from one number to another, of persistent sessions whose
// clients disconnect. None matches a topic of Growth; half of the filters have wildcards.
func AddSubscriptions(ctx context.Context, t Target, from, to int) error {
	for n := from; n < to; {
		last := min(to, n-n%FiltersEach+FiltersEach)
		err := t.asClient(ctx, fmt.Sprintf("bench-owner-%d", n/FiltersEach), false, func(c *client) error {
			for ; n < last; n += filtersPerPacket {
				if err := c.subscribeAll(n, min(last, n+filtersPerPacket)); err != nil {
					return fmt.Errorf("subscription %d: %w", n, err)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		n = last
	}
	return nil
}

// subscribeAll subscribes to the filters from one number to another with one packet.
func (c *client) subscribeAll(from, to int) error {
	p := packet.Packet{Type: packet.Subscribe, ID: 1}
	for n := from; n < to; n++ {
		p.Filters = append(p.Filters, packet.Filter{Filter: growthFilter(n)})
	}
	const version311 = 4
	body, err := c.ask(p.Append(nil, version311), packet.Suback)
	if err != nil {
		return err
	}
	for _, reason := range body[2:] {
		if reason != 0 {
			return fmt.Errorf("SUBACK % x: %w", body, errWrong)
		}
	}
	return nil
}

// growthFilter returns a filter on the path of a topic of Growth, which ends in another level.
func growthFilter(n int) string {
	path := n % growthPaths
	switch n / growthPaths % 4 {
	case 0:
		return fmt.Sprintf("bench/growth/+/machine/%04d/%d", path, n)
	case 1:
		return fmt.Sprintf("bench/growth/000/machine/+/%d/#", n)
	}
	return fmt.Sprintf("bench/growth/000/machine/%04d/%d", path, n)
}

// AddRetained publishes the retained messages from one number to another, those of Retained.
func AddRetained(ctx context.Context, t Target, from, to int) error {
	return t.asClient(ctx, "bench-keeper", true, func(c *client) error {
		return c.publishAll(to-from, func(n int) packet.Message {
			return packet.Message{Topic: retainedTopic(from + n), Payload: payloadOf(from + n), QoS: 1, Retain: true}
		})
	})
}

// ReadRetained subscribes that many times to a filter that one of the retained messages
// matches, and receives it. With wildcards the filter has a + for the site.
func ReadRetained(ctx context.Context, t Target, stored, calls int, wildcard bool) error {
	return t.asClient(ctx, "bench-reader", true, func(c *client) error {
		for call := range calls {
			n := call * 7919 % stored
			filter := string(retainedTopic(n))
			if wildcard {
				filter = fmt.Sprintf("bench/site/+/device/%05d", n)
			}
			if _, err := c.Write(packet.AppendSubscribe(nil, 1, filter, 0)); err != nil {
				return err
			}
			err := c.readAll(1, 0, func(m packet.Message) error {
				if string(m.Topic) != string(retainedTopic(n)) || !m.Retain {
					return fmt.Errorf("a message on %s for %s: %w", m.Topic, filter, errWrong)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// AddSessions adds the persistent sessions from one number to another, each with a subscription.
// Their clients disconnect.
func AddSessions(ctx context.Context, t Target, from, to int) error {
	errs := make([]error, dialers)
	var connecting sync.WaitGroup
	for d := range dialers {
		connecting.Go(func() {
			for n := from + d; n < to && errs[d] == nil; n += dialers {
				errs[d] = t.asClient(ctx, fmt.Sprintf("bench-absentee-%d", n), false, func(c *client) error {
					return c.subscribe(fmt.Sprintf("bench/absentee/%d", n), 1)
				})
			}
		})
	}
	connecting.Wait()
	return errors.Join(errs...)
}
