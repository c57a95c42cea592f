package dial

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
	"unicode"

	"signalbox/broker"
	"signalbox/broker/outbound"
)

// Explain converts a failed attempt to an error of kind Unavailable. Its message is a sentence
// for operators; the failure is its cause, for the log.
func (ep Endpoint) Explain(f *Failure, username string) *broker.Error {
	return &broker.Error{Kind: broker.Unavailable, Op: "connect", Msg: ep.Message(f, username), Err: f}
}

// Message returns a sentence that explains a failed attempt.
func (ep Endpoint) Message(f *Failure, username string) string {
	if errors.Is(f, context.Canceled) {
		return "the connection to the broker was closed"
	}
	switch f.Stage {
	case StageDial:
		return ep.dialMessage(f.Err)
	case StageTLS:
		return ep.tlsMessage(f)
	case StageWebSocket:
		return ep.webSocketMessage(f)
	case StageConnect:
		return ep.connectMessage(f, username)
	}
	return "the connection to the broker was lost"
}

// ConnackError means that the broker refused the connection.
type ConnackError struct {
	Code byte  // return code of MQTT 3.1.1, 1 to 5; 0 for another reason
	Err  error // may be nil
}

// Error returns the cause or the code.
func (r *ConnackError) Error() string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return fmt.Sprintf("CONNECT was refused with code %d", r.Code)
}

// Unwrap returns the cause.
func (r *ConnackError) Unwrap() error { return r.Err }

func (r *ConnackError) message(username string) string {
	switch r.Code {
	case 1:
		return "the broker does not speak MQTT 3.1.1"
	case 2:
		return "the broker refuses this service's MQTT client id"
	case 3:
		return "the broker says that it is not available now"
	}
	return deniedMessage(username)
}

// ProtocolError means that the peer violates MQTT. Begin holds the first bytes received;
// before CONNACK they are likely another protocol.
type ProtocolError struct {
	Connected bool
	Begin     []byte
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("received an invalid MQTT packet, beginning with % x", e.Begin)
}

func (ep Endpoint) dialMessage(err error) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	denied, isDenied := errors.AsType[*outbound.Denied](err)
	switch {
	case isDenied:
		return denied.Error()
	case isDNS && dns.IsNotFound:
		return fmt.Sprintf("no host is called %q: check the name in the url", ep.Host)
	case isDNS:
		return fmt.Sprintf("the name %q could not be looked up: the name server did not answer", ep.Host)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("%s refuses connections: check that the broker runs and that the port is right", ep.Addr)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Sprintf("there is no route to %s: check the address and the network", ep.Addr)
	case isTimeout(err):
		return fmt.Sprintf("%s does not answer: check the address, and the firewalls on the way", ep.Addr)
	}
	return fmt.Sprintf("%s cannot be connected to", ep.Addr)
}

func (ep Endpoint) tlsMessage(f *Failure) string {
	unknown, isUnknown := errors.AsType[x509.UnknownAuthorityError](f.Err)
	name, isName := errors.AsType[x509.HostnameError](f.Err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](f.Err)
	_, isPlain := errors.AsType[tls.RecordHeaderError](f.Err)
	switch {
	case isUnknown:
		return ep.unknownAuthorityMessage(unknown)
	case isName:
		return ep.hostnameMessage(name)
	case isInvalid:
		return invalidCertificateMessage(invalid)
	case isPlain || errors.Is(f.Err, syscall.ECONNRESET) || isEOF(f.Err):
		return fmt.Sprintf("%s does not speak TLS: check the port, or use %s:// for an unencrypted connection", ep.Addr, ep.unencrypted())
	case f.CertWanted:
		return ep.certificateMessage()
	case isTimeout(f.Err):
		return fmt.Sprintf("%s accepts connections but does not answer the TLS handshake: check the port", ep.Addr)
	}
	return fmt.Sprintf("%s and this service found no common way to secure the connection with TLS", ep.Addr)
}

// hostnameMessage explains a certificate for other names than the expected one, which need not
// be the host.
func (ep Endpoint) hostnameMessage(e x509.HostnameError) string {
	where := "use that name in the url"
	if ep.Settings.ServerName != "" {
		where = "give that name as " + ep.Settings.ServerName
	}
	return fmt.Sprintf("the broker's certificate is not for %q but for %s: %s, or a certificate for this one",
		e.Host, certificateNames(e.Certificate), where)
}

// unknownAuthorityMessage explains a chain without a trusted authority.
func (ep Endpoint) unknownAuthorityMessage(e x509.UnknownAuthorityError) string {
	issuer := ""
	if e.Cert != nil && e.Cert.Issuer.CommonName != "" {
		issuer = fmt.Sprintf(" (%q)", e.Cert.Issuer.CommonName)
	}
	if ep.TLS.RootCAs != nil {
		return "the broker's certificate is signed by an authority" + issuer + " that is not in the given " + ep.Settings.CA
	}
	return "the broker's certificate is signed by an authority" + issuer + " that is not trusted here: give the authority's certificate as " + ep.Settings.CA
}

// invalidCertificateMessage explains a certificate that is invalid whatever its authority.
func invalidCertificateMessage(e x509.CertificateInvalidError) string {
	if e.Reason != x509.Expired || e.Cert == nil {
		return "the broker's certificate is not valid for a server"
	}
	return fmt.Sprintf("the broker's certificate is valid only from %s to %s: renew it, or check the clocks",
		e.Cert.NotBefore.UTC().Format(time.DateOnly), e.Cert.NotAfter.UTC().Format(time.DateOnly))
}

// maxNames bounds the names in a message; a certificate may have thousands.
const maxNames = 5

// certificateNames lists the names of a certificate.
func certificateNames(cert *x509.Certificate) string {
	names := append([]string(nil), cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		return "no host name at all"
	}
	more := ""
	if len(names) > maxNames {
		more = fmt.Sprintf(" and %d more", len(names)-maxNames)
		names = names[:maxNames]
	}
	printable := func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}
	return strings.Map(printable, strings.Join(names, ", ")) + more
}

func (ep Endpoint) certificateMessage() string {
	if len(ep.TLS.Certificates) == 0 {
		return "the broker wants a client certificate: give " + ep.Settings.Certificate + " and " + ep.Settings.Key
	}
	return "the broker refuses the client certificate: check that the broker trusts the authority that signed " + ep.Settings.Certificate
}

func (ep Endpoint) webSocketMessage(f *Failure) string {
	upgrade, isUpgrade := errors.AsType[*upgradeError](f.Err)
	switch {
	case isUpgrade:
		return fmt.Sprintf("%s speaks HTTP (status %d) but offers no MQTT over WebSockets there: check the path in the url", ep.Addr, upgrade.status)
	case f.CertWanted:
		return ep.certificateMessage()
	case isTimeout(f.Err):
		return fmt.Sprintf("%s accepts connections but does not answer the WebSocket handshake: check the port", ep.Addr)
	}
	return fmt.Sprintf("%s does not speak WebSockets: check the port, or use mqtt:// or mqtts://", ep.Addr)
}

func (ep Endpoint) connectMessage(f *Failure, username string) string {
	protocol, isProtocol := errors.AsType[*ProtocolError](f.Err)
	refused, isRefused := errors.AsType[*ConnackError](f.Err)
	switch {
	case isRefused && refused.Code > 0:
		return refused.message(username)
	case isProtocol:
		return ep.protocolMessage(protocol)
	case f.CertWanted:
		return ep.certificateMessage()
	case isTimeout(f.Err):
		return fmt.Sprintf("%s accepts connections but does not answer as an MQTT broker: check the port", ep.Addr)
	case ep.TLS == nil && !ep.ws:
		return fmt.Sprintf("%s ends the connection before the log-in: check the port, and whether it wants mqtts://", ep.Addr)
	}
	return fmt.Sprintf("%s ends the connection before the log-in: check that the port is one for MQTT", ep.Addr)
}

func deniedMessage(username string) string {
	if username == "" {
		return "the broker lets nobody in without username and password: give both"
	}
	return fmt.Sprintf("the broker refuses user %q: check username and password, and that the user is not disabled or bound to a client id", username)
}

// protocolMessage guesses the peer's protocol from the first bytes.
func (ep Endpoint) protocolMessage(e *ProtocolError) string {
	switch {
	case len(e.Begin) >= 2 && e.Begin[0] == 0x15 && e.Begin[1] == 3: // a TLS alert record
		return fmt.Sprintf("%s wants TLS: use mqtts://", ep.Addr)
	case strings.HasPrefix(string(e.Begin), "HTTP/"):
		return fmt.Sprintf("%s speaks HTTP: use ws:// or wss://, or the broker's MQTT port", ep.Addr)
	}
	return fmt.Sprintf("%s does not speak MQTT: check the port", ep.Addr)
}

func (ep Endpoint) unencrypted() string {
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
