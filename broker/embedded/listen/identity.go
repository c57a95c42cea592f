package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"unicode/utf8"
)

var errNoName = errors.New("the certificate contains no username")

// identityOf returns the username that a connection's certificate stands for, "" if there
// is no certificate or certificates do not name users. A certificate without a name, or
// with one that is not a valid username [MQTT-1.5.4], is an error.
func identityOf(certificateUsername string, s tls.ConnectionState) (string, error) {
	if certificateUsername == "" || len(s.VerifiedChains) == 0 {
		return "", nil
	}
	name := commonName
	if certificateUsername == AlternativeName {
		name = alternativeName
	}
	identity := name(s.PeerCertificates[0])
	if identity == "" || !utf8.ValidString(identity) || strings.ContainsRune(identity, 0) {
		return "", errNoName
	}
	return identity, nil
}

func commonName(c *x509.Certificate) string { return c.Subject.CommonName }

// alternativeName returns the first name of the first kind that the certificate has.
func alternativeName(c *x509.Certificate) string {
	switch {
	case len(c.EmailAddresses) > 0:
		return c.EmailAddresses[0]
	case len(c.URIs) > 0:
		return c.URIs[0].String()
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	}
	return ""
}
