package limits

import (
	"fmt"
	"time"
)

// Config is what an address may do before it has logged in. A limit of 0 is none. Limits
// per address count single addresses for IPv4 and /64 networks for IPv6, which is what one
// site is assigned.
type Config struct {
	// MaxConnections bounds open connections; the newest is refused.
	MaxConnections int `mapstructure:"-"`
	// MaxConnectionsPerAddress bounds those of one address; the newest is refused.
	MaxConnectionsPerAddress int `mapstructure:"max_connections_per_address"`
	// MaxHalfOpen and MaxHalfOpenPerAddress bound connections that have not sent their
	// CONNECT. Here the oldest is evicted, so that a client that sends CONNECT at once is
	// admitted however many idle connections there are.
	MaxHalfOpen           int `mapstructure:"max_half_open"`
	MaxHalfOpenPerAddress int `mapstructure:"max_half_open_per_address"`
	// MaxLoginBytes and MaxLoginBytesPerAddress bound the bytes of CONNECTs whose clients
	// have not logged in. The first UncountedLoginBytes of each do not count.
	MaxLoginBytes           int `mapstructure:"max_login_bytes"`
	MaxLoginBytesPerAddress int `mapstructure:"max_login_bytes_per_address"`
	// ConnectRate is how many connections per second are admitted in the long run,
	// ConnectBurst how many at once after an idle time; the newest is refused.
	ConnectRate  int `mapstructure:"connect_rate"`
	ConnectBurst int `mapstructure:"connect_burst"`
	// ConnectRatePerAddress and ConnectBurstPerAddress are the same for one address.
	ConnectRatePerAddress  int `mapstructure:"connect_rate_per_address"`
	ConnectBurstPerAddress int `mapstructure:"connect_burst_per_address"`
	// MaxFailedLogins is how many log-ins of one address may fail within FailedLoginWindow.
	// Beyond, log-ins from that address are refused without being checked, until the
	// window's share of one failure has passed.
	MaxFailedLogins   int           `mapstructure:"max_failed_logins"`
	FailedLoginWindow time.Duration `mapstructure:"failed_login_window"`
	// Exempt are the addresses and networks to which no limit per address applies.
	Exempt []string `mapstructure:"exempt"`
	// Flapping bans client ids that connect too often.
	Flapping FlappingConfig `mapstructure:"flapping"`
}

// FlappingConfig bans a client id that connects more than MaxConnects times within Window,
// for BanTime. MaxConnects 0 disables it.
type FlappingConfig struct {
	MaxConnects int           `mapstructure:"max_connects"`
	Window      time.Duration `mapstructure:"window"`
	BanTime     time.Duration `mapstructure:"ban_time"`
}

// Bounds of the configured values.
const (
	maxCount      = 1_000_000
	minLoginBytes = 1 << 20 // more than the largest CONNECT
	maxLoginBytes = 1 << 30
	maxConnects   = 1000 // a client's connect times are kept
	maxWindow     = 24 * time.Hour
	maxBanTime    = 365 * 24 * time.Hour
)

// DefaultConfig does not restrict a site of some thousand clients behind one address. Local
// addresses are exempt: their connections come from a proxy or an operator.
func DefaultConfig() Config {
	return Config{
		MaxConnections:           20_000,
		MaxConnectionsPerAddress: 5000,
		MaxHalfOpen:              2000,
		MaxHalfOpenPerAddress:    500,
		MaxLoginBytes:            64 << 20,
		MaxLoginBytesPerAddress:  16 << 20,
		ConnectRate:              10_000,
		ConnectBurst:             20_000,
		ConnectRatePerAddress:    500,
		ConnectBurstPerAddress:   5000,
		MaxFailedLogins:          60,
		FailedLoginWindow:        time.Minute,
		Exempt:                   []string{"127.0.0.0/8", "::1"},
		Flapping:                 FlappingConfig{Window: time.Minute, BanTime: 5 * time.Minute},
	}
}

// Validate returns an error for every key with an invalid value. Each begins with at, the
// prefix of the key's name, and the name.
func (c Config) Validate(prefix string) []error {
	v := validation{prefix: prefix}
	v.between("max_connections_per_address", c.MaxConnectionsPerAddress, 0, maxCount)
	v.between("max_half_open", c.MaxHalfOpen, 0, maxCount)
	v.between("max_half_open_per_address", c.MaxHalfOpenPerAddress, 0, maxCount)
	v.loginBytes("max_login_bytes", c.MaxLoginBytes)
	v.loginBytes("max_login_bytes_per_address", c.MaxLoginBytesPerAddress)
	v.rate("connect_rate", c.ConnectRate, "connect_burst", c.ConnectBurst)
	v.rate("connect_rate_per_address", c.ConnectRatePerAddress, "connect_burst_per_address", c.ConnectBurstPerAddress)
	v.between("max_failed_logins", c.MaxFailedLogins, 0, maxCount)
	if c.MaxFailedLogins > 0 {
		v.duration("failed_login_window", c.FailedLoginWindow, maxWindow)
	}
	for i, text := range c.Exempt {
		_, err := ParseNetwork(text)
		v.check(err == nil, fmt.Sprintf("exempt[%d]", i), "must be an address or a network such as 10.0.0.0/8")
	}
	c.Flapping.validate(&v)
	return v.errs
}

func (c FlappingConfig) validate(v *validation) {
	v.between("flapping.max_connects", c.MaxConnects, 0, maxConnects)
	if c.MaxConnects > 0 {
		v.duration("flapping.window", c.Window, maxWindow)
		v.duration("flapping.ban_time", c.BanTime, maxBanTime)
	}
}

// validation collects errors by key.
type validation struct {
	prefix string
	errs   []error
}

func (v *validation) check(ok bool, key, what string) {
	if !ok {
		v.errs = append(v.errs, fmt.Errorf("%s%s: %s", v.prefix, key, what))
	}
}

func (v *validation) between(key string, n, low, high int) {
	v.check(low <= n && n <= high, key, fmt.Sprintf("must be from %d to %d", low, high))
}

// loginBytes checks a bound on bytes, which must admit any single CONNECT.
func (v *validation) loginBytes(key string, n int) {
	v.check(n == 0 || minLoginBytes <= n && n <= maxLoginBytes, key, fmt.Sprintf("must be 0 or from %d to %d", minLoginBytes, maxLoginBytes))
}

// rate checks a rate and, where it limits, its burst.
func (v *validation) rate(rateKey string, rate int, burstKey string, burst int) {
	v.between(rateKey, rate, 0, maxCount)
	if rate > 0 {
		v.between(burstKey, burst, 1, maxCount)
	}
}

func (v *validation) duration(key string, d, limit time.Duration) {
	v.check(time.Second <= d && d <= limit, key, fmt.Sprintf("must be from 1s to %s", limit))
}
