package systemtest

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
	"time"

	"signalbox/scripts/suite"
)

// TestUnaskedResponse has a target of a bridge repeat each request behind its response,
// with the secret in it. net/http logs responses without a request by itself; nothing of that
// may be in the log of the service.
func TestUnaskedResponse(t *testing.T) {
	t.Parallel()
	const secret = "qq-the-token-qq"
	address, repeated := newRepeater(t)
	p := serve(t, dataDir(t), configured(nil))
	r := root(t, p)
	r.must(t, "PUT", r.at("/bridges/http-bridge/config"), connectTo(object{"url": "http://" + address, "token": secret},
		object{}, object{"target": "/"}), nil)
	r.must(t, "POST", r.at("/messages"), object{"topic": "plant/1", "payload": "x", "qos": 1}, nil)
	select {
	case request := <-repeated:
		if !strings.Contains(request, secret) {
			t.Errorf("the request is without the secret: %s", request)
		}
	case <-time.After(suite.HangLimit):
		t.Fatal("no request has come")
	}
	p.stop(t)
	if log := p.Stderr.String(); strings.Contains(log, secret) || strings.Contains(log, "Unsolicited") {
		t.Errorf("the log holds what the target said: %s", lastLines(log))
	}
}

// newRepeater listens for HTTP requests, each of which it answers and then repeats. What
// was repeated is sent to the channel once the other side has ended the connection.
func newRepeater(t *testing.T) (address string, repeated <-chan string) {
	t.Helper()
	all := make(chan string, 100)
	address = suite.Listen(t, func(conn net.Conn) {
		request, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		text, err := httputil.DumpRequest(request, true)
		if err != nil {
			return
		}
		io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n"+string(text)) //nolint:errcheck // the other side may end it
		io.Copy(io.Discard, conn)                                            //nolint:errcheck // until it does
		all <- string(text)
	})
	return address, all
}
