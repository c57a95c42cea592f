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
func (ep Endpoint) Message(f *Failure, username string) string { return ep.reason(f, username).text }

// Cause returns why an attempt failed, "" if it was ended by the caller.
func (ep Endpoint) Cause(f *Failure, username string) broker.ConnectCause {
	return ep.reason(f, username).cause
}

// reason is why an attempt failed, for programs and for operators.
type reason struct {
	cause broker.ConnectCause
	text  string
}

func because(cause broker.ConnectCause, format string, args ...any) reason {
	return reason{cause, fmt.Sprintf(format, args...)}
}

func (ep Endpoint) reason(f *Failure, username string) reason {
	if errors.Is(f, context.Canceled) {
		return because("", "the connection to the broker was closed")
	}
	switch f.Stage {
	case StageDial:
		return ep.dialReason(f.Err)
	case StageTLS:
		return ep.tlsReason(f)
	case StageWebSocket:
		return ep.webSocketReason(f)
	case StageConnect:
		return ep.connectReason(f, username)
	}
	return because(broker.CauseLost, "the connection to the broker was lost")
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

// FailureOf returns the failure behind an error of an MQTT client, nil if it comes neither from
// [Endpoint.Open] nor from a CONNACK that refuses the connection.
func FailureOf(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	refused, ok := errors.AsType[interface {
		error
		V311Code() byte
	}](err)
	if !ok {
		return nil
	}
	return &Failure{Stage: StageConnect, Err: &ConnackError{Code: refused.V311Code(), Err: err}}
}

func (r *ConnackError) reason(username string) reason {
	switch r.Code {
	case 1:
		return because(broker.CauseProtocolVersion, "the broker does not speak MQTT 3.1.1")
	case 2:
		return because(broker.CauseClientID, "the broker refuses this service's MQTT client id")
	case 3:
		return because(broker.CauseServerUnavailable, "the broker says that it is not available now")
	}
	return deniedReason(username)
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

func (ep Endpoint) dialReason(err error) reason {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	denied, isDenied := errors.AsType[*outbound.Denied](err)
	explained, isExplained := errors.AsType[*broker.Error](err)
	switch {
	case isExplained:
		return reason{broker.CauseUnreachable, explained.Msg}
	case isDenied:
		return reason{broker.CauseNotAllowed, denied.Error()}
	case isDNS && dns.IsNotFound:
		return because(broker.CauseUnknownName, "no host is called %q: check the name in the url", ep.Host)
	case isDNS:
		return because(broker.CauseNameServer, "the name %q could not be looked up: the name server did not answer", ep.Host)
	case errors.Is(err, syscall.ECONNREFUSED):
		return because(broker.CauseRefused, "%s refuses connections: check that the broker runs and that the port is right", ep.Addr)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return because(broker.CauseNoRoute, "there is no route to %s: check the address and the network", ep.Addr)
	case isTimeout(err):
		return because(broker.CauseNoAnswer, "%s does not answer: check the address, and the firewalls on the way", ep.Addr)
	}
	return because(broker.CauseUnreachable, "%s cannot be connected to", ep.Addr)
}

func (ep Endpoint) tlsReason(f *Failure) reason {
	unknown, isUnknown := errors.AsType[x509.UnknownAuthorityError](f.Err)
	name, isName := errors.AsType[x509.HostnameError](f.Err)
	invalid, isInvalid := errors.AsType[x509.CertificateInvalidError](f.Err)
	other, isOther := errors.AsType[*PinError](f.Err)
	_, isPlain := errors.AsType[tls.RecordHeaderError](f.Err)
	switch {
	case isOther:
		return ep.otherCertificateReason(other)
	case isUnknown:
		return reason{broker.CauseUntrusted, ep.unknownAuthorityMessage(unknown)}
	case isName:
		return reason{broker.CauseWrongName, ep.hostnameMessage(name)}
	case isInvalid:
		return ep.invalidCertificateReason(invalid)
	case isPlain || errors.Is(f.Err, syscall.ECONNRESET) || isEOF(f.Err):
		return because(broker.CauseNoTLS, "%s does not speak TLS: check the port, or use %s:// for an unencrypted connection", ep.Addr, ep.unencrypted())
	case ep.Node && isTimeout(f.Err):
		return because(broker.CauseSilent, "%s accepts the connection but does not answer: it may be overloaded, or starting", ep.Addr)
	case ep.Node:
		return because(broker.CauseClosed, "%s ends the connection: if that remains so, its log has the reason", ep.Addr)
	case f.Seen.CertificateWanted():
		return ep.certificateReason()
	case isTimeout(f.Err):
		return because(broker.CauseSilentTLS, "%s accepts connections but does not answer the TLS handshake: check the port", ep.Addr)
	}
	return because(broker.CauseNoCommonTLS, "%s and this service found no common way to secure the connection with TLS", ep.Addr)
}

// otherCertificateReason explains a certificate that is not the pinned one.
func (ep Endpoint) otherCertificateReason(e *PinError) reason {
	return because(broker.CauseOtherCertificate, "the broker presents another certificate than the one that is pinned as %s: its SHA-256 fingerprint is %s. "+
		"If the broker's certificate was renewed, compare the fingerprint with that of its file and pin the new one; otherwise something else answers at %s",
		ep.Settings.Fingerprint, e.Presented, ep.Addr)
}

// hostnameMessage explains a certificate for other names than the expected one, which need not
// be the host.
func (ep Endpoint) hostnameMessage(e x509.HostnameError) string {
	var advice []string
	switch {
	case !hasNames(e.Certificate):
	case ep.Settings.ServerName != "":
		advice = append(advice, "give that name as "+ep.Settings.ServerName)
	default:
		advice = append(advice, "use that name in the url")
	}
	if ep.Settings.Fingerprint != "" {
		advice = append(advice, "pin the certificate by its fingerprint as "+ep.Settings.Fingerprint)
	}
	advice = append(advice, "let the broker present a certificate for this name")
	return fmt.Sprintf("the broker's certificate is not for %q but for %s: %s",
		e.Host, certificateNames(e.Certificate), strings.Join(advice, ", or "))
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
	return "the broker's certificate is signed by an authority" + issuer + " that is not trusted here: give the authority's certificate as " + ep.Settings.CA + ep.orPin()
}

// orPin returns the advice to pin the certificate, "" where that is not possible.
func (ep Endpoint) orPin() string {
	if ep.Settings.Fingerprint == "" {
		return ""
	}
	return ", or pin the broker's certificate by its fingerprint as " + ep.Settings.Fingerprint
}

// invalidCertificateReason explains a certificate that is invalid whatever its authority.
func (ep Endpoint) invalidCertificateReason(e x509.CertificateInvalidError) reason {
	if e.Reason != x509.Expired || e.Cert == nil {
		return because(broker.CauseInvalidCertificate, "the broker's certificate is not valid for a server")
	}
	return because(broker.CauseExpired, "the broker's certificate is valid only from %s to %s: renew it, or check the clocks%s",
		e.Cert.NotBefore.UTC().Format(time.DateOnly), e.Cert.NotAfter.UTC().Format(time.DateOnly), ep.orPin())
}

// maxNames bounds the names in a message; a certificate may have thousands.
const maxNames = 5

// hasNames reports whether a certificate has names with which hosts are compared.
func hasNames(cert *x509.Certificate) bool { return len(cert.DNSNames)+len(cert.IPAddresses) > 0 }

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

func (ep Endpoint) certificateReason() reason {
	if len(ep.TLS.Certificates) == 0 {
		return because(broker.CauseClientCertificateWanted, "the broker wants a client certificate: give %s and %s", ep.Settings.Certificate, ep.Settings.Key)
	}
	return because(broker.CauseClientCertificateRefused, "the broker refuses the client certificate: check that the broker trusts the authority that signed %s", ep.Settings.Certificate)
}

func (ep Endpoint) webSocketReason(f *Failure) reason {
	upgrade, isUpgrade := errors.AsType[*upgradeError](f.Err)
	switch {
	case isUpgrade:
		return because(broker.CauseNoWebSocket, "%s speaks HTTP (status %d) but offers no MQTT over WebSockets there: check the path in the url", ep.Addr, upgrade.status)
	case f.Seen.CertificateWanted():
		return ep.certificateReason()
	case isTimeout(f.Err):
		return because(broker.CauseSilentWebSocket, "%s accepts connections but does not answer the WebSocket handshake: check the port", ep.Addr)
	}
	return because(broker.CauseNoWebSocket, "%s does not speak WebSockets: check the port, or use mqtt:// or mqtts://", ep.Addr)
}

func (ep Endpoint) connectReason(f *Failure, username string) reason {
	protocol, isProtocol := errors.AsType[*ProtocolError](f.Err)
	refused, isRefused := errors.AsType[*ConnackError](f.Err)
	switch {
	case isRefused && refused.Code > 0:
		return refused.reason(username)
	case isProtocol:
		return ep.protocolReason(protocol)
	case f.Seen.CertificateWanted():
		return ep.certificateReason()
	case isTimeout(f.Err):
		return because(broker.CauseSilent, "%s accepts connections but does not answer as an MQTT broker: check the port", ep.Addr)
	case ep.TLS == nil && !ep.ws:
		return because(broker.CauseClosed, "%s ends the connection before the log-in: check the port, and whether it wants mqtts://", ep.Addr)
	}
	return because(broker.CauseClosed, "%s ends the connection before the log-in: check that the port is one for MQTT", ep.Addr)
}

func deniedReason(username string) reason {
	if username == "" {
		return because(broker.CauseCredentialsWanted, "the broker accepts no client without username and password: give both")
	}
	return because(broker.CauseCredentialsRefused, "the broker refuses user %q: check username and password, and that the user is not disabled or bound to a client id", username)
}

// protocolReason guesses the peer's protocol from the first bytes.
func (ep Endpoint) protocolReason(e *ProtocolError) reason {
	switch {
	case len(e.Begin) >= 2 && e.Begin[0] == 0x15 && e.Begin[1] == 3: // a TLS alert record
		return because(broker.CauseTLSWanted, "%s wants TLS: use mqtts://", ep.Addr)
	case strings.HasPrefix(string(e.Begin), "HTTP/"):
		return because(broker.CauseHTTP, "%s speaks HTTP: use ws:// or wss://, or the broker's MQTT port", ep.Addr)
	}
	return because(broker.CauseNotMQTT, "%s does not speak MQTT: check the port", ep.Addr)
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
