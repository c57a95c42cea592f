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

// watcher receives the engine's events.
type watcher struct{ b *Broker }

// Connected checks whether the client connects too often, and whether it was banned after
// its log-in was decided: a new ban does not find its connection before this.
func (w watcher) Connected(c engine.ClientEvent) {
	w.debug("client connected", c)
	if ban, flaps := w.b.flapping.Connected(c.ClientID); flaps {
		w.b.tasks.Go(func() { w.b.banFlapping(ban) })
	}
	addr, _ := netip.ParseAddr(c.Address) // none on a Unix socket
	if _, banned := w.b.bans.Banned(c.ClientID, c.Username, addr); banned {
		w.b.tasks.Go(w.b.disconnectBanned)
	}
}

// Disconnected logs that a client has disconnected.
func (w watcher) Disconnected(c engine.ClientEvent, reason byte) {
	w.debug("client disconnected", c, slog.Int("reason", int(reason)))
}

// Refused logs that a client was refused. That is a denial if it is about the client's
// identity, but not for protocol errors or an unavailable broker.
func (w watcher) Refused(c engine.ClientEvent, reason byte, why string) {
	w.debug("client refused", c, slog.String("reason", why))
	switch reason {
	case codeNotAuthorized, codeBanned, codeRateExceeded, packet.ReasonClientIDNotValid, packet.ReasonBadAuthMethod:
		w.b.denials.add(denial{at: w.b.now(), client: c, action: broker.ActionConnect, reason: why})
	}
}

var actions = [...]broker.Action{
	engine.Send: broker.ActionPublish, engine.Receive: broker.ActionReceive,
	engine.Subscribe: broker.ActionSubscribe, engine.Unsubscribe: broker.ActionUnsubscribe,
}

// Denied records a denied action.
func (w watcher) Denied(c engine.ClientEvent, k engine.Kind, topic string) {
	w.b.denials.add(denial{at: w.b.now(), client: c, action: actions[k], topic: topic})
}

// debug logs an event of a client. A line that is not wanted costs nothing.
func (w watcher) debug(text string, c engine.ClientEvent, more ...slog.Attr) {
	if ctx := context.Background(); w.b.log.Enabled(ctx, slog.LevelDebug) {
		w.b.log.LogAttrs(ctx, slog.LevelDebug, text, append([]slog.Attr{slog.String("clientid", c.ClientID),
			slog.String("username", c.Username), slog.String("remote", c.Address)}, more...)...)
	}
}

// banFlapping bans a client that connects too often, and closes its connection.
func (b *Broker) banFlapping(ban broker.Ban) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := b.bans.Add(ctx, ban); err != nil {
		b.log.Warn("a client that connects too often could not be banned", "clientid", ban.Value, "error", err)
		return
	}
	b.log.Warn("a client that connects too often was banned", "clientid", ban.Value, "until", b.shownBan(ban).ExpiresAt)
	b.disconnectBanned()
}
