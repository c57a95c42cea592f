package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/clock"
	"signalbox/broker/embedded/access"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/limits"
	"signalbox/broker/embedded/listen"
	"signalbox/broker/storage"
	"signalbox/broker/streams"
)

// Config configures the embedded broker. The keys are those below "broker" in the
// configuration file.
type Config struct {
	// ControlAudit records the requests of clients to control APIs that may change something;
	// nil records nothing.
	ControlAudit broker.ControlAudit `mapstructure:"-"`
	// SlowCommand is the time from which on a request to a control API is logged as slow; 0 is
	// never. It is configured with the log.
	SlowCommand time.Duration `mapstructure:"-"`
	// Enabled starts the broker with the process.
	Enabled bool `mapstructure:"enabled"`
	// Listen is host:port of a plain MQTT listener; empty for none.
	Listen string `mapstructure:"listen"`
	// Listeners are further listeners, for example with TLS or WebSocket.
	Listeners []listen.Config `mapstructure:"listeners"`
	// AdminUsername and AdminPassword are those of the client with full rights that the
	// first start creates. Without a password one is generated.
	AdminUsername string        `mapstructure:"admin_username"`
	AdminPassword broker.Secret `mapstructure:"admin_password"`
	// AllowAnonymous admits clients without a username. They have the rights of the
	// anonymous group.
	AllowAnonymous bool `mapstructure:"allow_anonymous"`
	// PasswordIterations is the PBKDF2-SHA512 cost of new password hashes.
	PasswordIterations int `mapstructure:"password_iterations"`
	// MinPasswordLength is the minimum number of characters of a client's password that is
	// set over HTTP or $CONTROL; 0 for any.
	MinPasswordLength int `mapstructure:"min_password_length"`
	// Durability is what an acknowledged message survives: "full" a loss of power,
	// "process" the end of the process.
	Durability string `mapstructure:"durability"`
	// MaxConnections bounds open connections; those beyond are closed at once.
	MaxConnections int `mapstructure:"max_connections"`
	// MaxPacketSize is the largest MQTT packet accepted from a client, in bytes.
	MaxPacketSize int `mapstructure:"max_packet_size"`
	// ConnectTimeout bounds the time from accepting a connection to its CONNECT.
	ConnectTimeout time.Duration `mapstructure:"connect_timeout"`
	// WriteTimeout is how long a write may block on a client that does not read, before its
	// connection is closed.
	WriteTimeout time.Duration `mapstructure:"write_timeout"`
	// MaxInflightMessages bounds the QoS 1 and 2 messages in flight to a client, and from a
	// client of MQTT 5.
	MaxInflightMessages int `mapstructure:"max_inflight_messages"`
	// MaxQueuedMessages and MaxQueuedBytes bound the queue of one client.
	MaxQueuedMessages int `mapstructure:"max_queued_messages"`
	MaxQueuedBytes    int `mapstructure:"max_queued_bytes"`
	// Quota bounds the sum of all clients, UserQuota that of one username. 0 is no bound.
	Quota     engine.Quota `mapstructure:"quota"`
	UserQuota engine.Quota `mapstructure:"user_quota"`
	// SlowConsumer is the reaction to a full queue of a connected client: "drop" the newest
	// message, or "disconnect" the client.
	SlowConsumer string `mapstructure:"slow_consumer"`
	// MaxKeepAlive is the longest keep alive of MQTT 5 clients, in whole seconds; 0 for no
	// bound.
	MaxKeepAlive time.Duration `mapstructure:"max_keep_alive"`
	// MaxSessionExpiry bounds the session expiry interval, in whole seconds; 0 for no
	// bound.
	MaxSessionExpiry time.Duration `mapstructure:"max_session_expiry"`
	// MaxTopicLevels and MaxTopicLength (bytes) bound topics and filters.
	MaxTopicLevels int `mapstructure:"max_topic_levels"`
	MaxTopicLength int `mapstructure:"max_topic_length"`
	// MaxSubscriptions bounds those of one client.
	MaxSubscriptions int `mapstructure:"max_subscriptions"`
	// Limits bound what an address may do before it has logged in.
	Limits limits.Config `mapstructure:"limits"`
	// Version is published in $SYS/broker/version.
	Version string `mapstructure:"-"`
	// Cluster configures the broker's part in clusters.
	Cluster ClusterConfig `mapstructure:"-"`
	// Streams are shared by the streams of all brokers; nil for a broker without streams.
	Streams *streams.Host `mapstructure:"-"`
	// Bridges are shared by the bridges of all brokers; nil for a broker without bridges.
	Bridges *bridges.Host `mapstructure:"-"`
	// Shared is shared by the nodes of clusters that this broker creates, or that were created with
	// it; nil for a broker whose clusters share no data of the program.
	Shared Shared `mapstructure:"-"`
	// Definitions are those of the streams and bridges of the nodes that have Shared; nil if each node has its own.
	Definitions Definitions `mapstructure:"-"`

	// AcceptHTTP takes the connections over which the platforms of other nodes forward requests, if the nodes
	// share the data of the platform. It must not block.
	AcceptHTTP func(conn net.Conn) `mapstructure:"-"`
	// Clock is the service time of the process, which cannot be set; nil for one of the
	// broker's own.
	Clock *clock.Clock `mapstructure:"-"`
	// KeepPassword, if set, is called with a generated admin password before the admin
	// client is stored; its error ends the start.
	KeepPassword func(broker.Secret) error `mapstructure:"-"`
	// Times are set by tests.
	Times Times `mapstructure:"-"`
}

// Times are durations that tests change; 0 for the default.
type Times struct {
	Close  time.Duration // closeTimeout
	Sample time.Duration // sysInterval
	Routes time.Duration // RoutesPatience of the engine
	Claims time.Duration // timeout of a request that claims a session
	Links  time.Duration // IdleTimeout of the links for messages between nodes
	Flows  time.Duration // flowInterval
}

// The values of SlowConsumer.
const (
	slowDrop       = "drop"
	slowDisconnect = "disconnect"
)

// Limits of the configuration.
const (
	minPasswordIterations = 100
	maxPasswordIterations = 10_000_000
	minPacketSize         = 1 << 10
	maxPacketSize         = 268_435_455 // the maximum of MQTT [MQTT-2.1.4]
	maxQueuedBytes        = min(1<<40, math.MaxInt)
)

// DefaultConfig is closed to the outside: loopback only, no anonymous clients.
func DefaultConfig() Config {
	e := engine.DefaultConfig()
	return Config{
		Enabled:             true,
		Listen:              "127.0.0.1:1883",
		Listeners:           []listen.Config{},
		AdminUsername:       "admin",
		PasswordIterations:  access.DefaultPasswordIterations,
		Durability:          string(storage.Full),
		MaxConnections:      20_000,
		MaxPacketSize:       e.MaxPacketSize,
		ConnectTimeout:      e.ConnectTimeout,
		WriteTimeout:        e.WriteTimeout,
		MaxInflightMessages: int(e.MaxInflight),
		MaxQueuedMessages:   e.MaxQueuedMessages,
		MaxQueuedBytes:      int(e.MaxQueuedBytes),
		Quota:               e.Quota,
		UserQuota:           e.UserQuota,
		SlowConsumer:        slowDrop,
		MaxKeepAlive:        65_535 * time.Second,
		MaxTopicLevels:      201,
		MaxTopicLength:      e.MaxTopicLength,
		MaxSubscriptions:    e.MaxSubscriptions,
		Limits:              limits.DefaultConfig(),
	}
}

// Validate returns an error that names every invalid key. A broker that is not enabled is
// not validated.
func (c Config) Validate() error {
	if !c.Enabled {
		return nil
	}
	var bad faults
	bad.check(c.Listen != "" || len(c.Listeners) > 0, "listen", "must be host:port unless listeners are given")
	bad.check(c.AdminUsername != "", "admin_username", "must not be empty")
	bad.between("password_iterations", c.PasswordIterations, minPasswordIterations, maxPasswordIterations)
	bad.between("min_password_length", c.MinPasswordLength, 0, generatedLength)
	bad.check(c.AdminPassword == "" || utf8.RuneCountInString(string(c.AdminPassword)) >= c.MinPasswordLength,
		"admin_password", "must not be shorter than min_password_length")
	bad.among("durability", c.Durability, string(storage.Full), string(storage.Process))
	bad.between("max_connections", c.MaxConnections, 1, 1_000_000)
	bad.between("max_packet_size", c.MaxPacketSize, minPacketSize, maxPacketSize)
	bad.timeout("connect_timeout", c.ConnectTimeout)
	bad.timeout("write_timeout", c.WriteTimeout)
	c.validateSessions(&bad)
	bad.check(c.Cluster.Expect == "" || slices.ContainsFunc(c.Listeners, func(l listen.Config) bool { return l.AdminOnly }), "listeners",
		"must have one with admin_only, because cluster.expect is set: the broker is told through it to join")
	bad = append(bad, c.Limits.Validate("broker.limits.")...)
	bad = append(bad, listen.Validate(c.listeners())...)
	return errors.Join(bad...)
}

func (c Config) validateSessions(bad *faults) {
	bad.between("max_inflight_messages", c.MaxInflightMessages, 1, 65_535)
	bad.between("max_queued_messages", c.MaxQueuedMessages, 1, 100_000_000)
	bad.between("max_queued_bytes", c.MaxQueuedBytes, 1<<10, maxQueuedBytes)
	bad.quota("quota", c.Quota)
	bad.quota("user_quota", c.UserQuota)
	bad.among("slow_consumer", c.SlowConsumer, slowDrop, slowDisconnect)
	bad.wholeSeconds("max_keep_alive", c.MaxKeepAlive, 65_535*time.Second)
	bad.wholeSeconds("max_session_expiry", c.MaxSessionExpiry, (engine.NeverExpires-1)*time.Second)
	bad.between("max_topic_levels", c.MaxTopicLevels, 1, 65_536)
	bad.between("max_topic_length", c.MaxTopicLength, 1, 65_535)
	bad.between("max_subscriptions", c.MaxSubscriptions, 1, 10_000_000)
}

// listeners returns all listeners, broker.listen first.
func (c Config) listeners() []listen.Config {
	var all []listen.Config
	if c.Listen != "" {
		all = append(all, listen.Config{Protocol: listen.MQTT, Address: c.Listen, Key: "broker.listen"})
	}
	for i, l := range c.Listeners {
		l.Key = fmt.Sprintf("broker.listeners[%d].", i)
		all = append(all, l)
	}
	return all
}

// engineConfig returns the engine's part of the configuration.
func (b *Broker) engineConfig() engine.Config {
	c, e := b.config, engine.DefaultConfig()
	e.AnnouncePacketSize = c.MaxPacketSize != e.MaxPacketSize
	e.MaxPacketSize, e.ConnectTimeout, e.WriteTimeout = c.MaxPacketSize, c.ConnectTimeout, c.WriteTimeout
	e.MaxInflight, e.ReceiveMaximum = uint16(c.MaxInflightMessages), uint16(c.MaxInflightMessages)
	e.Unbounded = clusterUsername
	e.MaxQueuedMessages, e.MaxQueuedBytes = c.MaxQueuedMessages, int64(c.MaxQueuedBytes)
	e.Quota, e.UserQuota = c.Quota, c.UserQuota
	e.DisconnectSlow = c.SlowConsumer == slowDisconnect
	e.MaxKeepAlive = uint16(c.MaxKeepAlive / time.Second)
	if c.MaxSessionExpiry > 0 {
		e.MaxSessionExpiry = uint32(c.MaxSessionExpiry / time.Second)
	}
	e.MaxTopicLevels, e.MaxTopicLength, e.MaxSubscriptions = c.MaxTopicLevels, c.MaxTopicLength, c.MaxSubscriptions
	e.RoutesPatience = cmp.Or(c.Times.Routes, e.RoutesPatience)
	e.Now, e.TapTime, e.Log = b.timeline.Now, b.timeline.Out, b.log
	return e
}

// faults collects errors by key.
type faults []error

func (f *faults) add(key, what string) {
	*f = append(*f, fmt.Errorf("broker.%s: %s", key, what))
}

func (f *faults) check(ok bool, key, what string) {
	if !ok {
		f.add(key, what)
	}
}

func (f *faults) between(key string, n, low, high int) {
	f.check(low <= n && n <= high, key, fmt.Sprintf("must be from %d to %d", low, high))
}

func (f *faults) quota(key string, q engine.Quota) {
	const most = 1 << 50
	for _, bound := range []struct {
		key string
		n   int64
	}{
		{"sessions", q.Sessions}, {"session_bytes", q.SessionBytes}, {"subscription_bytes", q.SubscriptionBytes}, {"queued_bytes", q.QueuedBytes},
		{"retained_messages", q.RetainedMessages}, {"retained_bytes", q.RetainedBytes},
	} {
		f.check(0 <= bound.n && bound.n <= most, key+"."+bound.key, fmt.Sprintf("must be from 0, which is no bound, to %d", int64(most)))
	}
}

func (f *faults) among(key, value string, values ...string) {
	f.check(slices.Contains(values, value), key, "must be "+strings.Join(values, " or "))
}

func (f *faults) timeout(key string, d time.Duration) {
	f.check(d >= 100*time.Millisecond && d <= time.Hour, key, "must be from 100ms to 1h")
}

func (f *faults) wholeSeconds(key string, d, longest time.Duration) {
	ok := d >= 0 && d <= longest && d%time.Second == 0
	f.check(ok, key, fmt.Sprintf("must be whole seconds from 0s to %s", longest))
}
