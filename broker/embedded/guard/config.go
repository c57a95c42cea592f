package guard

import (
	"fmt"
	"time"
)

// Config is what an address may do before it has logged in. A limit of 0 is
// none. Addresses are told apart one by one for IPv4 and by their /64 network
// for IPv6, which is what one site gets.
type Config struct {
	// MaxConnections bounds open connections; the newcomer is refused.
	MaxConnections int `mapstructure:"-"`
	// MaxConnectionsPerAddress bounds those of one address; the newcomer is
	// refused.
	MaxConnectionsPerAddress int `mapstructure:"max_connections_per_address"`
	// MaxHalfOpen and MaxHalfOpenPerAddress bound connections that have not
	// sent their CONNECT. Here the oldest gives way, so that a client which
	// says at once who it is comes in however many say nothing.
	MaxHalfOpen           int `mapstructure:"max_half_open"`
	MaxHalfOpenPerAddress int `mapstructure:"max_half_open_per_address"`
	// MaxLoginBytes and MaxLoginBytesPerAddress bound the bytes of CONNECTs whose
	// clients have not logged in. The first UncountedLoginBytes of each do not
	// count.
	MaxLoginBytes           int `mapstructure:"max_login_bytes"`
	MaxLoginBytesPerAddress int `mapstructure:"max_login_bytes_per_address"`
	// ConnectRate is how many connections a second are let in for ever,
	// ConnectBurst how many at once after a rest; the newcomer is refused.
	ConnectRate  int `mapstructure:"connect_rate"`
	ConnectBurst int `mapstructure:"connect_burst"`
	// ConnectRatePerAddress and ConnectBurstPerAddress are the same for one
	// address.
	ConnectRatePerAddress  int `mapstructure:"connect_rate_per_address"`
	ConnectBurstPerAddress int `mapstructure:"connect_burst_per_address"`
	// MaxFailedLogins is how many log-ins of one address may fail within
	// FailedLoginWindow. Beyond, log-ins from there are refused unseen until
	// the share of one failure of that time has passed.
	MaxFailedLogins   int           `mapstructure:"max_failed_logins"`
	FailedLoginWindow time.Duration `mapstructure:"failed_login_window"`
	// Exempt are the addresses and networks for which no limit per address
	// holds.
	Exempt []string `mapstructure:"exempt"`
	// Flapping is when a client id is banned for connecting too often.
	Flapping FlappingConfig `mapstructure:"flapping"`
}

// FlappingConfig bans a client id that connects more than MaxConnects times
// within Window, for BanTime. MaxConnects 0 switches it off.
type FlappingConfig struct {
	MaxConnects int           `mapstructure:"max_connects"`
	Window      time.Duration `mapstructure:"window"`
	BanTime     time.Duration `mapstructure:"ban_time"`
}

// Limits of the configuration.
const (
	mostConnections = 1_000_000
	leastLoginBytes = 1 << 20 // more than the largest CONNECT
	mostLoginBytes  = 1 << 30
	mostConnects    = 1000 // their times are kept for each client id
	longestWindow   = 24 * time.Hour
	longestBan      = 365 * 24 * time.Hour
)

// DefaultConfig is what a site of some thousand clients behind one address
// does not notice. This machine's own addresses are exempt: who comes from
// there is a proxy or a colleague.
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

// Validate gives an error for every key with a bad value. Each begins with at,
// which stands before the names of the keys, and the name.
func (c Config) Validate(at string) []error {
	bad := faults{at: at}
	bad.between("max_connections_per_address", c.MaxConnectionsPerAddress, 0, mostConnections)
	bad.between("max_half_open", c.MaxHalfOpen, 0, mostConnections)
	bad.between("max_half_open_per_address", c.MaxHalfOpenPerAddress, 0, mostConnections)
	bad.loginBytes("max_login_bytes", c.MaxLoginBytes)
	bad.loginBytes("max_login_bytes_per_address", c.MaxLoginBytesPerAddress)
	bad.pace("connect_rate", c.ConnectRate, "connect_burst", c.ConnectBurst)
	bad.pace("connect_rate_per_address", c.ConnectRatePerAddress, "connect_burst_per_address", c.ConnectBurstPerAddress)
	bad.between("max_failed_logins", c.MaxFailedLogins, 0, mostConnections)
	if c.MaxFailedLogins > 0 {
		bad.lasts("failed_login_window", c.FailedLoginWindow, longestWindow)
	}
	for i, text := range c.Exempt {
		_, err := ParseNetwork(text)
		bad.check(err == nil, fmt.Sprintf("exempt[%d]", i), "must be an address or a network such as 10.0.0.0/8")
	}
	c.Flapping.validate(&bad)
	return bad.all
}

func (c FlappingConfig) validate(bad *faults) {
	bad.between("flapping.max_connects", c.MaxConnects, 0, mostConnects)
	if c.MaxConnects > 0 {
		bad.lasts("flapping.window", c.Window, longestWindow)
		bad.lasts("flapping.ban_time", c.BanTime, longestBan)
	}
}

// faults collects what is wrong, key by key.
type faults struct {
	at  string
	all []error
}

func (f *faults) check(ok bool, key, what string) {
	if !ok {
		f.all = append(f.all, fmt.Errorf("%s%s: %s", f.at, key, what))
	}
}

func (f *faults) between(key string, n, low, high int) {
	f.check(low <= n && n <= high, key, fmt.Sprintf("must be from %d to %d", low, high))
}

// loginBytes checks a bound of bytes, which has room for any one CONNECT.
func (f *faults) loginBytes(key string, n int) {
	f.check(n == 0 || leastLoginBytes <= n && n <= mostLoginBytes, key, fmt.Sprintf("must be 0 or from %d to %d", leastLoginBytes, mostLoginBytes))
}

// pace checks a rate and, where there is one, its burst.
func (f *faults) pace(rateKey string, rate int, burstKey string, burst int) {
	f.between(rateKey, rate, 0, mostConnections)
	if rate > 0 {
		f.between(burstKey, burst, 1, mostConnections)
	}
}

func (f *faults) lasts(key string, d, longest time.Duration) {
	f.check(time.Second <= d && d <= longest, key, fmt.Sprintf("must be from 1s to %s", longest))
}
