package sql

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
)

// explained is an error told in a sentence for an operator.
type explained struct {
	sentence string
	cause    error
}

// Error gives the sentence.
func (e *explained) Error() string { return e.sentence }

// Unwrap gives the cause.
func (e *explained) Unwrap() error { return e.cause }

// unreached tells why a database cannot be connected to, where it did not say so
// itself.
func unreached(e *endpoint, err error) error {
	var (
		unknown   x509.UnknownAuthorityError
		otherName x509.HostnameError
		invalid   x509.CertificateInvalidError
		unproven  *tls.CertificateVerificationError
		noTLS     tls.RecordHeaderError
		noHost    *net.DNSError
	)
	var why string
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		why = "it did not answer in time: check host and port, and whether a firewall is between"
	case errors.Is(err, context.Canceled):
		why = "the attempt was ended"
	case errors.Is(err, syscall.ECONNREFUSED):
		why = "nothing listens there: check host and port, and whether the database runs"
	case errors.As(err, &noHost):
		why = "its host is unknown: check the name"
	case errors.As(err, &unknown):
		why = "its certificate is signed by an authority that is not trusted: give that one in tls.caCertificate"
	case errors.As(err, &otherName):
		why = "its certificate is for another name: check the host, or give the name in tls.serverName"
	case errors.As(err, &invalid), errors.As(err, &unproven):
		why = "its certificate is not valid: " + innermost(err)
	case errors.As(err, &noTLS):
		why = "it does not speak TLS: check the port, or switch TLS off"
	default:
		why = innermost(err)
	}
	return &explained{fmt.Sprintf("cannot connect to the database at %s: %s", e.address(), why), err}
}

// broken tells why a connection that was there is no more.
func broken(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "the database did not answer in time"
	case errors.Is(err, context.Canceled):
		return "the work with the database was ended"
	}
	return "the connection to the database broke: " + innermost(err)
}

// innermost gives the text of an error's first cause, which has none of the words
// that drivers put around it.
func innermost(err error) string {
	for {
		var next error
		switch e := err.(type) { //nolint:errorlint // each is looked at in turn
		case interface{ Unwrap() error }:
			next = e.Unwrap()
		case interface{ Unwrap() []error }:
			if all := e.Unwrap(); len(all) > 0 {
				next = all[len(all)-1]
			}
		}
		if next == nil {
			return clipped(err.Error())
		}
		err = next
	}
}

// longest is how much of what a database says is told, in bytes.
const longest = 500

// clipped gives the beginning of what a database says, in one line.
func clipped(said string) string {
	said = strings.Join(strings.Fields(said), " ")
	if len(said) > longest {
		said = strings.ToValidUTF8(said[:longest], "") + "…"
	}
	return said
}
