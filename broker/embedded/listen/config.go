package listen

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"signalbox/broker/embedded/limits"
)

// Config configures one listener. Files are PEM and are read again when they change.
type Config struct {
	// Protocol is mqtt, mqtts, ws, wss or unix.
	Protocol string `mapstructure:"protocol"`
	// Address is host:port or, for unix, the path of the socket.
	Address string `mapstructure:"address"`
	// MaxConnections bounds the listener's connections, in addition to the bound of all
	// listeners; 0 for none of its own.
	MaxConnections int `mapstructure:"max_connections"`
	// AdminOnly admits administrators only. Who is one is decided outside this package.
	AdminOnly bool `mapstructure:"admin_only"`

	// CertFile and KeyFile are the certificate of an mqtts or wss listener.
	CertFile string `mapstructure:"cert_file"`
	KeyFile  string `mapstructure:"key_file"`
	// CAFile holds the authorities of client certificates.
	CAFile string `mapstructure:"ca_file"`
	// RequireCertificate refuses clients without a certificate.
	RequireCertificate bool `mapstructure:"require_certificate"`
	// CertificateUsername takes the username from the client's certificate: cn from its
	// common name, san from its first e-mail address, URI or DNS name, in this order. A
	// certificate without one is refused.
	CertificateUsername string `mapstructure:"certificate_username"`

	// Path is that of the WebSocket; empty for any.
	Path string `mapstructure:"path"`
	// Origins are the origins of web pages that may open a WebSocket, in addition to the
	// listener's own; "*" is any.
	Origins []string `mapstructure:"origins"`

	// ProxyProtocol expects a PROXY header of version 1 or 2 before everything else. The
	// client address that it names is used from then on.
	ProxyProtocol bool `mapstructure:"proxy_protocol"`
	// TrustedProxies are the addresses and networks that may connect and send one; others
	// are refused. Empty for loopback addresses.
	TrustedProxies []string `mapstructure:"trusted_proxies"`

	// SocketMode is the mode of a Unix socket, in octal digits; empty for 0600.
	SocketMode string `mapstructure:"socket_mode"`

	// Key is the configuration key that errors name: one that ends in a dot is the prefix
	// of the field names; any other is the key of the address, and nothing else is
	// configured.
	Key string `mapstructure:"-"`
}

// The protocols of listeners.
const (
	MQTT  = "mqtt"
	MQTTS = "mqtts"
	WS    = "ws"
	WSS   = "wss"
	Unix  = "unix"
)

// The values of CertificateUsername.
const (
	CommonName      = "cn"
	AlternativeName = "san"
)

const (
	defaultSocketMode = 0o600
	maxSocketPath     = 107 // bytes that fit into Linux's sun_path
)

func (c Config) tls() bool { return c.Protocol == MQTTS || c.Protocol == WSS }

func (c Config) webSocket() bool { return c.Protocol == WS || c.Protocol == WSS }

// key returns the configuration key of a field.
func (c Config) key(field string) string {
	if c.Key != "" && !strings.HasSuffix(c.Key, ".") {
		return c.Key
	}
	return c.Key + field
}

// Validate returns an error for every invalid field, and for every address that is used
// twice. Each begins with the field's key.
func Validate(all []Config) []error {
	var bad faults
	seen := map[string]bool{}
	for _, c := range all {
		c.validate(&bad)
		_, port, _ := net.SplitHostPort(c.Address)
		free := port == "0" && c.Protocol != Unix
		bad.check(free || !seen[c.Address], c.key("address"), "is the address of another listener")
		seen[c.Address] = true
	}
	return bad
}

func (c Config) validate(bad *faults) {
	if !slices.Contains([]string{MQTT, MQTTS, WS, WSS, Unix}, c.Protocol) {
		bad.add(c.key("protocol"), "must be mqtt, mqtts, ws, wss or unix")
		return
	}
	c.validateAddress(bad)
	bad.check(c.MaxConnections >= 0, c.key("max_connections"), "must not be negative")
	if c.tls() {
		c.validateTLS(bad)
	} else {
		plain := c.CertFile == "" && c.KeyFile == "" && c.CAFile == "" && !c.RequireCertificate && c.CertificateUsername == ""
		bad.check(plain, c.key("protocol"), "must be mqtts or wss where certificates are configured")
	}
	c.validateWebSocket(bad)
	c.validateProxy(bad)
}

// validateAddress checks the form of the address. Port 0 is any free port.
func (c Config) validateAddress(bad *faults) {
	if c.Protocol == Unix {
		ok := c.Address != "" && len(c.Address) <= maxSocketPath && !strings.HasPrefix(c.Address, "@")
		bad.check(ok, c.key("address"), fmt.Sprintf("must be the path of a socket of at most %d bytes", maxSocketPath))
		_, err := c.socketMode()
		bad.check(err == nil, c.key("socket_mode"), "must be octal digits from 0 to 0777")
		return
	}
	_, port, err := net.SplitHostPort(c.Address)
	_, convErr := strconv.ParseUint(port, 10, 16)
	bad.check(err == nil && convErr == nil, c.key("address"), "must be host:port with a port from 0 to 65535")
	bad.check(c.SocketMode == "", c.key("socket_mode"), "is for unix only")
}

func (c Config) validateTLS(bad *faults) {
	bad.check(c.CertFile != "", c.key("cert_file"), "must name the certificate of an "+c.Protocol+" listener")
	bad.check(c.KeyFile != "", c.key("key_file"), "must name the private key of an "+c.Protocol+" listener")
	bad.check(!c.RequireCertificate || c.CAFile != "", c.key("ca_file"),
		"must name the authorities of client certificates where require_certificate is true")
	bad.check(slices.Contains([]string{"", CommonName, AlternativeName}, c.CertificateUsername),
		c.key("certificate_username"), "must be cn, san or empty")
	bad.check(c.CertificateUsername == "" || c.CAFile != "", c.key("certificate_username"),
		"needs ca_file, the authorities of client certificates")
}

func (c Config) validateWebSocket(bad *faults) {
	bad.check(c.webSocket() || len(c.Origins) == 0, c.key("origins"), "is for ws and wss only")
	bad.check(c.webSocket() || c.Path == "", c.key("path"), "is for ws and wss only")
	bad.check(c.Path == "" || strings.HasPrefix(c.Path, "/"), c.key("path"), "must begin with /")
}

func (c Config) validateProxy(bad *faults) {
	bad.check(c.ProxyProtocol || len(c.TrustedProxies) == 0, c.key("trusted_proxies"), "needs proxy_protocol")
	bad.check(c.Protocol != Unix || len(c.TrustedProxies) == 0, c.key("trusted_proxies"),
		"is not for unix: socket_mode determines who may open the socket")
	for i, text := range c.TrustedProxies {
		_, err := limits.ParseNetwork(text)
		bad.check(err == nil, c.key(fmt.Sprintf("trusted_proxies[%d]", i)), "must be an address or a network such as 10.0.0.0/8")
	}
}

// socketMode parses SocketMode.
func (c Config) socketMode() (uint32, error) {
	if c.SocketMode == "" {
		return defaultSocketMode, nil
	}
	mode, err := strconv.ParseUint(c.SocketMode, 8, 32)
	if err == nil && mode > 0o777 {
		err = strconv.ErrRange
	}
	return uint32(mode), err
}

// trusted returns the networks that may send a PROXY header.
func (c Config) trusted() []netip.Prefix {
	texts := c.TrustedProxies
	if len(texts) == 0 {
		texts = []string{"127.0.0.0/8", "::1"}
	}
	var all []netip.Prefix
	for _, text := range texts {
		if p, err := limits.ParseNetwork(text); err == nil { // validated
			all = append(all, p)
		}
	}
	return all
}

// faults collects errors by key.
type faults []error

func (f *faults) add(key, what string) { *f = append(*f, fmt.Errorf("%s: %s", key, what)) }

func (f *faults) check(ok bool, key, what string) {
	if !ok {
		f.add(key, what)
	}
}
