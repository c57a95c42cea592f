package cluster

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// maxChain bounds the certificates that a node shows.
const maxChain = 6

// credentials are the certificates that a node presents to the nodes of its cluster, and what
// it needs to verify theirs.
type credentials struct {
	uuid  string
	self  memberRef
	own   atomic.Pointer[ownKey]
	leaf  atomic.Pointer[leaf]
	roots *x509.CertPool // of a cluster that an earlier release created; nil for none
	life  time.Duration  // of the certificates of connections
	clock *clock
	dial  func(ctx context.Context, hostPort string) (net.Conn, error)

	known           func() *state           // the state of the cluster, as far as it is known here
	reportedMember  func(p *presented) bool // whether other members have reported a node that is not known here as a member; nil for no others
	askAbout        func(p *presented) bool // asks the other members; nil for no others
	reportedRemoved func(r memberRef) bool  // whether other members have reported that a node was removed; nil for no others
}

// ownKey is a node's own key. The chain is its certificate and, if the key has replaced
// others, the certificates of those.
type ownKey struct {
	key   crypto.Signer
	chain [][]byte
}

// credentials returns the credentials of an identity, which verify by the state that the
// identity has.
func (i *identity) credentials() (*credentials, error) {
	b := &credentials{uuid: i.UUID, self: i.Self.ref(), life: certificateLife, clock: newClock(time.Now, time.Time{})}
	b.known = func() *state { return i.state() }
	key, err := parseKey(i.Key)
	if err != nil {
		return nil, err
	}
	certs, err := parseCerts(i.Cert)
	if err != nil {
		return nil, err
	}
	if own, err := fingerprintOf(key); err != nil || own != fingerprint(certs[0]) {
		return nil, errors.Join(errors.New("the node's certificate is not that of its key"), err)
	}
	if len(i.CACert) > 0 {
		roots, err := parseCerts(i.CACert)
		if err != nil {
			return nil, err
		}
		b.roots = x509.NewCertPool()
		b.roots.AddCert(roots[0])
	}
	o := &ownKey{key: key}
	for _, c := range certs {
		o.chain = append(o.chain, c.Raw)
	}
	b.own.Store(o)
	r, err := b.nameOf(certs[0])
	if err != nil {
		return nil, err
	}
	if r != b.self {
		return nil, fmt.Errorf("the certificate is that of node %v, not %v", r, b.self)
	}
	return b, nil
}

// presented is the node at the other end of a connection, by the certificates that it
// presented: it has one of the keys.
type presented struct {
	memberRef
	name string   // of ref
	keys []string // fingerprints, the latest first
	leaf *x509.Certificate
	root *x509.Certificate // the last of its certificates
	ends time.Time         // when the first of its certificates ends

	certified       atomic.Bool               // by the authority of a cluster that an earlier release created
	admitted        atomic.Bool               // it was a member, or a removed one, with one of the keys
	notifiesRemoval atomic.Bool               // this node has opened the connection, to notify the other that it was removed
	replaced        atomic.Pointer[time.Time] // when it was noticed that the node has another key
}

var errNotMember = errors.New("it is not known to be a member of this cluster")

// nameOf returns the node of a certificate, if that is of this cluster.
func (b *credentials) nameOf(cert *x509.Certificate) (memberRef, error) {
	if len(cert.URIs) != 1 || cert.URIs[0].Scheme != scheme || cert.URIs[0].Host != b.uuid {
		return memberRef{}, fmt.Errorf("%w: its certificate does not name a node of it", errNotMember)
	}
	name, ok := strings.CutPrefix(cert.URIs[0].Path, "/node/")
	if !ok {
		return memberRef{}, fmt.Errorf("%w: its certificate does not name a node of it", errNotMember)
	}
	r, ok := parseMemberRef(name)
	if !ok {
		return memberRef{}, fmt.Errorf("%w: its certificate does not name a node of it", errNotMember)
	}
	return r, nil
}

// read verifies the certificates of the other end of a connection: one for the connection and
// those of the node's keys, each signed by the next one; or only one of the node's key. It does
// not check whether the node is a member.
func (b *credentials) read(cs tls.ConnectionState) (*presented, error) {
	certs := cs.PeerCertificates
	if len(certs) == 0 || len(certs) > maxChain {
		return nil, fmt.Errorf("%w: it shows %d certificates", errNotMember, len(certs))
	}
	r, err := b.nameOf(certs[0])
	if err != nil {
		return nil, err
	}
	p := &presented{memberRef: r, name: r.String(), leaf: certs[0], root: certs[len(certs)-1], ends: certs[0].NotAfter}
	if len(certs) == 1 {
		p.keys = []string{fingerprint(certs[0])}
	}
	for i, c := range certs[1:] {
		other, err := b.nameOf(c)
		if err == nil {
			err = c.CheckSignature(certs[i].SignatureAlgorithm, certs[i].RawTBSCertificate, certs[i].Signature)
		}
		if err != nil || other != r {
			return nil, fmt.Errorf("%w: its certificates do not belong together: %w", errNotMember, err)
		}
		if c.NotAfter.Before(p.ends) { // a key of connections must not sign certificates that end later
			p.ends = c.NotAfter
		}
		p.keys = append(p.keys, fingerprint(c))
	}
	return p, nil
}

// isMember checks that a node is a member now and has one of its member's keys.
func (b *credentials) isMember(p *presented) error {
	if p.notifiesRemoval.Load() {
		return nil
	}
	known := b.known()
	if known.Keys == nil {
		return b.isCertified(p)
	}
	if b.reportedRemoved != nil && b.reportedRemoved(p.memberRef) {
		return fmt.Errorf("%w: node %s was removed, according to other members", errNotMember, p.name)
	}
	switch {
	case known.trusts(p) || b.reportedMember != nil && b.reportedMember(p):
		p.admitted.Store(true)
	case !known.has(p.memberRef) || !p.isReplaced():
		return fmt.Errorf("%w: node %s", errNotMember, p.name)
	}
	return b.checkTime(p)
}

// replaceTime is how long a connection may continue after its node's key was replaced, so that
// pending requests can complete.
const replaceTime = 10 * time.Second

// isReplaced reports whether a member was admitted with a key that was replaced less than
// replaceTime ago.
func (p *presented) isReplaced() bool {
	if !p.admitted.Load() {
		return false
	}
	now := time.Now()
	p.replaced.CompareAndSwap(nil, &now)
	return now.Sub(*p.replaced.Load()) < replaceTime
}

// isCertified checks that a node has a certificate of the authority of a cluster that an
// earlier release created, and may be a member.
func (b *credentials) isCertified(p *presented) error {
	if p.certified.Load() {
		return nil
	}
	if b.roots == nil {
		return fmt.Errorf("%w: node %s", errNotMember, p.name)
	}
	_, err := p.root.Verify(x509.VerifyOptions{
		Roots: b.roots, CurrentTime: notBefore.Add(time.Second), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errNotMember, err)
	}
	p.certified.Store(true)
	return nil
}

// admit checks whether the node at the other end of a new connection is a member.
func (b *credentials) admit(cs tls.ConnectionState) (*presented, error) {
	p, err := b.read(cs)
	if err != nil {
		return nil, err
	}
	if err = b.isMember(p); err != nil && b.askAbout != nil && b.askAbout(p) {
		err = b.isMember(p)
	}
	if err != nil {
		return p, err
	}
	if len(p.keys) > 0 && p.leaf != p.root {
		b.clock.observe(p.leaf.NotBefore)
	}
	return p, nil
}

// accepted returns the node at the other end of a connection whose handshake has succeeded.
func (b *credentials) accepted(cs tls.ConnectionState) (*presented, error) {
	p, err := b.read(cs)
	if err == nil {
		p.admitted.Store(true) // even if its key was replaced since
	}
	return p, err
}

// The protocols of the cluster port (ALPN). Each new version gets a new name.
const (
	protocolRaft = "raft"
	protocolRPC  = "rpc"
	protocolData = "data"
	protocolMQTT = "mqtt"
	protocolHTTP = "http"
)

// server returns the TLS configuration for inbound connections. A removed member is accepted,
// so that it can be notified of its removal.
func (b *credentials) server() *tls.Config {
	c := b.config(protocolRaft, protocolRPC, protocolData, protocolMQTT, protocolHTTP)
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return b.show() }
	c.ClientAuth = tls.RequireAnyClientCert // VerifyConnection checks it
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		p, err := b.admit(cs)
		if err != nil && p != nil && b.known().wasMember(p) {
			return nil
		}
		return err
	}
	c.SessionTicketsDisabled = true
	return c
}

// client returns the TLS configuration for a connection to another node. The standard
// verification uses host names and the time of day; VerifyConnection uses the cluster, the node
// and the cluster's time instead.
func (b *credentials) client(to memberRef, protocol string) *tls.Config {
	c := b.config(protocol)
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return b.show() }
	c.ServerName = b.uuid
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		p, err := b.admit(cs)
		if err != nil {
			return err
		}
		if p.memberRef != to {
			return fmt.Errorf("node %v answers where node %v should", p.memberRef, to)
		}
		if cs.NegotiatedProtocol != protocol {
			return fmt.Errorf("node %v does not speak %q", to, protocol)
		}
		return nil
	}
	return c
}

func (b *credentials) config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: protocols,
		DynamicRecordSizingDisabled: true, // small records help only readers that do not wait for whole messages
	}
}

// checked is a connection that checks the node at its other end on every read and write: it
// ends with the membership of that node, or with its certificate.
type checked struct {
	net.Conn
	credentials *credentials
	peer        *presented
	own         *ownKey // of this node when it opened the connection
}

// isStale reports whether another connection should replace this one: because one of the nodes
// has another key, or the certificate of the other node will end soon.
func (c checked) isStale() bool {
	if c.own != c.credentials.own.Load() {
		return true // the other node closes it soon
	}
	known := c.credentials.known()
	if known.Keys == nil {
		return false
	}
	return !known.trusts(c.peer) || c.credentials.clock.time().After(c.peer.leaf.NotBefore.Add(c.credentials.life*2/3))
}

// Read reads if the other node is a member.
func (c checked) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil {
		if err = c.credentials.isMember(c.peer); err != nil {
			n = 0
		}
	}
	return n, err
}

// Write writes if the other node is a member.
func (c checked) Write(p []byte) (int, error) {
	if err := c.credentials.isMember(c.peer); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
