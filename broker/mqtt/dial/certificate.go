package dial

import (
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"signalbox/broker"
)

// Handshake records what an attempt to connect learned from TLS. The zero value is ready to use.
type Handshake struct {
	certWanted atomic.Bool
	chain      atomic.Pointer[[]*x509.Certificate]
}

// CertificateWanted reports whether the broker requested a client certificate. Under TLS 1.3 it
// may reject that later.
func (h *Handshake) CertificateWanted() bool { return h != nil && h.certWanted.Load() }

// Chain returns the certificates that the broker presented, its own first, whether or not they
// are trusted.
func (h *Handshake) Chain() []*x509.Certificate {
	if h == nil || h.chain.Load() == nil {
		return nil
	}
	return *h.chain.Load()
}

func (h *Handshake) record(chain []*x509.Certificate) { h.chain.Store(&chain) }

// recordUntrusted records the chain of a handshake that failed because of it.
func (h *Handshake) recordUntrusted(err error) {
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		h.record(e.UnverifiedCertificates)
	}
}

// PinError means that the broker presented another certificate than the pinned one.
type PinError struct{ Presented broker.Fingerprint }

func (e *PinError) Error() string {
	return "the certificate with the fingerprint " + e.Presented.String() + " is not the pinned one"
}

// checkPin accepts exactly one certificate.
func checkPin(chain []*x509.Certificate, pin broker.Fingerprint) error {
	if len(chain) == 0 {
		return &PinError{}
	}
	presented := broker.FingerprintOf(chain[0].Raw)
	if subtle.ConstantTimeCompare(presented[:], pin[:]) != 1 {
		return &PinError{presented}
	}
	return nil
}

// observed returns the TLS configuration of one attempt, which records what it learns and
// checks the pin, if there is one, in place of authorities, names and dates.
func (ep Endpoint) observed(seen *Handshake) *tls.Config {
	c := ep.TLS.Clone()
	c.InsecureSkipVerify = c.InsecureSkipVerify || ep.Pin != nil
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		seen.certWanted.Store(true)
		if len(ep.TLS.Certificates) == 0 {
			return &tls.Certificate{}, nil
		}
		return &ep.TLS.Certificates[0], nil
	}
	c.VerifyConnection = func(s tls.ConnectionState) error {
		seen.record(s.PeerCertificates)
		if ep.Pin == nil {
			return nil
		}
		return checkPin(s.PeerCertificates, *ep.Pin)
	}
	return c
}

// Bounds of what is shown of certificates that a broker presents.
const (
	maxChain       = 10
	maxShownNames  = 100
	maxShownLength = 500 // bytes of a name
)

// Certificates describes the certificates of a handshake, and why they are not trusted.
func (ep Endpoint) Certificates(seen *Handshake, now time.Time) []broker.PresentedCertificate {
	chain := seen.Chain()
	chain = chain[:min(len(chain), maxChain)]
	list := make([]broker.PresentedCertificate, len(chain))
	for i, c := range chain {
		list[i] = presented(c)
	}
	if len(chain) == 0 || ep.TLS == nil {
		return list
	}
	add := func(i int, problem, text string) {
		list[i].Problems = append(list[i].Problems, broker.CertificateProblem{Problem: problem, Text: text})
	}
	if ep.Pin != nil {
		if checkPin(chain, *ep.Pin) != nil {
			add(0, broker.ProblemNotPinned, "It is not the certificate that is pinned.")
		}
		return list
	}
	if chain[0].VerifyHostname(ep.TLS.ServerName) != nil {
		add(0, broker.ProblemWrongName, fmt.Sprintf("It is not for %q but for %s.", ep.TLS.ServerName, certificateNames(chain[0])))
	}
	for i, c := range chain {
		if problem, text := datesOf(c, now); problem != "" {
			add(i, problem, text)
		}
	}
	if i, problem, text := authorityOf(chain, ep.TLS.RootCAs, now); problem != "" {
		add(i, problem, text)
	}
	return list
}

func presented(c *x509.Certificate) broker.PresentedCertificate {
	p := broker.PresentedCertificate{Subject: shortened(c.Subject.String()), Issuer: shortened(c.Issuer.String()), Names: []string{},
		NotBefore: c.NotBefore.UnixMilli(), NotAfter: c.NotAfter.UnixMilli(), Fingerprint: broker.FingerprintOf(c.Raw).String(),
		Problems: []broker.CertificateProblem{}}
	for _, name := range c.DNSNames[:min(len(c.DNSNames), maxShownNames)] {
		p.Names = append(p.Names, shortened(name))
	}
	for _, ip := range c.IPAddresses[:min(len(c.IPAddresses), maxShownNames-len(p.Names))] {
		p.Names = append(p.Names, ip.String())
	}
	return p
}

func shortened(s string) string {
	if len(s) <= maxShownLength {
		return s
	}
	return strings.ToValidUTF8(s[:maxShownLength], "") + "…"
}

// datesOf returns the problem of a certificate that is not valid at a time.
func datesOf(c *x509.Certificate, now time.Time) (problem, text string) {
	switch {
	case now.After(c.NotAfter):
		return broker.ProblemExpired, "It expired on " + c.NotAfter.UTC().Format(time.DateOnly) + "."
	case now.Before(c.NotBefore):
		return broker.ProblemNotYetValid, "It is not valid before " + c.NotBefore.UTC().Format(time.DateOnly) + "."
	}
	return "", ""
}

// authorityOf returns the certificate of a chain that no trusted authority signed. It verifies
// at a time at which the first certificate is valid: its dates are another problem.
func authorityOf(chain []*x509.Certificate, roots *x509.CertPool, now time.Time) (index int, problem, text string) {
	leaf := chain[0]
	if problem, _ := datesOf(leaf, now); problem != "" {
		now = leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
	}
	others := x509.NewCertPool()
	for _, c := range chain[1:] {
		others.AddCert(c)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: others, CurrentTime: now})
	_, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case err == nil, isInvalid && invalid.Reason == x509.Expired:
		return 0, "", "" // an expired authority is reported by its dates
	case isUnknown:
		top := topOf(chain)
		if isSelfSigned(chain[top]) {
			return top, broker.ProblemSelfSigned, "It is signed by itself, and not among the trusted authorities."
		}
		return top, broker.ProblemUnknownAuthority, "The authority that signed it is not trusted here."
	case isInvalid:
		index = max(0, slices.IndexFunc(chain, func(c *x509.Certificate) bool { return c.Equal(invalid.Cert) }))
	}
	return index, broker.ProblemInvalid, "It cannot be used by a server, or not by an authority."
}

// topOf returns the index of the last certificate of a chain of which each one is signed by
// the next.
func topOf(chain []*x509.Certificate) int {
	for i, c := range chain[:len(chain)-1] {
		if c.CheckSignatureFrom(chain[i+1]) != nil {
			return i
		}
	}
	return len(chain) - 1
}

func isSelfSigned(c *x509.Certificate) bool {
	return c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}
