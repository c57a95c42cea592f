package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

// The identity of a node lasts as long as its membership, which is in the log: its certificate
// has no expiry (RFC 5280, 4.1.2.5). The certificates of connections expire, see leaf.go.
var (
	notBefore = time.Unix(0, 0).UTC()
	notAfter  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// scheme is that of the URI in a node's certificate: signalbox://<cluster's uuid>/node/3.118.
const scheme = "signalbox"

// pin is the public key by which the cluster knows a member.
type pin struct {
	Key    string `json:"key"`              // fingerprint of the key
	Former string `json:"former,omitempty"` // fingerprint of the key before, until the member uses the new one
}

// admits reports whether the member may use a key.
func (p pin) admits(key string) bool { return key != "" && (key == p.Key || key == p.Former) }

// fingerprint returns the SHA-256 of the SubjectPublicKeyInfo of a public key, in hex.
func fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(sum[:])
}

// isFingerprint reports whether a text has the form of a fingerprint.
func isFingerprint(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == sha256.Size
}

// fingerprintOf returns the fingerprint of a key.
func fingerprintOf(key crypto.Signer) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return "", fmt.Errorf("encode a public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// certify returns a certificate of a node for a public key, signed by a key of that node.
func certify(uuid string, r memberRef, of crypto.PublicKey, signer crypto.Signer, from, until time.Time) ([]byte, error) {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // rand.Reader does not fail
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: fmt.Sprintf("node %v of cluster %s", r, uuid)},
		NotBefore: from, NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs:        []*url.URL{{Scheme: scheme, Host: uuid, Path: "/node/" + r.String()}},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, of, signer)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return der, nil
}

func encodeKey(key crypto.Signer) ([]byte, error) {
	plain, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: plain}), nil
}

func encodeCerts(ders ...[]byte) (text []byte) {
	for _, der := range ders {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return text
}

var errPEM = errors.New("it is not the PEM block that is expected")

// parseCerts reads one certificate or more.
func parseCerts(text []byte) (all []*x509.Certificate, err error) {
	for len(text) > 0 {
		block, rest := pem.Decode(text)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("read a certificate: %w", errPEM)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read a certificate: %w", err)
		}
		all, text = append(all, cert), rest
	}
	if len(all) == 0 || len(all) > maxChain {
		return nil, fmt.Errorf("read a certificate: %w", errPEM)
	}
	return all, nil
}

func parseKey(text []byte) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("read a key: %w", errPEM)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("read a key: %T cannot sign", key)
	}
	return signer, nil
}
