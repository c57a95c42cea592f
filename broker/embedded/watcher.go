package embedded

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// watcher is where the engine tells what happens.
type watcher struct{ b *Broker }

// Connected looks whether the client comes too often, and whether it was banned
// since its log-in was decided: who bans cannot see it before this.
func (w watcher) Connected(c engine.ClientEvent) {
	w.b.log.Debug("client connected", about(c)...)
	if ban, flaps := w.b.flaps.Connected(c.ClientID); flaps {
		w.b.tasks.Go(func() { w.b.banFlapping(ban) })
	}
	addr, _ := netip.ParseAddr(c.Address) // there is none on a Unix socket
	if _, banned := w.b.bans.Banned(c.ClientID, c.Username, addr); banned {
		w.b.tasks.Go(w.b.expel)
	}
}

// Disconnected is told of a client that is gone.
func (w watcher) Disconnected(c engine.ClientEvent, reason byte) {
	w.b.log.Debug("client disconnected", append(about(c), "reason", int(reason))...)
}

// Refused is told of a client that did not get in. It is a denial where that is
// about who it is; what broke the protocol or came at a bad time is none.
func (w watcher) Refused(c engine.ClientEvent, reason byte, why string) {
	w.b.log.Debug("client refused", append(about(c), "reason", why)...)
	switch reason {
	case codeNotAuthorized, codeBanned, codeRateExceeded, packet.ReasonClientIDNotValid, packet.ReasonBadAuthMethod:
		w.b.denials.add(denial{at: w.b.now(), client: c, action: broker.ActionConnect, why: why})
	}
}

var actions = [...]broker.Action{
	engine.Send: broker.ActionPublish, engine.Receive: broker.ActionReceive,
	engine.Subscribe: broker.ActionSubscribe, engine.Unsubscribe: broker.ActionUnsubscribe,
}

// Denied is told of what a client was not allowed.
func (w watcher) Denied(c engine.ClientEvent, k engine.Kind, topic string) {
	w.b.denials.add(denial{at: w.b.now(), client: c, action: actions[k], topic: topic})
}

// Published shows the message to the topic tree.
func (w watcher) Published(m *engine.Message) { w.b.tree.Observe(m.Topic, m.Payload, m.QoS, m.Retain) }

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
	b.log.Warn("a client that connects too often was banned", "clientid", ban.Value, "until", b.shownBan(ban).ExpiresAt)
	b.expel()
}
