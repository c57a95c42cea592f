package listen

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"unicode/utf8"
)

var errNobody = errors.New("the certificate names nobody")

// identityOf gives the username that a connection's certificate stands for, ""
// where there is no certificate or it does not stand for one. A certificate
// that should and names nobody, or something that cannot be a username
// [MQTT-1.5.4], is an error.
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
		return "", errNobody
	}
	return identity, nil
}

func commonName(c *x509.Certificate) string { return c.Subject.CommonName }

// alternativeName is the first of the kind that comes first.
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
