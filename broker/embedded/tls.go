package embedded

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"signalbox/broker"
)

// secure reads a listener's certificates. Its errors name the key.
func (l *listener) secure() error {
	c := l.config
	if !c.tls() {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return fmt.Errorf("%scert_file, key_file: %w", l.key, err)
	}
	l.tls = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	l.certs = []broker.ListenerCert{describe(pair.Leaf, c.CertFile)}
	if c.CAFile == "" {
		return nil
	}
	return l.trust()
}

// trust reads the authorities of client certificates.
func (l *listener) trust() error {
	c := l.config
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return fmt.Errorf("%sca_file: %w", l.key, err)
	}
	l.tls.ClientCAs = x509.NewCertPool()
	if !l.tls.ClientCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%sca_file: %w", l.key, errors.New(c.CAFile+" holds no certificate"))
	}
	l.tls.ClientAuth = tls.VerifyClientCertIfGiven
	if c.RequireCertificate {
		l.tls.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return nil
}

// describe names a certificate by its SHA-256 fingerprint and its subject.
func describe(cert *x509.Certificate, file string) broker.ListenerCert {
	sum := sha256.Sum256(cert.Raw)
	return broker.ListenerCert{
		CertificateID: hex.EncodeToString(sum[:]),
		Name:          cert.Subject.CommonName,
		Filename:      filepath.Base(file),
	}
}
