package embedded

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/packet"
)

// ListRetained returns a page of the retained messages.
func (b *Broker) ListRetained(_ context.Context, filter string, offset, count int) (broker.Page[broker.RetainedMessage], error) {
	total, messages := b.engine.Retained(filter, offset, count)
	return broker.Page[broker.RetainedMessage]{Total: total, Items: func(yield func(broker.RetainedMessage, error) bool) {
		for _, m := range messages {
			if !yield(b.shown(m, broker.PreviewLimit), nil) {
				return
			}
		}
	}}, nil
}

// GetRetained returns the retained message of a topic.
func (b *Broker) GetRetained(_ context.Context, topic string) (broker.RetainedMessage, error) {
	m, ok := b.engine.RetainedOf(topic)
	if !ok {
		return broker.RetainedMessage{}, noRetained("getRetained")
	}
	return b.shown(m, -1), nil
}

func noRetained(op string) error {
	return &broker.Error{Kind: broker.NotFound, Op: op, Msg: "the topic retains no message"}
}

// DeleteRetained deletes the retained message of a topic. Subscribers are not notified.
func (b *Broker) DeleteRetained(_ context.Context, topic string) error {
	existed, err := b.engine.DeleteRetained(topic)
	if err == nil && !existed {
		return noRetained("deleteRetained")
	}
	return operationError(err, "deleteRetained")
}

// RetainedDeleter returns a RetainedDeleter whose deletions have nothing in common.
func (b *Broker) RetainedDeleter() broker.RetainedDeleter { return retainedDeleter{b} }

// retainedDeleter is a Broker with a Close that does nothing.
type retainedDeleter struct{ *Broker }

// Close does nothing.
func (retainedDeleter) Close() {}

// deleters is how many retained messages are deleted concurrently, so that they share the
// store's commits.
const deleters = 256

// DeleteRetainedMatching deletes the retained messages whose topics match. If it fails, or
// the context ends, some have been deleted.
func (b *Broker) DeleteRetainedMatching(ctx context.Context, filter string) (int, error) {
	_, messages := b.engine.Retained(filter, 0, -1)
	var next, deleted atomic.Int64
	errs := make([]error, min(deleters, len(messages)))
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(messages) {
					return
				}
				errs[w] = b.deleteOne(ctx, messages[i].Topic, &deleted)
			}
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return int(deleted.Load()), err
	}
	return int(deleted.Load()), operationError(errors.Join(errs...), "deleteRetained")
}

func (b *Broker) deleteOne(ctx context.Context, topic string, deleted *atomic.Int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	existed, err := b.engine.DeleteRetained(topic)
	if existed {
		deleted.Add(1)
	}
	return err
}

// shown returns a message for display.
func (b *Broker) shown(m *engine.Message, limit int) broker.RetainedMessage {
	qos := int(m.QoS)
	r := broker.RetainedMessage{
		Topic: m.Topic, QoS: &qos, PublishedAt: time.UnixMilli(b.timeline.Wall(m.CreatedAt)).UTC(),
		ClientID: m.Publisher, Username: m.Username, Properties: messaging.DecodeProperties(m.Properties),
	}
	if m.ExpiresAt != 0 {
		r.ExpiresAt = time.UnixMilli(b.timeline.Wall(m.ExpiresAt)).UTC()
	}
	return r.WithPayload(m.Payload, limit)
}

// Publish publishes a message of an administrator.
func (b *Broker) Publish(_ context.Context, p broker.PublishSpec) error {
	if err := b.cluster.mayPublish(); err != nil {
		return err
	}
	properties, err := messaging.EncodeProperties(p)
	if err != nil {
		return &broker.Error{Kind: broker.Invalid, Op: "publish", Msg: "a property cannot be sent", Err: err}
	}
	m := &engine.Message{
		Topic: p.Topic, Payload: p.Payload, Properties: properties, QoS: byte(p.QoS), Retain: p.Retain,
		CreatedAt: b.timeline.Now().UnixMilli(),
	}
	if p.Expiry != nil {
		m.SetExpiry(*p.Expiry)
	}
	return operationError(b.engine.Publish(m), "publish")
}

// ListSubscriptions returns a page of the subscriptions.
func (b *Broker) ListSubscriptions(ctx context.Context, o broker.SubscriptionOptions) (broker.Page[broker.Subscription], error) {
	var found []broker.Subscription
	for s := range b.engine.EachSubscription(o.ClientID) {
		shown := subscriptionOf(s)
		wanted, err := broker.Matches(ctx, o.Match, shown)
		if err != nil {
			return broker.Page[broker.Subscription]{}, err
		}
		if wanted {
			found = append(found, shown)
		}
	}
	total := len(found)
	found = found[min(o.Offset, total):]
	if o.Count >= 0 {
		found = found[:min(o.Count, len(found))]
	}
	return broker.Page[broker.Subscription]{Total: total, Items: func(yield func(broker.Subscription, error) bool) {
		for _, s := range found {
			if !yield(s, nil) {
				return
			}
		}
	}}, nil
}

func subscriptionOf(s engine.Subscription) broker.Subscription {
	share, _, _ := packet.SplitShared(s.Filter)
	return broker.Subscription{
		ClientID: s.ClientID, Username: s.Username, Topic: s.Filter, QoS: int(s.QoS), NoLocal: s.NoLocal,
		RetainAsPublished: s.RetainAsPublished, RetainHandling: int(s.RetainHandling),
		SubscriptionIdentifier: s.ID, Share: share,
	}
}

// CheckAccess returns what a client may do, and why. Clients without a username have no
// rights if they are not admitted.
func (b *Broker) CheckAccess(ctx context.Context, q broker.AccessCheck) (broker.Verdict, error) {
	v, err := b.control.CheckAccess(ctx, q)
	if err != nil || q.Username != "" || b.config.AllowAnonymous || v.Source == broker.DecidedByTopic {
		return v, err
	}
	return broker.Verdict{ACLType: v.ACLType, Source: broker.DecidedByUnknown, Reason: noAnonymous}, nil
}

// noAnonymous is why clients without a username are refused.
const noAnonymous = "clients without a username are not let in: broker.allow_anonymous is off"

// pageOf returns a page of a list.
func pageOf[T any](all []T, offset, count int) broker.Page[T] {
	part := all[min(offset, len(all)):]
	if count >= 0 {
		part = part[:min(count, len(part))]
	}
	return broker.Page[T]{Total: len(all), Items: func(yield func(T, error) bool) {
		for _, one := range part {
			if !yield(one, nil) {
				return
			}
		}
	}}
}
