package listen

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // required by RFC 6455, and no secret
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// maxRequest bounds the HTTP request for a WebSocket, in bytes.
const maxRequest = 16 << 10

// acceptSalt is appended to the client's key [RFC 6455, 1.3].
const acceptSalt = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// subprotocols are those of MQTT, the preferred first [MQTT-6.0.0-4].
var subprotocols = []string{"mqtt", "mqttv3.1"}

// requestReaders are only used while a request is read.
var requestReaders = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 2<<10) }}

// refusal is the response to a request that is refused.
type refusal struct {
	status int
	reason string
}

// Error returns the reason.
func (r *refusal) Error() string { return r.reason }

// upgrade responds to the request for a WebSocket. A request that cannot be read gets no
// response.
func upgrade(c io.ReadWriter, config Config) error {
	r, err := readRequest(c)
	if err == nil {
		err = check(r, config)
	}
	if err == nil {
		_, err = c.Write(accept(r))
		return err
	}
	if refused, ok := errors.AsType[*refusal](err); ok {
		c.Write(refuse(refused)) //nolint:errcheck // the reason for it counts
	}
	return err
}

// readRequest reads a request and fails if anything follows it: that would belong to the
// WebSocket, and a client waits for the response first [RFC 6455, 4.1].
func readRequest(c io.Reader) (*http.Request, error) {
	limited := &io.LimitedReader{R: c, N: maxRequest}
	reader := requestReaders.Get().(*bufio.Reader) //nolint:forcetypeassert // nothing else is in it
	reader.Reset(limited)
	defer func() {
		reader.Reset(nil)
		requestReaders.Put(reader)
	}()
	r, err := http.ReadRequest(reader)
	switch {
	case err != nil && limited.N == 0:
		return nil, &refusal{http.StatusRequestHeaderFieldsTooLarge, "the request is too long"}
	case err != nil:
		return nil, fmt.Errorf("read a request: %w", err)
	case reader.Buffered() > 0:
		return nil, &refusal{http.StatusBadRequest, "the request is not the last before the answer"}
	}
	return r, nil
}

// check returns an error unless a request asks for a WebSocket that it may open [RFC 6455,
// 4.2.1].
func check(r *http.Request, c Config) error {
	key, err := base64.StdEncoding.DecodeString(r.Header.Get("Sec-WebSocket-Key"))
	switch {
	case c.Path != "" && r.URL.Path != c.Path:
		return &refusal{http.StatusNotFound, "another path"}
	case r.Method != http.MethodGet:
		return &refusal{http.StatusMethodNotAllowed, "method " + r.Method}
	case !r.ProtoAtLeast(1, 1) || !lists(r, "Connection", "upgrade") || !lists(r, "Upgrade", "websocket"):
		return &refusal{http.StatusUpgradeRequired, "the request does not ask for a WebSocket"}
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return &refusal{http.StatusUpgradeRequired, "not version 13 of WebSocket"}
	case err != nil || len(key) != 16:
		return &refusal{http.StatusBadRequest, "no key of 16 bytes"}
	case !originAllowed(r, c.Origins):
		return &refusal{http.StatusForbidden, "a page of another origin"}
	}
	return nil
}

// originAllowed reports whether a web page may connect: one of the listener's own host, or
// of those configured. Only browsers send an origin.
func originAllowed(r *http.Request, allowed []string) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if len(allowed) > 0 {
		return slices.Contains(allowed, "*") || slices.Contains(allowed, origin)
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}

// lists reports whether a header lists a word.
func lists(r *http.Request, header, word string) bool {
	return slices.ContainsFunc(values(r, header), func(v string) bool { return strings.EqualFold(v, word) })
}

// values returns the values that a header lists.
func values(r *http.Request, header string) []string {
	all := strings.Split(strings.Join(r.Header.Values(header), ","), ",")
	for i, v := range all {
		all[i] = strings.TrimSpace(v)
	}
	return all
}

// accept returns the response that opens the WebSocket.
func accept(r *http.Request) []byte {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + acceptSalt)) //nolint:gosec // see the import
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n"
	offered := values(r, "Sec-WebSocket-Protocol")
	for _, p := range subprotocols {
		if slices.Contains(offered, p) {
			answer += "Sec-WebSocket-Protocol: " + p + "\r\n"
			break
		}
	}
	return []byte(answer + "\r\n")
}

// refuse returns the response that refuses a request.
func refuse(r *refusal) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nConnection: close\r\nSec-WebSocket-Version: 13\r\n"+
		"Allow: GET\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s\n",
		r.status, http.StatusText(r.status), len(r.reason)+1, r.reason)
}
