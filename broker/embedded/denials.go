package embedded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
)

// maxDenials is the number of denials that are kept; beyond, the oldest is dropped.
const maxDenials = 1000

// denials are the recent actions that clients were denied.
type denials struct {
	mu   sync.Mutex // guards what follows
	last []denial
	next int // index of the oldest, once the list is full
	all  int64
}

// denial is one denied action. Its reason is determined when it is listed: denials may be
// frequent, listing them is not.
type denial struct {
	at     time.Time
	client engine.ClientEvent
	action broker.Action
	topic  string
	reason string // of a refused connection
	number int64  // in the order in which they were added, from 1
}

func newDenials() *denials { return &denials{} }

func (d *denials) add(one denial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all++
	one.number = d.all
	if len(d.last) < maxDenials {
		d.last = append(d.last, one)
		return
	}
	d.last[d.next] = one
	d.next = (d.next + 1) % maxDenials
}

// newest returns the denials, the newest first.
func (d *denials) newest() []denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]denial, 0, len(d.last))
	for i := range d.last {
		at := (d.next - 1 - i + 2*len(d.last)) % len(d.last)
		list = append(list, d.last[at])
	}
	return list
}

// ListDenials returns the recent denials.
func (b *Broker) ListDenials(ctx context.Context, offset, count int) (broker.Page[broker.Denial], error) {
	page := pageOf(b.denials.newest(), offset, count)
	return broker.Page[broker.Denial]{Total: page.Total, Items: func(yield func(broker.Denial, error) bool) {
		for d := range page.Items {
			if !yield(b.explain(ctx, &d)) {
				return
			}
		}
	}}, nil
}

// explain returns a denial with its reason according to the current access control.
func (b *Broker) explain(ctx context.Context, d *denial) (broker.Denial, error) {
	shown := broker.Denial{
		At: d.at, ClientID: d.client.ClientID, Username: d.client.Username, Address: d.client.Address,
		Action: d.action, Topic: d.topic, Number: d.number,
	}
	if d.action == broker.ActionConnect {
		shown.Reason = b.connectReason(ctx, d)
		return shown, nil
	}
	v, err := b.CheckAccess(ctx, broker.AccessCheck{
		Username: d.client.Username, ClientID: d.client.ClientID, Action: d.action, Topic: d.topic,
	})
	shown.Reason = v.Reason
	if v.Allowed {
		shown.Reason = "rights have changed since: now " + v.Reason
	}
	return shown, err
}

// notAuthorised is the reason for every log-in with wrong credentials: the exact reason is
// for the operator, not for the client.
const notAuthorised = "not authorised"

// connectReason returns why a connection was refused.
func (b *Broker) connectReason(ctx context.Context, d *denial) string {
	if d.reason != notAuthorised {
		return d.reason
	}
	if d.client.Username == "" {
		return noAnonymous
	}
	c, err := b.GetClient(ctx, d.client.Username)
	switch {
	case broker.KindOf(err) == broker.NotFound:
		return fmt.Sprintf("there is no client %q", d.client.Username)
	case err != nil:
		return d.reason
	case c.Disabled:
		return "the client is disabled"
	case c.ClientID != "" && c.ClientID != d.client.ClientID:
		return fmt.Sprintf("the client can connect with the client id %q only", c.ClientID)
	}
	return "the password is wrong, or the client has none"
}
