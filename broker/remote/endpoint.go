package remote

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"signalbox/broker"
)

// scheme says how a URL's scheme is carried: the port where the URL names none,
// and the layers between TCP and MQTT.
type scheme struct {
	port   string
	secure bool // with TLS
	ws     bool
}

var schemes = map[string]scheme{
	"mqtt":  {port: "1883"},
	"tcp":   {port: "1883"},
	"mqtts": {port: "8883", secure: true},
	"ssl":   {port: "8883", secure: true},
	"ws":    {port: "80", ws: true},
	"wss":   {port: "443", secure: true, ws: true},
}

// endpoint is where and how a broker is reached. It holds no credentials but
// the client certificate.
type endpoint struct {
	scheme
	host  string      // without port and brackets
	addr  string      // host:port
	wsURL string      // the URL of the WebSocket handshake
	tls   *tls.Config // nil without TLS
}

// parseTarget checks everything of a target that can be checked without
// connecting. Its errors name the member that is wrong.
func parseTarget(t broker.Target) (endpoint, error) {
	ep, err := parseURL(t.URL)
	if err != nil {
		return endpoint{}, fmt.Errorf("url: %w", err)
	}
	if err := checkCredentials(t); err != nil {
		return endpoint{}, err
	}
	config, err := tlsConfig(t.TLS, ep.host)
	if err != nil {
		return endpoint{}, err
	}
	if ep.secure {
		ep.tls = config
	}
	return ep, nil
}

// parseURL takes scheme://host[:port] apart, and a path for WebSockets.
// Credentials in it are refused: a URL is shown in lists.
func parseURL(raw string) (endpoint, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return endpoint{}, errors.New("is not a URL: it must look like mqtt://host:1883")
	}
	s, ok := schemes[u.Scheme]
	switch {
	case !ok:
		return endpoint{}, errors.New("must begin with mqtt://, mqtts://, tcp://, ssl://, ws:// or wss://")
	case u.Hostname() == "":
		return endpoint{}, errors.New("has no host")
	case u.User != nil:
		return endpoint{}, errors.New("must not hold credentials: username and password have members of their own")
	case u.Fragment != "":
		return endpoint{}, errors.New("must not have a fragment")
	case !s.ws && (u.RawQuery != "" || u.Path != "" && u.Path != "/"):
		return endpoint{}, errors.New("must end after host and port: only ws:// and wss:// have a path")
	}
	port := u.Port()
	if port == "" {
		port = s.port
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return endpoint{}, errors.New("the port must be a number from 1 to 65535")
	}
	ep := endpoint{scheme: s, host: u.Hostname(), addr: net.JoinHostPort(u.Hostname(), port)}
	if s.ws {
		ep.wsURL = webSocketURL(u, ep.addr)
	}
	return ep, nil
}

func webSocketURL(u *url.URL, addr string) string {
	w := *u
	w.Host = addr
	if w.Path == "" {
		w.Path = "/"
	}
	return w.String()
}

// maxField is the length of the longest string that MQTT can carry, in bytes
// [MQTT-1.5.3].
const maxField = 65535

// checkCredentials refuses what CONNECT cannot carry [MQTT-3.1.2-22].
func checkCredentials(t broker.Target) error {
	switch {
	case t.Username == "" && t.Password != "":
		return errors.New("password: cannot be used without a username")
	case len(t.Username) > maxField:
		return fmt.Errorf("username: is longer than %d bytes", maxField)
	case len(t.Password) > maxField:
		return fmt.Errorf("password: is longer than %d bytes", maxField)
	}
	return nil
}

// tlsConfig reads certificates and key. Without a CA the authorities of the
// system count.
func tlsConfig(t broker.TLS, host string) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         host,
		InsecureSkipVerify: !t.Verify, //nolint:gosec // the operator asked for it
	}
	if t.CACert != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CACert)) {
			return nil, errors.New("ca_cert: holds no PEM certificate")
		}
	}
	cert, err := clientCertificate(t)
	if err != nil {
		return nil, err
	}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	return config, nil
}

// clientCertificate gives nil where none is configured.
func clientCertificate(t broker.TLS) (*tls.Certificate, error) {
	switch {
	case t.ClientCert == "" && t.ClientKey == "":
		return nil, nil
	case t.ClientKey == "":
		return nil, errors.New("client_key: is missing beside client_cert")
	case t.ClientCert == "":
		return nil, errors.New("client_cert: is missing beside client_key")
	case isEncrypted([]byte(t.ClientKey)):
		return nil, errors.New("client_key: is encrypted; give the key without a pass phrase")
	}
	cert, err := tls.X509KeyPair([]byte(t.ClientCert), []byte(t.ClientKey))
	if err != nil {
		return nil, fmt.Errorf("client_cert and client_key: are not a certificate and its private key in PEM: %w", err)
	}
	return &cert, nil
}

// isEncrypted tells whether the first private key in the PEM text is protected
// by a pass phrase, in the old form or in that of PKCS #8.
func isEncrypted(text []byte) bool {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "" {
			return true
		}
		if slices.Contains([]string{"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"}, block.Type) {
			return false
		}
	}
	return false
}
