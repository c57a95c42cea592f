package limits_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker/embedded/limits"
)

func TestDefaultConfigIsValidAndFinite(t *testing.T) {
	t.Parallel()
	c := limits.DefaultConfig()
	if errs := c.Validate(""); errs != nil {
		t.Error(errs)
	}
	for name, limit := range map[string]int{
		"MaxConnections": c.MaxConnections, "MaxConnectionsPerAddress": c.MaxConnectionsPerAddress,
		"MaxHalfOpen": c.MaxHalfOpen, "MaxHalfOpenPerAddress": c.MaxHalfOpenPerAddress, "ConnectRate": c.ConnectRate,
		"ConnectRatePerAddress": c.ConnectRatePerAddress, "MaxFailedLogins": c.MaxFailedLogins,
		"MaxLoginBytes": c.MaxLoginBytes, "MaxLoginBytesPerAddress": c.MaxLoginBytesPerAddress,
	} {
		if limit == 0 {
			t.Errorf("%s has no limit", name)
		}
	}
}

func TestValidateNamesEveryInvalidKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*limits.Config)
		want   []string
	}{
		"no limits at all": {func(c *limits.Config) { *c = limits.Config{} }, nil},
		"negative": {func(c *limits.Config) {
			c.MaxConnectionsPerAddress, c.MaxHalfOpen, c.MaxHalfOpenPerAddress, c.ConnectRate = -1, -1, -1, -1
			c.ConnectRatePerAddress, c.MaxFailedLogins, c.Flapping.MaxConnects = -1, -1, -1
			c.MaxLoginBytes, c.MaxLoginBytesPerAddress = 1<<20-1, 1<<30+1
		}, []string{
			"connect_rate", "connect_rate_per_address", "flapping.max_connects", "max_connections_per_address",
			"max_failed_logins", "max_half_open", "max_half_open_per_address",
			"max_login_bytes", "max_login_bytes_per_address",
		}},
		"rates without bursts": {func(c *limits.Config) { c.ConnectBurst, c.ConnectBurstPerAddress = 0, 0 },
			[]string{"connect_burst", "connect_burst_per_address"}},
		"no times": {func(c *limits.Config) {
			c.FailedLoginWindow, c.Flapping = 0, limits.FlappingConfig{MaxConnects: 1}
		}, []string{"failed_login_window", "flapping.ban_time", "flapping.window"}},
		"too long": {func(c *limits.Config) { c.FailedLoginWindow = 25 * time.Hour }, []string{"failed_login_window"}},
		"exempt": {func(c *limits.Config) { c.Exempt = []string{"10.0.0.1", "10.0.0.0/8", "home", "::/129"} },
			[]string{"exempt[2]", "exempt[3]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := limits.DefaultConfig()
			c.change(&config)
			var got []string
			for _, err := range config.Validate("broker.limits.") {
				key, _, _ := strings.Cut(err.Error(), ": ")
				got = append(got, strings.TrimPrefix(key, "broker.limits."))
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("bad keys %q, want %q", got, c.want)
			}
		})
	}
}
