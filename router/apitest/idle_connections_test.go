package apitest_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"signalbox/router/apitest"
	"signalbox/router/appliance"
)

// Opens more idle connections than the bound, from one address and from several. Some
// are closed in favour of connections with requests, and only as many as necessary.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	const most, attempts = 20, 100
	for name, option := range map[string]apitest.Option{
		"of one address": func(c *appliance.Config) { c.HTTP.MaxConnectionsPerAddress = most },
		"overall":        func(c *appliance.Config) { c.HTTP.MaxConnections = most },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := apitest.New(t, option)
			address := strings.TrimPrefix(api.URL, "http://")
			var open []net.Conn
			for range attempts {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				open = append(open, c)
			}
			for range most {
				fresh := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
				response, err := fresh.Get(api.URL + "/readyz")
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Errorf("status %d", response.StatusCode)
				}
			}
			for _, c := range open[:attempts-most] { // the service closes them, for which the test waits
				if _, err := io.Copy(io.Discard, c); err != nil {
					t.Logf("closed with %v", err)
				}
			}
			if text := string(api.Root.Get("/metrics").Want(200).Body); !strings.Contains(text, "signalbox_http_connections_closed_total{cause=") {
				t.Error("closed connections are not counted")
			}
		})
	}
}

// TestStalledRequests takes all connections from one address, with requests whose
// bodies never arrive. Another address is served.
func TestStalledRequests(t *testing.T) {
	t.Parallel()
	const most = 20
	api := apitest.New(t, func(c *appliance.Config) { c.HTTP.MaxConnections = most })
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
	for range most {
		c, err := from.DialContext(t.Context(), "tcp", strings.TrimPrefix(api.URL, "http://"))
		if err != nil {
			t.Skipf("this machine has one loopback address only: %v", err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n")
		if n, err := c.Read(make([]byte, 25)); err != nil { // 100: the handler waits for the body
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	for range most {
		fresh := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := fresh.Get(api.URL + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("status %d", response.StatusCode)
		}
	}
}
