package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
)

const opListen = "listenMessages"

// Listen subscribes on connections of its own, which end with the broker's. A broker may
// deliver a message once for each subscription of a connection that matches it
// [MQTT-3.3.4-2], so filters that overlap are subscribed to on different ones.
func (b *Broker) Listen(ctx context.Context, filters []string, take func(broker.PublishedMessage)) (broker.Feed, error) {
	if err := b.checkSecondConnection(ctx, opListen, broker.CapMessages); err != nil {
		return nil, err
	}
	groups := separate(filters)
	if len(groups) > maxListenConnections {
		return nil, &broker.Error{Kind: broker.Invalid, Op: opListen, Msg: fmt.Sprintf("the topic filters overlap in so many ways that %d connections to the broker would be needed, and %d are opened: "+
			"use fewer filters, or one that covers several", len(groups), maxListenConnections)}
	}
	l := &listening{}
	l.ctx, l.cancel = context.WithCancel(b.lifetime)
	for i, group := range groups {
		earlier := slices.Concat(groups[:i]...)
		f, err := b.subscribe(ctx, group, func(m messaging.Message) {
			if !slices.ContainsFunc(earlier, func(filter string) bool { return broker.FilterMatches(filter, m.Topic) }) {
				take(m.Published())
			}
		})
		if err == nil {
			err = l.add(b, f)
		}
		if err != nil {
			l.Stop()
			return nil, listenError(err)
		}
	}
	return l, nil
}

// maxListenConnections bounds the connections for one listener: a small broker allows few.
const maxListenConnections = 3

// separate divides filters into groups without overlap. Filters that another one covers are
// left out.
func separate(filters []string) (groups [][]string) {
next:
	for i, f := range filters {
		for j, other := range filters {
			if j != i && client.Covers(other, f) && (j < i || !client.Covers(f, other)) {
				continue next
			}
		}
		overlaps := func(other string) bool { return client.Overlap(f, other) }
		for g, group := range groups {
			if !slices.ContainsFunc(group, overlaps) {
				groups[g] = append(group, f)
				continue next
			}
		}
		groups = append(groups, []string{f})
	}
	return groups
}

// listening is a feed on several connections. Its context ends with the first of them that is
// lost, with Stop, and with the connection of its broker.
type listening struct {
	ctx    context.Context
	cancel context.CancelFunc
	feeds  sync.WaitGroup
}

// add adds a connection, which is closed at the end.
func (l *listening) add(b *Broker, f broker.Feed) error {
	l.feeds.Add(1)
	ok := b.goWhileOpen(func() {
		defer l.feeds.Done()
		select {
		case <-f.Lost():
		case <-l.ctx.Done():
		}
		l.cancel()
		f.Stop()
	})
	if ok {
		return nil
	}
	l.feeds.Done()
	f.Stop()
	return &broker.Error{Kind: broker.Unavailable, Op: opListen, Msg: "the connection to the broker was closed", Err: context.Canceled}
}

// Lost returns a channel that is closed when the feed has ended.
func (l *listening) Lost() <-chan struct{} { return l.ctx.Done() }

// Stop ends the subscriptions.
func (l *listening) Stop() {
	l.cancel()
	l.feeds.Wait()
}

// listenError explains a subscription that failed without reference to the topic tree.
func listenError(err error) error {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok {
		return err
	}
	f := *e
	f.Op = opListen
	if f.Kind == broker.Denied {
		f.Msg = "the broker does not let the connection's user subscribe to the topic filter"
		if refused, ok := errors.AsType[*client.SubscriptionDeniedError](err); ok {
			f.Msg += fmt.Sprintf(" %q", refused.Filter)
		}
	}
	return &f
}
