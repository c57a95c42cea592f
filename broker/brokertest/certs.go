package brokertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// CA is a certificate authority for one test.
type CA struct {
	PEM []byte // its own certificate

	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// KeyPair is a certificate and its private key, both PEM.
type KeyPair struct {
	Cert []byte
	Key  []byte
}

// CertOptions configures a certificate. Names are host names and IP addresses; without names it
// is a client certificate for the subject.
type CertOptions struct {
	Subject string
	Names   []string
	Expired bool
	NotYet  bool // it is valid from tomorrow on
}

// NewCA creates a certificate authority with a new key.
func NewCA(t testing.TB) *CA {
	t.Helper()
	key := newKey(t)
	tmpl := template(t, "brokertest authority")
	tmpl.IsCA = true
	tmpl.BasicConstraintsValid = true
	tmpl.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der := sign(t, tmpl, tmpl, key, key)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("parse the authority's certificate: %v", err)
	}
	return &CA{PEM: encode("CERTIFICATE", der), cert: cert, key: key}
}

// SelfSigned creates a certificate that is signed by its own key.
func SelfSigned(t testing.TB, o CertOptions) KeyPair {
	t.Helper()
	return (&CA{}).Issue(t, o)
}

// Issue issues a certificate.
func (ca *CA) Issue(t testing.TB, o CertOptions) KeyPair {
	t.Helper()
	key := newKey(t)
	tmpl := template(t, o.Subject)
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(o.Names) > 0 {
		tmpl.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, name := range o.Names {
		if ip := net.ParseIP(name); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, name)
		}
	}
	if o.Expired {
		tmpl.NotAfter = time.Now().Add(-time.Hour)
	}
	if o.NotYet {
		tmpl.NotBefore, tmpl.NotAfter = time.Now().Add(24*time.Hour), time.Now().Add(48*time.Hour)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("encode a private key: %v", err)
	}
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = tmpl, key
	}
	der := sign(t, tmpl, parent, key, signer)
	return KeyPair{Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", keyDER)}
}

// template returns a certificate that is valid from two days ago until tomorrow.
func template(t testing.TB, subject string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		t.Fatalf("draw a serial number: %v", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: subject},
		NotBefore:    time.Now().Add(-48 * time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("generate a key: %v", err)
	}
	return key
}

func sign(t testing.TB, cert, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatalf("sign a certificate: %v", err)
	}
	return der
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
