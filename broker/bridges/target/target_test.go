package target_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
	"signalbox/broker/bridges/target"
	"signalbox/broker/brokertest"
	"signalbox/scripts/suite"
)

// get sends a request to a server and returns the error. It does not wait for a silent server.
func get(t *testing.T, url string, secure *tls.Config, silent bool) error {
	t.Helper()
	limit := suite.HangLimit
	if silent {
		limit = 300 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := target.HTTPClient(new(net.Dialer).DialContext, secure, 1)
	defer c.CloseIdleConnections()
	res, err := c.Do(req)
	if err == nil {
		res.Body.Close()
	}
	return err
}

func TestReason(t *testing.T) {
	t.Parallel()
	plain, secure := httptest.NewServer(nil), httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(secure.Certificate())
	mute := bridgestest.Silent(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1)) // a request has arrived
		c.Close()
	})
	for name, tt := range map[string]struct {
		url    string
		secure *tls.Config
		want   string
	}{
		"no server listens":    {"http://" + brokertest.FreePort(t, "127.0.0.1"), nil, "it refuses connections: check the address, and whether it runs"},
		"no host":              {"http://host.invalid", nil, `the host "host.invalid" is not found`},
		"silent":               {"http://" + bridgestest.Silent(t, nil), nil, "it did not answer in time: check the address, and the firewalls on the way"},
		"it hangs up":          {"http://" + mute, nil, "it ended the connection"},
		"unknown authority":    {secure.URL, &tls.Config{}, "its certificate is not trusted, as its authority is unknown: configure that as tls.caCertificate"},
		"another name":         {secure.URL, &tls.Config{RootCAs: trusted, ServerName: "other"}, "its certificate is for another name: check the address, or give the name as tls.serverName"},
		"no TLS":               {strings.Replace(plain.URL, "http", "https", 1), &tls.Config{}, "it does not speak TLS: check the address, or switch TLS off"},
		"it wants to know who": {secure.URL, &tls.Config{RootCAs: trusted}, "it refuses TLS as it is configured (tls: certificate required): check tls.clientCertificate and tls.clientKey"},
	} {
		if got := target.Reason(get(t, tt.url, tt.secure, name == "silent")); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
	unknown := fmt.Errorf("outside: %w", errors.Join(errors.New("first"), fmt.Errorf("last: %w", errors.New("the\ncause"))))
	if got := target.Response(unknown); got != "the cause" {
		t.Errorf("got %q, want the innermost cause on one line", got)
	}
	if got := target.Reason(unknown); strings.Contains(got, "cause") {
		t.Errorf("got %q, want nothing of what the target may have said", got)
	}
	if got := target.Response(fmt.Errorf("outside: %w", io.EOF)); got != "" {
		t.Errorf("got %q beside a sentence for it", got)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("connect: %w", target.Explain(io.EOF, "it is over"))
	if err.Error() != "connect: it is over" || !errors.Is(err, io.EOF) || !target.IsExplained(err) || target.IsExplained(io.EOF) {
		t.Errorf("got %v, want the sentence and its cause", err)
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{"": "", " a\r\n\tb\x00 \xffc ": "a b c", "abcdé": "abcd...", "abcde": "abcde"} {
		if got := target.Excerpt(said, 5); got != want {
			t.Errorf("%q: got %q, want %q", said, got, want)
		}
	}
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://[::1]:80/a": "", "https://host": "", "http://host/a%20b/": "",
		"http://h\x7f": "is not a URL", "host:8086": "must begin with http:// or https://", "http:///a": "must name a host",
		"http://host:0": "must have a port between 1 and 65535, or none", "http://u:p@host": "must not hold credentials: they have members of their own",
		"http://host?": "must end with the path", "http://host#": "must end with the path", "http://host/%2e%2e/a": "must not have . or .. in its path",
	} {
		var problems bridges.Problems
		_, secure := target.ParseURL(text, bridges.TLS{}, &problems)
		var all bridges.Problems
		if want != "" {
			all.Add("connection.url", want)
		}
		if diff := cmp.Diff(all, problems); diff != "" || (secure != nil) != strings.HasPrefix(text, "https:") {
			t.Errorf("%s: TLS %t, problems (-want +got):\n%s", text, secure != nil, diff)
		}
	}
	var problems bridges.Problems
	target.ParseURL("http://host", bridges.TLS{Enabled: true}, &problems)
	if diff := cmp.Diff(bridges.Problems{{Path: "connection.url", Msg: "must begin with https:// if TLS is enabled"}}, problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
