package embedded

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/access"
)

// Config is how the embedded broker runs. The keys are those below "broker" in
// the configuration file.
type Config struct {
	// Enabled starts the broker with the process.
	Enabled bool `mapstructure:"enabled"`
	// Listen is host:port of a plain MQTT listener; empty for none.
	Listen string `mapstructure:"listen"`
	// Listeners are further listeners, with TLS or WebSocket.
	Listeners []ListenerConfig `mapstructure:"listeners"`
	// AdminUsername and AdminPassword are those of the client with full rights
	// that the first start creates. Without a password one is generated.
	AdminUsername string        `mapstructure:"admin_username"`
	AdminPassword broker.Secret `mapstructure:"admin_password"`
	// AllowAnonymous lets in clients that give no username. Their rights are
	// those of the anonymous group.
	AllowAnonymous bool `mapstructure:"allow_anonymous"`
	// PasswordIterations is the PBKDF2-SHA512 cost of new password hashes.
	PasswordIterations int `mapstructure:"password_iterations"`
	// MaxConnections bounds open connections; those beyond are closed at once.
	MaxConnections int `mapstructure:"max_connections"`
	// MaxPacketSize is the largest MQTT packet taken from a client, in bytes.
	MaxPacketSize int `mapstructure:"max_packet_size"`
	// ConnectTimeout is how long a new connection has to say who it is.
	ConnectTimeout time.Duration `mapstructure:"connect_timeout"`
	// WriteTimeout is how long a client that does not read is waited for
	// before its connection is closed.
	WriteTimeout time.Duration `mapstructure:"write_timeout"`
	// Version is shown in $SYS/broker/version.
	Version string `mapstructure:"-"`
	// KeepPassword, if set, is called with a generated admin password before
	// the admin client is stored; its error ends the start.
	KeepPassword func(broker.Secret) error `mapstructure:"-"`
}

// ListenerConfig is one place where clients are accepted. Protocol is mqtt,
// mqtts, ws or wss; the files are PEM. CAFile holds the authorities of client
// certificates. AdminOnly lets in nobody but clients that may publish to
// $CONTROL/dynamic-security/v1. Origins are the web pages' origins that may use
// a WebSocket listener beside its own; "*" stands for any.
type ListenerConfig struct {
	Protocol           string   `mapstructure:"protocol"`
	Address            string   `mapstructure:"address"`
	CertFile           string   `mapstructure:"cert_file"`
	KeyFile            string   `mapstructure:"key_file"`
	CAFile             string   `mapstructure:"ca_file"`
	RequireCertificate bool     `mapstructure:"require_certificate"`
	AdminOnly          bool     `mapstructure:"admin_only"`
	Origins            []string `mapstructure:"origins"`
}

// The protocols of listeners.
const (
	protocolMQTT  = "mqtt"
	protocolMQTTS = "mqtts"
	protocolWS    = "ws"
	protocolWSS   = "wss"
)

func (c ListenerConfig) tls() bool {
	return c.Protocol == protocolMQTTS || c.Protocol == protocolWSS
}

func (c ListenerConfig) webSocket() bool {
	return c.Protocol == protocolWS || c.Protocol == protocolWSS
}

// Limits of the configuration.
const (
	minPasswordIterations = 100
	maxPasswordIterations = 10_000_000
	minPacketSize         = 1 << 10
	maxPacketSize         = 268_435_455 // the most that MQTT can express [MQTT-2.1.4]
)

// DefaultConfig is closed to the outside: loopback only, nobody anonymous.
func DefaultConfig() Config {
	return Config{
		Enabled:            true,
		Listen:             "127.0.0.1:1883",
		Listeners:          []ListenerConfig{},
		AdminUsername:      "admin",
		PasswordIterations: access.DefaultPasswordIterations,
		MaxConnections:     20_000,
		MaxPacketSize:      2 << 20,
		ConnectTimeout:     10 * time.Second,
		WriteTimeout:       10 * time.Second,
	}
}

// Validate names every key with a bad value. A broker that is not enabled is
// not looked at.
func (c Config) Validate() error {
	if !c.Enabled {
		return nil
	}
	var bad faults
	bad.check(c.Listen != "" || len(c.Listeners) > 0, "listen", "must be host:port unless listeners are given")
	bad.check(c.AdminUsername != "", "admin_username", "must not be empty")
	bad.between("password_iterations", c.PasswordIterations, minPasswordIterations, maxPasswordIterations)
	bad.between("max_connections", c.MaxConnections, 1, 1_000_000)
	bad.between("max_packet_size", c.MaxPacketSize, minPacketSize, maxPacketSize)
	bad.timeout("connect_timeout", c.ConnectTimeout)
	bad.timeout("write_timeout", c.WriteTimeout)
	for i, l := range c.Listeners {
		l.validate(&bad, fmt.Sprintf("listeners[%d].", i))
	}
	c.validateAddresses(&bad)
	return errors.Join(bad...)
}

func (c ListenerConfig) validate(bad *faults, at string) {
	protocols := []string{protocolMQTT, protocolMQTTS, protocolWS, protocolWSS}
	if !slices.Contains(protocols, c.Protocol) {
		bad.add(at+"protocol", "must be mqtt, mqtts, ws or wss")
		return
	}
	if c.tls() {
		bad.check(c.CertFile != "", at+"cert_file", "must name the certificate of an "+c.Protocol+" listener")
		bad.check(c.KeyFile != "", at+"key_file", "must name the private key of an "+c.Protocol+" listener")
		bad.check(!c.RequireCertificate || c.CAFile != "", at+"ca_file",
			"must name the authorities of client certificates where require_certificate is true")
	} else {
		plain := c.CertFile == "" && c.KeyFile == "" && c.CAFile == "" && !c.RequireCertificate
		bad.check(plain, at+"protocol", "must be mqtts or wss where certificates are configured")
	}
	bad.check(c.webSocket() || len(c.Origins) == 0, at+"origins", "is for ws and wss only")
}

// validateAddresses checks the form of all addresses and that none is there
// twice. Port 0 stands for any free port.
func (c Config) validateAddresses(bad *faults) {
	seen := map[string]bool{}
	check := func(key, address string) {
		_, port, err := net.SplitHostPort(address)
		n, convErr := strconv.ParseUint(port, 10, 16)
		switch {
		case err != nil || convErr != nil:
			bad.add(key, "must be host:port with a port from 0 to 65535")
		case n != 0 && seen[address]:
			bad.add(key, "is the address of another listener")
		}
		seen[address] = true
	}
	if c.Listen != "" {
		check("listen", c.Listen)
	}
	for i, l := range c.Listeners {
		check(fmt.Sprintf("listeners[%d].address", i), l.Address)
	}
}

// faults collects what is wrong, key by key.
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

func (f *faults) timeout(key string, d time.Duration) {
	f.check(d >= 100*time.Millisecond && d <= time.Hour, key, "must be from 100ms to 1h")
}
