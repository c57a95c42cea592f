package cluster

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"strings"
	"time"
)

// Certificates do not end by themselves: an appliance may wake up without knowing
// what time it is. They end with the membership, which is replicated. The latter
// date says so (RFC 5280, 4.1.2.5).
var (
	notBefore = time.Unix(0, 0).UTC()
	notAfter  = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

// scheme of the URI in a node's certificate: signalbox://<cluster's uuid>/node/3.118.
const scheme = "signalbox"

// newAuthority makes a cluster's authority. Both parts are PEM.
func newAuthority(uuid string) (cert, key []byte, err error) {
	template := template(pkix.Name{CommonName: "cluster " + uuid})
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	return certify(template, nil, nil)
}

// issue makes a certificate for a node and its key.
func issue(uuid string, r ref, caCert, caKey []byte) (cert, key []byte, err error) {
	ca, err := parseCert(caCert)
	if err != nil {
		return nil, nil, err
	}
	signer, err := parseKey(caKey)
	if err != nil {
		return nil, nil, err
	}
	template := template(pkix.Name{CommonName: fmt.Sprintf("node %v of cluster %s", r, uuid)})
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.URIs = []*url.URL{{Scheme: scheme, Host: uuid, Path: "/node/" + r.String()}}
	return certify(template, ca, signer)
}

func template(subject pkix.Name) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // rand.Reader does not fail
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: notBefore, NotAfter: notAfter}
}

// certify makes a key and has a certificate for it signed, by itself where there
// is no parent.
func certify(template, parent *x509.Certificate, signer crypto.Signer) (cert, key []byte, err error) {
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	if parent == nil {
		parent, signer = template, own
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, own.Public(), signer)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	plain, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: plain}), nil
}

var errPEM = errors.New("it is not the PEM block that is expected")

func parseCert(text []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("read a certificate: %w", errPEM)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read a certificate: %w", err)
	}
	return cert, nil
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

// badge is what a node shows to others of its cluster, and goes by when they
// show theirs.
type badge struct {
	uuid  string
	self  ref
	roots *x509.CertPool
	cert  tls.Certificate
	dial  func(ctx context.Context, hostPort string) (net.Conn, error)
}

// newBadge reads what is in PEM. It makes sure that the certificate is this
// cluster's, for this node.
func newBadge(uuid string, self ref, caCert, cert, key []byte) (*badge, error) {
	ca, err := parseCert(caCert)
	if err != nil {
		return nil, err
	}
	b := &badge{uuid: uuid, self: self, roots: x509.NewCertPool()}
	b.roots.AddCert(ca)
	if b.cert, err = tls.X509KeyPair(cert, key); err != nil {
		return nil, fmt.Errorf("read the node's certificate: %w", err)
	}
	r, err := b.check(b.cert.Leaf)
	if err != nil {
		return nil, err
	}
	if r != self {
		return nil, fmt.Errorf("the certificate is that of node %v, not %v", r, self)
	}
	return b, nil
}

var errStranger = errors.New("the certificate is not one of this cluster")

// check tells whose certificate it is, if it is of this cluster. Clocks do not
// matter.
func (b *badge) check(cert *x509.Certificate) (ref, error) {
	_, err := cert.Verify(x509.VerifyOptions{
		Roots: b.roots, CurrentTime: notBefore.Add(time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return ref{}, fmt.Errorf("%w: %w", errStranger, err)
	}
	if len(cert.URIs) != 1 || cert.URIs[0].Scheme != scheme || cert.URIs[0].Host != b.uuid {
		return ref{}, errStranger
	}
	name, ok := strings.CutPrefix(cert.URIs[0].Path, "/node/")
	if !ok {
		return ref{}, errStranger
	}
	r, ok := parseRef(name)
	if !ok {
		return ref{}, errStranger
	}
	return r, nil
}

// peer tells who is at the other end of a connection.
func (b *badge) peer(cs tls.ConnectionState) (ref, error) {
	if len(cs.PeerCertificates) == 0 {
		return ref{}, errStranger
	}
	return b.check(cs.PeerCertificates[0])
}

// The protocols of the cluster port. Each newer form has a name of its own.
const (
	protocolRaft = "raft"
	protocolRPC  = "rpc"
	protocolData = "data"
)

// server is how this node receives others of its cluster.
func (b *badge) server() *tls.Config {
	c := b.config(protocolRaft, protocolRPC, protocolData)
	c.ClientAuth = tls.RequireAnyClientCert // which VerifyConnection checks
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		_, err := b.peer(cs)
		return err
	}
	c.SessionTicketsDisabled = true
	return c
}

// client is how this node goes to another one. The usual check goes by names of
// hosts and by clocks; VerifyConnection goes by the cluster and the node.
func (b *badge) client(to ref, protocol string) *tls.Config {
	c := b.config(protocol)
	c.ServerName = b.uuid
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		r, err := b.peer(cs)
		if err != nil {
			return err
		}
		if r != to {
			return fmt.Errorf("node %v answers where node %v should", r, to)
		}
		if cs.NegotiatedProtocol != protocol {
			return fmt.Errorf("node %v does not speak %q", to, protocol)
		}
		return nil
	}
	return c
}

func (b *badge) config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{b.cert}, NextProtos: protocols,
		DynamicRecordSizingDisabled: true, // it helps who reads while it comes; here whole messages are waited for
	}
}
