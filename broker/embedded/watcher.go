package embedded

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
)

// watcher is where the engine tells what happens.
type watcher struct{ b *Broker }

// Connected looks whether the client comes too often.
func (w watcher) Connected(c engine.ClientEvent) {
	w.b.log.Debug("client connected", about(c)...)
	if ban, flaps := w.b.flaps.Connected(c.ClientID); flaps {
		w.b.tasks.Go(func() { w.b.banFlapping(ban) })
	}
}

// Disconnected is told of a client that is gone.
func (w watcher) Disconnected(c engine.ClientEvent, reason byte) {
	w.b.log.Debug("client disconnected", append(about(c), "reason", int(reason))...)
}

// Refused is told of a client that did not get in.
func (w watcher) Refused(c engine.ClientEvent, reason byte, why string) {
	w.b.log.Debug("client refused", append(about(c), "reason", why)...)
	w.b.denials.add(broker.Denial{
		At: w.b.now(), ClientID: c.ClientID, Username: c.Username, Address: c.Address,
		Action: broker.ActionConnect, Reason: why,
	})
}

var actions = [...]broker.Action{
	engine.Send: broker.ActionPublish, engine.Receive: broker.ActionReceive,
	engine.Subscribe: broker.ActionSubscribe, engine.Unsubscribe: broker.ActionUnsubscribe,
}

// Denied is told of what a client was not allowed.
func (w watcher) Denied(c engine.ClientEvent, k engine.Kind, topic string) {
	w.b.denials.add(broker.Denial{
		At: w.b.now(), ClientID: c.ClientID, Username: c.Username, Address: c.Address,
		Action: actions[k], Topic: topic, Reason: "no ACL allows it",
	})
}

// Published is told of every message.
func (w watcher) Published(*engine.Message) {}

func about(c engine.ClientEvent) []any {
	return []any{slog.String("clientid", c.ClientID), slog.String("username", c.Username), slog.String("remote", c.Address)}
}

// banFlapping bans a client that comes too often, and ends its connection.
func (b *Broker) banFlapping(ban broker.Ban) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := b.bans.Add(ctx, ban); err != nil {
		b.log.Warn("a client that connects too often could not be banned", "clientid", ban.Value, "error", err)
		return
	}
	b.log.Warn("a client that connects too often was banned", "clientid", ban.Value, "until", ban.ExpiresAt)
	b.expel(ban)
}

// maxDenials is how many denials are remembered; the oldest goes.
const maxDenials = 1000

// denials are what clients were not allowed lately.
type denials struct {
	mu   sync.Mutex // guards what follows
	last []broker.Denial
	next int // where the oldest stands, once there are as many as may be
}

func newDenials() *denials { return &denials{} }

func (d *denials) add(one broker.Denial) {
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
func (d *denials) newest() []broker.Denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]broker.Denial, 0, len(d.last))
	for i := range d.last {
		at := (d.next - 1 - i + 2*len(d.last)) % len(d.last)
		list = append(list, d.last[at])
	}
	return list
}
