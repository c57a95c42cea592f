package router

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"signalbox/handlers"
)

// Requests that are not HTTP never reach a handler: net/http itself responds to them,
// in plain text and with one write to the connection. A connection of objectListener
// recognises these responses and sends the error object instead.

// objectListener accepts connections without TLS; tlsListener those with it.
type objectListener struct{ net.Listener }

// Accept waits for the next connection.
func (l objectListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &objectConn{c}, nil
}

type objectConn struct{ net.Conn }

// NetConn returns the underlying connection.
func (c *objectConn) NetConn() net.Conn { return c.Conn }

// Write sends b, or the error object if b is a response of net/http itself.
func (c *objectConn) Write(b []byte) (int, error) {
	status, reason, ok := parseRefusal(b)
	if !ok {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(refusal(status, reason)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// CloseWrite closes the sending side, by which net/http lets a caller that is still
// sending read the response.
func (c *objectConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// The prefixes of net/http's own responses. No operation responds with 417, nor with a
// header that begins like the other one.
const (
	refusalStart   = "HTTP/1.1 "
	refusalHeader  = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	expectationRow = "HTTP/1.1 417 "
)

// parseRefusal reports whether b is a response of net/http itself, and returns its
// status and the problem that it names, "" if it names none.
func parseRefusal(b []byte) (status int, reason string, ok bool) {
	if !bytes.HasPrefix(b, []byte(refusalStart)) {
		return 0, "", false
	}
	if bytes.HasPrefix(b, []byte(expectationRow)) {
		return http.StatusExpectationFailed, "the server expects nothing but 100-continue in the header Expect", bytes.HasSuffix(b, []byte("\r\n\r\n"))
	}
	line, rest, _ := strings.Cut(string(b[len(refusalStart):min(len(b), 1<<10)]), "\r\n")
	code, text, _ := strings.Cut(line, " ")
	status, err := strconv.Atoi(code)
	if err != nil || status < 400 || !strings.HasPrefix("\r\n"+rest, refusalHeader) {
		return 0, "", false
	}
	_, reason, _ = strings.Cut(text, ": ")
	return status, reason, true
}

// refusal returns the response with the error object.
func refusal(status int, reason string) []byte {
	e := handlers.ErrorObject{Status: status, Code: handlers.CodeInvalidRequest, Message: "the request is not valid HTTP"}
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		e.Code, e.Message = handlers.CodePayloadTooLarge, fmt.Sprintf("the header of the request is larger than %d bytes", http.DefaultMaxHeaderBytes)
	case http.StatusNotImplemented:
		e.Message = "the server takes no transfer encoding but chunked"
	default:
		if reason != "" {
			e.Message += ": " + reason
		}
	}
	return withError(e)
}

// withError returns a response with an error object, after which the connection is
// closed.
func withError(e handlers.ErrorObject) []byte {
	body, err := json.Marshal(e)
	if err != nil {
		body = []byte("{}")
	}
	head := "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
	return append(fmt.Appendf(nil, head, e.Status, http.StatusText(e.Status), len(body)), body...)
}
