package embedded

import (
	"context"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/limits"
)

// ListBans returns a page of the bans in force.
func (b *Broker) ListBans(_ context.Context, offset, count int) (broker.Page[broker.Ban], error) {
	bans := b.bans.List()
	for i, ban := range bans {
		bans[i] = b.shownBan(ban)
	}
	return pageOf(bans, offset, count), nil
}

// AddBan adds a ban and disconnects the clients that it bans.
func (b *Broker) AddBan(ctx context.Context, s broker.BanSpec) error {
	_, err := b.bans.Add(ctx, broker.Ban{
		Kind: s.Kind, Value: s.Value, Reason: s.Reason, CreatedBy: limits.ByAPI,
		CreatedAt: b.now().UTC().Truncate(time.Millisecond), // as it is stored
		ExpiresAt: s.ExpiresAt.Truncate(time.Millisecond),
	})
	if err == nil {
		b.disconnectBanned()
	}
	return err
}

// shownBan returns a ban for display: the times of a ban for a duration are service times.
func (b *Broker) shownBan(ban broker.Ban) broker.Ban {
	if ban.CreatedBy == limits.ByFlapping {
		ban.CreatedAt = time.UnixMilli(b.timeline.Wall(ban.CreatedAt.UnixMilli())).UTC()
		ban.ExpiresAt = time.UnixMilli(b.timeline.Wall(ban.ExpiresAt.UnixMilli())).UTC()
	}
	return ban
}

// DeleteBan deletes a ban.
func (b *Broker) DeleteBan(ctx context.Context, kind broker.BanKind, value string) error {
	return b.bans.Remove(ctx, kind, value)
}

// disconnectBanned closes the connections that are banned now. The platforms of other nodes cannot be.
func (b *Broker) disconnectBanned() {
	b.engine.Expel(func(c engine.ClientEvent, s *engine.Socket) bool {
		_, banned := b.bans.Banned(c.ClientID, c.Username, s.IP)
		return banned && s.Node == 0
	})
}
