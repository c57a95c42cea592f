package http

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
	"time"

	"signalbox/broker/bridges"
)

// checkEvery is how long a server is believed to be there after it was.
const checkEvery = 30 * time.Second

// reach makes what requests go through. Proxies of the environment do not count:
// a message goes where the configuration says. Pings find a connection of HTTP/2
// dead, which otherwise would be used again after each request that it swallows.
func (c *connector) reach(secure *tls.Config) {
	c.tls = secure
	c.transport = &nethttp.Transport{
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:        secure.Clone(), // it adds to it
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &nethttp.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
		DisableCompression:     true,
		MaxConnsPerHost:        c.options.Concurrency,
		MaxIdleConnsPerHost:    c.options.Concurrency,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	c.client = &nethttp.Client{
		Transport:     c.transport,
		CheckRedirect: func(*nethttp.Request, []*nethttp.Request) error { return nethttp.ErrUseLastResponse },
	}
}

// Connect tells whether there is a server that a connection can be made to, and
// that it is the right one where there is TLS. No request is sent: any could do
// something.
func (c *connector) Connect(ctx context.Context) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return errors.New(c.explain(err))
	}
	_ = conn.Close()
	c.reached.note(c.now())
	return nil
}

// Check does as Connect where the server was not there lately.
func (c *connector) Check(ctx context.Context) error {
	if c.reached.within(c.now(), checkEvery) {
		return nil
	}
	if err := c.Connect(ctx); err != nil {
		return &bridges.Lost{Err: err}
	}
	return nil
}

// Close ends the connections.
func (c *connector) Close(context.Context) error {
	c.transport.CloseIdleConnections()
	return nil
}

func (c *connector) dial(ctx context.Context) (net.Conn, error) {
	if c.tls == nil {
		return (&net.Dialer{}).DialContext(ctx, "tcp", c.address())
	}
	return (&tls.Dialer{Config: c.tls}).DialContext(ctx, "tcp", c.address())
}

func (c *connector) address() string {
	port := c.base.Port()
	switch {
	case port != "":
	case c.base.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(c.base.Hostname(), port)
}

// explain gives the sentence for an error of a connection.
func (c *connector) explain(err error) string {
	at := c.address()
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return fmt.Sprintf("the name %s is not found (%s): check the URL", c.base.Hostname(), dns.Err)
	}
	if cert, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return fmt.Sprintf("the certificate of %s is not to be trusted: %s", at, certificate(cert.Err))
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return at + " does not speak TLS: check whether the URL begins with https rightly"
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return at + " refuses connections: check the URL, and whether the server runs"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		return at + " does not answer in time: check the URL, and what is on the way to it"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return at + " has closed the connection before it answered"
	}
	op, ok := errors.AsType[*net.OpError](err)
	switch {
	case ok && op.Op == "remote error": // an alert of TLS
		return fmt.Sprintf("%s refuses TLS as it is configured (%s): check clientCertificate and clientKey", at, op.Err)
	case ok:
		return fmt.Sprintf("%s cannot be reached: %s", at, op.Err)
	}
	return at + " does not answer as HTTP has it"
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

// certificate gives what is wrong with one, and what to do.
func certificate(err error) string {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its authority is unknown: give that as caCertificate"
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return "it is for another name: check the URL, or give the name as serverName"
	}
	return err.Error()
}
