package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// Why a connection is not usable, beside what may befall a call.
var (
	errClosed     = errors.New("connection closed by us")
	errNotAllowed = errors.New("subscription to answers refused")
)

// explain turns a failed attempt into the error that the broker shows until
// the next one succeeds. Its message is a sentence that tells an operator what
// to do; the failure is kept as cause for the log.
func (ep endpoint) explain(f *failure, username string) *broker.Error {
	return &broker.Error{Kind: broker.Unavailable, Op: "connect", Msg: ep.sentence(f, username), Err: f}
}

func (ep endpoint) sentence(f *failure, username string) string {
	if errors.Is(f, errClosed) || errors.Is(f, context.Canceled) {
		return "the connection to the broker was closed"
	}
	switch f.stage {
	case dialling:
		return ep.whyNotDialled(f.err)
	case securing:
		return ep.whyNotSecured(f)
	case upgrading:
		return ep.whyNotUpgraded(f)
	case greeting:
		return ep.whyNotGreeted(f, username)
	}
	return ep.whyNotAnswered(f.err, username)
}

func (ep endpoint) whyNotDialled(err error) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case isDNS && dns.IsNotFound:
		return fmt.Sprintf("no host is called %q: check the name in the url", ep.host)
	case isDNS:
		return fmt.Sprintf("the name %q could not be looked up: the name server did not answer", ep.host)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("%s refuses connections: check that the broker runs and that the port is right", ep.addr)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Sprintf("there is no route to %s: check the address and the network", ep.addr)
	case isTimeout(err):
		return fmt.Sprintf("%s does not answer: check the address, and the firewalls on the way", ep.addr)
	}
	return fmt.Sprintf("%s cannot be connected to", ep.addr)
}

func (ep endpoint) whyNotSecured(f *failure) string {
	unknown, isUnknown := errors.AsType[x509.UnknownAuthorityError](f.err)
	name, isName := errors.AsType[x509.HostnameError](f.err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](f.err)
	_, isPlain := errors.AsType[tls.RecordHeaderError](f.err)
	switch {
	case isUnknown:
		return ep.whyUnknown(unknown)
	case isName:
		return fmt.Sprintf("the broker's certificate is not for %q but for %s: use that name in the url, or a certificate for this one",
			ep.host, namesOf(name.Certificate))
	case isInvalid:
		return whyInvalid(invalid)
	case isPlain || errors.Is(f.err, syscall.ECONNRESET) || isEOF(f.err):
		return fmt.Sprintf("%s does not speak TLS: check the port, or use %s:// for an unencrypted connection", ep.addr, ep.unencrypted())
	case f.certWanted:
		return ep.whyCertificate()
	case isTimeout(f.err):
		return fmt.Sprintf("%s accepts connections but does not answer the TLS handshake: check the port", ep.addr)
	}
	return fmt.Sprintf("%s and this service found no common way to secure the connection with TLS", ep.addr)
}

// whyUnknown is about a chain that ends at an authority that is not trusted.
func (ep endpoint) whyUnknown(e x509.UnknownAuthorityError) string {
	issuer := ""
	if e.Cert != nil && e.Cert.Issuer.CommonName != "" {
		issuer = fmt.Sprintf(" (%q)", e.Cert.Issuer.CommonName)
	}
	if ep.tls.RootCAs != nil {
		return "the broker's certificate is signed by an authority" + issuer + " that is not in the given ca_cert"
	}
	return "the broker's certificate is signed by an authority" + issuer + " that is not trusted here: give the authority's certificate as ca_cert"
}

// whyInvalid is about a certificate that no authority could make good.
func whyInvalid(e x509.CertificateInvalidError) string {
	if e.Reason != x509.Expired || e.Cert == nil {
		return "the broker's certificate is not valid for a server"
	}
	return fmt.Sprintf("the broker's certificate is valid only from %s to %s: renew it, or check the clocks",
		e.Cert.NotBefore.UTC().Format(time.DateOnly), e.Cert.NotAfter.UTC().Format(time.DateOnly))
}

// namesOf lists what a certificate is for.
func namesOf(cert *x509.Certificate) string {
	names := append([]string(nil), cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no host name at all"
	}
	return strings.Join(names, ", ")
}

func (ep endpoint) whyCertificate() string {
	if len(ep.tls.Certificates) == 0 {
		return "the broker wants a client certificate: give client_cert and client_key"
	}
	return "the broker refuses the client certificate: check that the broker trusts the authority that signed client_cert"
}

func (ep endpoint) whyNotUpgraded(f *failure) string {
	answer, answered := errors.AsType[*upgradeError](f.err)
	switch {
	case answered:
		return fmt.Sprintf("%s speaks HTTP (status %d) but offers no MQTT over WebSockets there: check the path in the url", ep.addr, answer.status)
	case f.certWanted:
		return ep.whyCertificate()
	case isTimeout(f.err):
		return fmt.Sprintf("%s accepts connections but does not answer the WebSocket handshake: check the port", ep.addr)
	}
	return fmt.Sprintf("%s does not speak WebSockets: check the port, or use mqtt:// or mqtts://", ep.addr)
}

func (ep endpoint) whyNotGreeted(f *failure, username string) string {
	odd, isOdd := errors.AsType[*protocolError](f.err)
	switch {
	case errors.Is(f.err, packets.ErrorRefusedBadUsernameOrPassword), errors.Is(f.err, packets.ErrorRefusedNotAuthorised):
		return whyRefused(username)
	case errors.Is(f.err, packets.ErrorRefusedIDRejected):
		return "the broker refuses this service's MQTT client id"
	case errors.Is(f.err, packets.ErrorRefusedServerUnavailable):
		return "the broker says that it is not available now"
	case errors.Is(f.err, packets.ErrorRefusedBadProtocolVersion):
		return "the broker does not speak MQTT 3.1.1"
	case isOdd:
		return ep.whyOdd(odd)
	case f.certWanted:
		return ep.whyCertificate()
	case isTimeout(f.err):
		return fmt.Sprintf("%s accepts connections but does not answer as an MQTT broker: check the port", ep.addr)
	case ep.tls == nil && !ep.ws:
		return fmt.Sprintf("%s ends the connection before the log-in: check the port, and whether it wants mqtts://", ep.addr)
	}
	return fmt.Sprintf("%s ends the connection before the log-in: check that the port is one for MQTT", ep.addr)
}

func whyRefused(username string) string {
	if username == "" {
		return "the broker lets nobody in without username and password: give both"
	}
	return fmt.Sprintf("the broker refuses user %q: check username and password, and that the user is not disabled or bound to a client id", username)
}

// whyOdd tells by the first bytes which protocol is spoken instead.
func (ep endpoint) whyOdd(e *protocolError) string {
	switch {
	case len(e.begin) >= 2 && e.begin[0] == 0x15 && e.begin[1] == 3: // a TLS alert record
		return fmt.Sprintf("%s wants TLS: use mqtts://", ep.addr)
	case strings.HasPrefix(string(e.begin), "HTTP/"):
		return fmt.Sprintf("%s speaks HTTP: use ws:// or wss://, or the broker's MQTT port", ep.addr)
	}
	return fmt.Sprintf("%s does not speak MQTT: check the port", ep.addr)
}

// whyNotAnswered is about a broker that let us in and is of no use.
func (ep endpoint) whyNotAnswered(err error, username string) string {
	_, isOdd := errors.AsType[*protocolError](err)
	switch {
	case isOdd:
		return fmt.Sprintf("%s does not keep to MQTT 3.1.1", ep.addr)
	case errors.Is(err, errNotAllowed):
		return fmt.Sprintf("%s may not subscribe to %s: give it a role that allows $CONTROL/#", whom(username), dynsec.ResponseTopic)
	case errors.Is(err, errNoAnswer):
		return fmt.Sprintf("the broker does not answer on %s: load its dynamic security plugin, and allow %s to publish to $CONTROL/#",
			dynsec.Topic, whom(username))
	case errors.Is(err, errUnconfirmed):
		return "the broker lets us in but does not answer in time: it may be overloaded"
	}
	return "the connection to the broker was lost"
}

func whom(username string) string {
	if username == "" {
		return "a client without username"
	}
	return fmt.Sprintf("user %q", username)
}

func (ep endpoint) unencrypted() string {
	if ep.ws {
		return "ws"
	}
	return "mqtt"
}

func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, syscall.ETIMEDOUT)
}

func isEOF(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
