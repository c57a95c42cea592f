package router

import (
	"errors"
	"fmt"
	"net"
	"time"

	"signalbox/broker"
)

// Config is the configuration of the HTTP server; its keys are under "http.".
type Config struct {
	Listen       string        `mapstructure:"listen"`
	TLS          TLSConfig     `mapstructure:"tls"`
	ReadTimeout  time.Duration `mapstructure:"read_timeout"`
	WriteTimeout time.Duration `mapstructure:"write_timeout"`
	IdleTimeout  time.Duration `mapstructure:"idle_timeout"`
	// MaxConnections and MaxConnectionsPerAddress bound open connections; 0 is
	// unbounded. Trusted proxies are exempt from the latter.
	MaxConnections           int           `mapstructure:"max_connections"`
	MaxConnectionsPerAddress int           `mapstructure:"max_connections_per_address"`
	TrustedProxies           []string      `mapstructure:"trusted_proxies"`
	MetricsToken             broker.Secret `mapstructure:"metrics_token"`
	// SlowRequest is the time from which on a request is logged as slow; 0 is never. It is
	// configured with the log.
	SlowRequest time.Duration `mapstructure:"-"`
}

// TLSConfig names the PEM files of the certificate and its key. Both empty means plain
// HTTP. The files are read again when they change.
type TLSConfig struct {
	CertFile string `mapstructure:"cert_file"`
	KeyFile  string `mapstructure:"key_file"`
}

// DefaultConfig returns the configuration of an empty file: loopback, no TLS.
func DefaultConfig() Config {
	return Config{
		Listen:                   "127.0.0.1:8080",
		ReadTimeout:              time.Minute,
		WriteTimeout:             time.Minute,
		IdleTimeout:              2 * time.Minute,
		MaxConnections:           1024,
		MaxConnectionsPerAddress: 256,
		TrustedProxies:           []string{},
	}
}

// mostConnections bounds the configured bounds.
const mostConnections = 1_000_000

// Validate names every invalid key, each in a sentence of its own.
func (c Config) Validate() error {
	var errs []error
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		errs = append(errs, fmt.Errorf("http.listen: %q is not host:port", c.Listen))
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		errs = append(errs, errors.New("http.tls: cert_file and key_file go together"))
	}
	for _, t := range []struct {
		key   string
		value time.Duration
	}{{"read_timeout", c.ReadTimeout}, {"write_timeout", c.WriteTimeout}, {"idle_timeout", c.IdleTimeout}} {
		if t.value <= 0 {
			errs = append(errs, fmt.Errorf("http.%s: must be positive", t.key))
		}
	}
	for _, n := range []struct {
		key   string
		value int
	}{{"max_connections", c.MaxConnections}, {"max_connections_per_address", c.MaxConnectionsPerAddress}} {
		if n.value < 0 || n.value > mostConnections {
			errs = append(errs, fmt.Errorf("http.%s: must be from 0 to %d", n.key, mostConnections))
		}
	}
	if _, err := parseProxies(c.TrustedProxies); err != nil {
		errs = append(errs, fmt.Errorf("http.trusted_proxies: %w", err))
	}
	return errors.Join(errs...)
}
