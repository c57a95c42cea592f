package embedded

import (
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker/embedded/listen"
)

func TestDefaultConfigIsValidAndClosed(t *testing.T) {
	t.Parallel()
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if c.AllowAnonymous || !strings.HasPrefix(c.Listen, "127.0.0.1:") || c.AdminPassword != "" {
		t.Errorf("open to strangers: %+v", c)
	}
}

func TestValidateNamesEveryInvalidKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"not enabled": {func(c *Config) { *c = Config{} }, nil},
		"nothing but enabled": {func(c *Config) { *c = Config{Enabled: true} }, []string{
			"admin_username", "connect_timeout", "durability", "listen", "max_connections",
			"max_inflight_messages", "max_packet_size", "max_queued_bytes", "max_queued_messages", "max_subscriptions",
			"max_topic_length", "max_topic_levels", "password_iterations", "slow_consumer", "write_timeout",
		}},
		"listeners alone": {func(c *Config) {
			c.Listen, c.Listeners = "", []listen.Config{{Protocol: "mqtt", Address: ":0"}}
		}, nil},
		"negative quotas": {func(c *Config) { c.Quota.Sessions, c.UserQuota.RetainedBytes = -1, -1 },
			[]string{"quota.sessions", "user_quota.retained_bytes"}},
		"no address":   {func(c *Config) { c.Listen = "here" }, []string{"listen"}},
		"port too big": {func(c *Config) { c.Listen = "127.0.0.1:65536" }, []string{"listen"}},
		"negative times": {func(c *Config) { c.ConnectTimeout, c.WriteTimeout = -time.Second, 0 },
			[]string{"connect_timeout", "write_timeout"}},
		"the same address twice": {func(c *Config) {
			c.Listeners = []listen.Config{{Protocol: "ws", Address: c.Listen}}
		}, []string{"listeners[0].address"}},
		"any port twice": {func(c *Config) {
			c.Listen, c.Listeners = ":0", []listen.Config{{Protocol: "ws", Address: ":0"}}
		}, nil},
		"unknown protocol": {func(c *Config) {
			c.Listeners = []listen.Config{{Protocol: "quic", Address: ":1"}}
		}, []string{"listeners[0].protocol"}},
		"TLS without certificate": {func(c *Config) {
			c.Listeners = []listen.Config{{Protocol: "mqtts", Address: ":1", RequireCertificate: true}}
		}, []string{"listeners[0].ca_file", "listeners[0].cert_file", "listeners[0].key_file"}},
		"certificate without TLS": {func(c *Config) {
			c.Listeners = []listen.Config{{Protocol: "mqtt", Address: ":1"}, {Protocol: "ws", Address: ":2", CertFile: "x"}}
		}, []string{"listeners[1].protocol"}},
		"expects a cluster without a way in": {func(c *Config) { c.Cluster.Expect = "plant" }, []string{"listeners"}},
		"expects a cluster": {func(c *Config) {
			c.Cluster.Expect, c.Listeners = "plant", []listen.Config{{Protocol: "mqtt", Address: ":1", AdminOnly: true}}
		}, nil},
		"origins without web": {func(c *Config) {
			c.Listeners = []listen.Config{{Protocol: "mqtt", Address: ":1", Origins: []string{"*"}}}
		}, []string{"listeners[0].origins"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := DefaultConfig()
			c.change(&config)
			if got := invalidKeys(config.Validate()); !slices.Equal(got, c.want) {
				t.Errorf("bad keys %q, want %q", got, c.want)
			}
		})
	}
}

// invalidKeys returns the keys that a validation names, sorted, without "broker.".
func invalidKeys(err error) (keys []string) {
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // errors.Join's own
	if !ok {
		return nil
	}
	for _, e := range joined.Unwrap() {
		key, _, _ := strings.Cut(e.Error(), ": ")
		keys = append(keys, strings.TrimPrefix(key, "broker."))
	}
	slices.Sort(keys)
	return keys
}

func TestNewNamesTheKeyOfAnInvalidCertificate(t *testing.T) {
	t.Parallel()
	files := newCertificates(t)
	for want, c := range map[string]listen.Config{
		"broker.listeners[0].cert_file, key_file:": {CertFile: "missing.pem", KeyFile: files.key},
		"broker.listeners[0].ca_file:":             {CertFile: files.cert, KeyFile: files.key, CAFile: files.key},
	} {
		c.Protocol, c.Address = "mqtts", "127.0.0.1:0"
		config := testConfig()
		config.Listeners = []listen.Config{c}
		if _, err := New(t.Context(), config, t.TempDir(), nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want one that begins with %q", err, want)
		}
	}
}
