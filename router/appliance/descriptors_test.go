package appliance

import (
	"log/slog"
	"testing"
)

// TestDescriptorsAreShared fits the bounds on connections into limits on open
// files.
func TestDescriptorsAreShared(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, http, mqtt, half int }{
		{1 << 20, 1024, 20_000, 2000}, {4096, 1024, 2560, 640}, {1024, 256, 512, 128}, {256, 64, 128, 32},
	} {
		got := DefaultConfig().fitDescriptors(c.limit, slog.New(slog.DiscardHandler))
		if got.HTTP.MaxConnections != c.http || got.Broker.MaxConnections != c.mqtt || got.Broker.Limits.MaxHalfOpen != c.half {
			t.Errorf("limit %d: %d HTTP connections, %d MQTT, %d half open; want %+v",
				c.limit, got.HTTP.MaxConnections, got.Broker.MaxConnections, got.Broker.Limits.MaxHalfOpen, c)
		}
	}
}
