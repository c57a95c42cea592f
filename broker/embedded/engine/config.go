package engine

import (
	"log/slog"
	"time"
)

// Config is what the engine allows. Zero means no limit where it says so.
type Config struct {
	MaxPacketSize     int           // bytes, taken from a client
	TellPacketSize    bool          // MQTT 5 clients are told MaxPacketSize
	ConnectTimeout    time.Duration // from accept to CONNECT
	WriteTimeout      time.Duration // how long a peer that does not read is waited for
	Grace             time.Duration // that a connection which is being ended has to take what is still to be written
	EvictTimeout      time.Duration // how long a client waits for an older connection with its client id to be gone
	MaxInflight       uint16        // QoS 1 and 2 messages under way to a client at once
	ReceiveMaximum    uint16        // QoS 1 and 2 messages under way from a client at once
	TopicAliasMaximum uint16        // aliases a client may use
	MaxQueuedMessages int           // that wait for one client
	MaxQueuedBytes    int64         // their topics and payloads
	ConnectedMemory   int64         // bytes of the stored queue of a connected client that may be in memory
	QueueMemory       int64         // the same of all clients, beside the least that each may have
	Quota             Quota         // of the whole broker
	UserQuota         Quota         // of each username
	MaxKeepAlive      uint16        // seconds; 0 leaves it to the client
	MaxSessionExpiry  uint32        // seconds; 4294967295 leaves it to the client
	MaxTopicLevels    int           // 0 for no limit
	MaxTopicLength    int           // bytes
	MaxSubscriptions  int           // of one client
	DisconnectSlow    bool          // a client whose queue is full is disconnected, rather than losing messages
	LoginTimeout      time.Duration // how long Authenticate may take
	RoutesPatience    time.Duration // how long SUBACK waits for other nodes to know of the subscriptions
	Now               func() time.Time
	Log               *slog.Logger
}

// DefaultConfig is fit for a machine of any size.
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
		Log:               slog.New(slog.DiscardHandler),
	}
}

// NeverExpires is the session expiry interval of a session that is kept for ever
// [MQTT-3.1.2.11.2].
const NeverExpires = 0xFFFFFFFF
