package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/broker/mqtt/dial"
)

// endpoint validates a target without connecting, and removes from it what is not used. Its errors name
// the invalid member.
func (d *Dialer) endpoint(t *broker.Target) (dial.Endpoint, error) {
	if t.Membership == "" {
		ep, err := parseTarget(*t)
		ep.Dial = d.Outbound.DialContext
		return ep, err
	}
	if d.DialNode == nil {
		return dial.Endpoint{}, errors.New("the broker is that of another node of a cluster, and this service is not part of one")
	}
	t.Username, t.Password = "", ""
	membership, name := t.Membership, nodeName(t.Membership)
	return dial.Endpoint{Host: name, Addr: name, Node: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialNode(ctx, membership)
	}}, nil
}

// nodeName returns the name of a node in messages.
func nodeName(membership string) string {
	_, node, _ := strings.Cut(membership, "/")
	number, _, _ := strings.Cut(node, ".")
	return "node " + number + " of the cluster"
}

// parseTarget validates a target without connecting. Its errors name the invalid member.
func parseTarget(t broker.Target) (dial.Endpoint, error) {
	ep, err := dial.Parse(t.URL)
	if err != nil {
		return dial.Endpoint{}, fmt.Errorf("url: %w", err)
	}
	if err := checkCredentials(t); err != nil {
		return dial.Endpoint{}, err
	}
	config, err := tlsConfig(t.TLS, ep.Host)
	if err != nil {
		return dial.Endpoint{}, err
	}
	ep.SetTLS(config)
	ep.Settings = dial.SettingNames{CA: "ca_cert", Certificate: "client_cert", Key: "client_key", Fingerprint: "server_fingerprint"}
	ep.Pin, err = pinned(t.TLS, ep)
	return ep, err
}

// pinned returns the fingerprint of the only certificate to be accepted, nil for none. Without
// TLS there is nothing to compare it with, so it must not seem to protect the connection.
func pinned(t broker.TLS, ep dial.Endpoint) (*broker.Fingerprint, error) {
	switch {
	case t.Fingerprint == "":
		return nil, nil
	case !ep.UsesTLS():
		return nil, errors.New("server_fingerprint: can be used with mqtts://, ssl:// and wss:// only")
	}
	f, err := broker.ParseFingerprint(t.Fingerprint)
	if err != nil {
		return nil, fmt.Errorf("server_fingerprint: %w", err)
	}
	return &f, nil
}

// maxField is the maximum length of a string in MQTT, in bytes [MQTT-1.5.3].
const maxField = 65535

// checkCredentials rejects what CONNECT cannot contain [MQTT-3.1.2-22].
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

// tlsConfig decodes certificates and key. Without a CA the system's are used.
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

// clientCertificate returns nil if none is configured.
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

// isEncrypted reports whether the first private key in PEM text is encrypted, in the old
// format or PKCS #8.
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
