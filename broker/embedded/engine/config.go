package engine

import (
	"log/slog"
	"time"
)

// Config is the configuration of an engine. Zero means no limit only for the fields that
// state it.
type Config struct {
	MaxPacketSize      int                  // bytes, taken from a client
	AnnouncePacketSize bool                 // CONNACK of MQTT 5 has MaxPacketSize
	ConnectTimeout     time.Duration        // from accept to CONNECT
	WriteTimeout       time.Duration        // how long a write waits for a client that does not read
	Grace              time.Duration        // how long the last packets to a client may take when its connection is ended
	EvictTimeout       time.Duration        // how long a client waits for the end of an older connection of its client id
	MaxInflight        uint16               // QoS 1 and 2 messages in flight to a client
	ReceiveMaximum     uint16               // QoS 1 and 2 messages in flight from a client
	TopicAliasMaximum  uint16               // aliases a client may use
	Unbounded          string               // username whose subscriptions, and queues above QoS 0, have no bound but Quota; "" for none
	MaxQueuedMessages  int                  // in the queue of one client
	MaxQueuedBytes     int64                // topics, payloads and properties in the queue of one client
	ConnectedMemory    int64                // bytes of the stored queue of a connected client that may be in memory
	QueueMemory        int64                // bytes of all such queues, beyond the minimum of each
	Quota              Quota                // of the whole broker
	UserQuota          Quota                // of each username
	MaxKeepAlive       uint16               // seconds; 0 leaves it to the client
	MaxSessionExpiry   uint32               // seconds; 4294967295 leaves it to the client
	MaxTopicLevels     int                  // 0 for no limit
	MaxTopicLength     int                  // bytes
	MaxSubscriptions   int                  // of one client
	DisconnectSlow     bool                 // disconnect a client whose queue is full, instead of dropping messages
	LoginTimeout       time.Duration        // how long Authenticate may take
	RoutesPatience     time.Duration        // how long SUBACK waits for other nodes to know of the subscriptions
	Now                func() time.Time     // by which sessions, messages and Wills expire; must not be a clock that can be set
	TapTime            func(ms int64) int64 // converts a time by Now, or 0 for none, to the clock of taps
	Log                *slog.Logger
}

// DefaultConfig returns the defaults, which suit a machine of any size.
func DefaultConfig() Config {
	return Config{
		MaxPacketSize:     2 << 20,
		ConnectTimeout:    10 * time.Second,
		WriteTimeout:      10 * time.Second,
		Grace:             time.Second,
		EvictTimeout:      5 * time.Second,
		MaxInflight:       20,
		ReceiveMaximum:    20,
		TopicAliasMaximum: 10,
		MaxQueuedMessages: 100_000,
		MaxQueuedBytes:    64 << 20,
		ConnectedMemory:   4 << 20,
		QueueMemory:       64 << 20,
		Quota:             Quota{1_000_000, 2 << 30, 1 << 30, 8 << 30, 1_000_000, 512 << 20},
		UserQuota:         Quota{100_000, 256 << 20, 256 << 20, 2 << 30, 500_000, 256 << 20},
		MaxSessionExpiry:  NeverExpires,
		MaxTopicLength:    65535,
		MaxSubscriptions:  10_000,
		LoginTimeout:      30 * time.Second,
		RoutesPatience:    time.Second,
		Now:               time.Now,
		TapTime:           func(ms int64) int64 { return ms },
		Log:               slog.New(slog.DiscardHandler),
	}
}

// NeverExpires is the session expiry interval of a session that is kept for ever
// [MQTT-3.1.2.11.2].
const NeverExpires = 0xFFFFFFFF
