package target

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"os"
	"syscall"

	"signalbox/broker/outbound"
)

// maxText is the maximum length of the text of an unknown error, in bytes.
const maxText = 500

// Reason explains why a target cannot be reached or its connection was lost, and what to do. The
// text continues a sentence after a colon; "it" is the target. It contains nothing that the
// target sent, which libraries put into their errors: see [Response].
func Reason(err error) string {
	if why := knownReason(err); why != "" {
		return why
	}
	return "it does not respond like such a server: check the address"
}

// Response returns the text of an error that [Cause] does not know, "" for others. It may contain
// what the target sent, which only editors may see.
func Response(err error) string {
	if err == nil || knownReason(err) != "" {
		return ""
	}
	return Excerpt(innermost(err), maxText)
}

// knownReason returns the text for errors that are known here, "" for others.
func knownReason(err error) string {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dnsReason(dns)
	}
	if why := tlsReason(err); why != "" {
		return why
	}
	switch {
	case IsTimeout(err):
		return "it did not answer in time: check the address, and the firewalls on the way"
	case errors.Is(err, context.Canceled):
		return "the attempt was ended"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses connections: check the address, and whether it runs"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no route to it: check the address and the network"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "it ended the connection"
	case isLocal(err):
		return Excerpt(innermost(err), maxText)
	}
	return ""
}

// isLocal reports whether an error comes from this machine, so that its text contains nothing
// that the target sent.
func isLocal(err error) bool {
	_, isDenied := errors.AsType[*outbound.Denied](err)
	_, isErrno := errors.AsType[syscall.Errno](err)
	_, isAddr := errors.AsType[*net.AddrError](err)
	return isDenied || isErrno || isAddr || IsExplained(err)
}

// IsTimeout reports whether an error is a timeout.
func IsTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func dnsReason(e *net.DNSError) string {
	if e.IsNotFound {
		return fmt.Sprintf("the host %q is not found: check the address", e.Name)
	}
	return fmt.Sprintf("the host %q is not found, as no name server answers", e.Name)
}

// tlsReason returns the text for errors of TLS, "" for others.
func tlsReason(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is not trusted, as its authority is unknown: configure that as tls.caCertificate"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "its certificate is for another name: check the address, or give the name as tls.serverName"
	}
	if cert, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "its certificate is not valid: " + Excerpt(cert.Err.Error(), maxText)
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok || errors.Is(err, nethttp.ErrSchemeMismatch) {
		return "it does not speak TLS: check the address, or switch TLS off"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" { // an alert
		return fmt.Sprintf("it refuses TLS as it is configured (%s): check tls.clientCertificate and tls.clientKey", Excerpt(op.Err.Error(), maxText))
	}
	return ""
}

// innermost returns the text of an error's first cause, without the context that libraries add.
func innermost(err error) string {
	for {
		var next error
		switch e := err.(type) { //nolint:errorlint // each error of the chain is examined
		case interface{ Unwrap() error }:
			next = e.Unwrap()
		case interface{ Unwrap() []error }:
			if all := e.Unwrap(); len(all) > 0 {
				next = all[len(all)-1]
			}
		}
		if next == nil {
			return err.Error()
		}
		err = next
	}
}
