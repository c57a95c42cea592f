package embedded

import (
	"context"
	"fmt"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
)

// maxDenials is how many denials are remembered; the oldest goes.
const maxDenials = 1000

// denials are what clients were not allowed lately.
type denials struct {
	mu   sync.Mutex // guards what follows
	last []denial
	next int // where the oldest stands, once there are as many as may be
}

// denial is one of them. Why access control denied it is found out when somebody
// wants to know: clients that try in vain are many at times, and who asks is one.
type denial struct {
	at     time.Time
	client engine.ClientEvent
	action broker.Action
	topic  string
	why    string // of a client that was not let in
}

func newDenials() *denials { return &denials{} }

func (d *denials) add(one denial) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.last) < maxDenials {
		d.last = append(d.last, one)
		return
	}
	d.last[d.next] = one
	d.next = (d.next + 1) % maxDenials
}

// newest gives the denials, the newest first.
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

// ListDenials shows what clients were lately not allowed to do.
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

// explain says why something was denied, from access control as it is now.
func (b *Broker) explain(ctx context.Context, d *denial) (broker.Denial, error) {
	shown := broker.Denial{
		At: d.at, ClientID: d.client.ClientID, Username: d.client.Username, Address: d.client.Address,
		Action: d.action, Topic: d.topic,
	}
	if d.action == broker.ActionConnect {
		shown.Reason = b.whyNotIn(ctx, d)
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

// notAuthorised is how a log-in is refused whose credentials are not right, in
// whatever way: that is for the operator to know, not for the client.
const notAuthorised = "not authorised"

// whyNotIn says why a client was not let in.
func (b *Broker) whyNotIn(ctx context.Context, d *denial) string {
	if d.why != notAuthorised {
		return d.why
	}
	if d.client.Username == "" {
		return noAnonymous
	}
	c, err := b.GetClient(ctx, d.client.Username)
	switch {
	case broker.KindOf(err) == broker.NotFound:
		return fmt.Sprintf("there is no client %q", d.client.Username)
	case err != nil:
		return d.why
	case c.Disabled:
		return "the client is disabled"
	case c.ClientID != "" && c.ClientID != d.client.ClientID:
		return fmt.Sprintf("the client can connect with the client id %q only", c.ClientID)
	}
	return "the password is wrong, or the client has none"
}
