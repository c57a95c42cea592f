package remote

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/mqtt/dial"
	"signalbox/scripts/suite"
)

// wantCause checks that a target cannot be reached for a reason that contains the
// words, and that every operation that can return the reason does.
func wantCause(t *testing.T, target broker.Target, words ...string) {
	t.Helper()
	wantCauseIn(t, suite.HangLimit, target, words...)
}

// wantCauseIn is wantCause with another connect timeout.
func wantCauseIn(t *testing.T, connect time.Duration, target broker.Target, words ...string) {
	t.Helper()
	d := quick()
	d.timing.connectTimeout, d.timing.grace = connect, 100*time.Millisecond
	d.timing.responseTimeout = time.Hour // the cause is known earlier
	b := open(t, d, target)
	e := wantKind(t, b.Ready(t.Context()), broker.Unavailable)
	for _, word := range words {
		if !strings.Contains(e.Msg, word) {
			t.Errorf("Ready() = %q, want it to tell %q", e.Msg, word)
		}
	}
	if e.Err == nil {
		t.Error("the error has no cause for the log")
	}
	if s := b.Status(); s.Connected || s.Error != e.Msg || s.Since.IsZero() {
		t.Errorf("Status() = %+v, want the error %q", s, e.Msg)
	}
	failed := wantKind(t, b.DeleteClient(t.Context(), "nobody"), broker.Unavailable)
	if failed.Msg != e.Msg || failed.Op != "deleteClient" {
		t.Errorf("DeleteClient() = %v, want %q", failed, e.Msg)
	}
	if pass := string(target.Password); pass != "" && strings.Contains(e.Msg+e.Err.Error(), pass) {
		t.Error("the error shows the password")
	}
}

// accepting accepts connections and passes each to serve.
func accepting(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
	return ln.Addr().String()
}

func TestCause_unreachable(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		addr := brokertest.FreePort(t, "127.0.0.1")
		wantCause(t, broker.Target{URL: "mqtt://" + addr}, addr, "refuses connections")
	})
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no such name":     {&net.DNSError{IsNotFound: true}, `no host is called "h"`},
		"no name server":   {&net.DNSError{IsTimeout: true}, "could not be looked up"},
		"no route to host": {&net.OpError{Err: syscall.EHOSTUNREACH}, "no route"},
		"no route to net":  {&net.OpError{Err: syscall.ENETUNREACH}, "no route"},
		"time-out":         {&net.OpError{Err: context.DeadlineExceeded}, "does not answer"},
		"anything else":    {&net.OpError{Err: syscall.EPERM}, "cannot be connected to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ep := dial.Endpoint{Host: "h", Addr: "h:1"}
			if e := ep.Explain(&failure{Stage: dial.StageDial, Err: c.err}, ""); !strings.Contains(e.Msg, c.want) {
				t.Errorf("explain() = %q, want %q", e.Msg, c.want)
			}
		})
	}
}

func TestCause_not_a_broker(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	webAddr := web.Listener.Addr().String()
	silent := accepting(t, func(conn net.Conn) { t.Cleanup(func() { conn.Close() }) })
	rude := accepting(t, func(conn net.Conn) { conn.Close() })
	for name, c := range map[string]struct{ url, want string }{
		"a web server":                     {"mqtt://" + webAddr, "does not answer as an MQTT broker"},
		"a web server, over TLS":           {"mqtts://" + webAddr, "does not speak TLS"},
		"a web server, over WebSockets":    {"ws://" + webAddr + "/mqtt", "(status 404)"},
		"silence":                          {"mqtt://" + silent, "does not answer as an MQTT broker"},
		"silence, over TLS":                {"mqtts://" + silent, "does not answer the TLS handshake"},
		"silence, over WebSockets":         {"ws://" + silent, "does not answer the WebSocket handshake"},
		"hanging up":                       {"mqtt://" + rude, "ends the connection before the log-in"},
		"hanging up, over WebSockets":      {"ws://" + rude, "does not speak WebSockets"},
		"WebSockets where there is no TLS": {"wss://" + webAddr, "use ws://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := suite.HangLimit
			if strings.HasPrefix(c.want, "does not answer") {
				limit = 2 * time.Second
			}
			wantCauseIn(t, limit, broker.Target{URL: c.url}, c.want)
		})
	}
	for greeting, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": "speaks HTTP",
		"220 mail.example ESMTP\r\n":       "does not speak MQTT",
		"\x15\x03\x03\x00\x02\x02\x46":     "wants TLS",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			addr := accepting(t, func(conn net.Conn) {
				t.Cleanup(func() { conn.Close() })
				conn.Write([]byte(greeting)) //nolint:errcheck // the client checks the result
			})
			wantCause(t, broker.Target{URL: "mqtt://" + addr}, want)
		})
	}
}

func TestCause_log_in(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code byte
		want string
	}{
		"another version of MQTT": {1, "does not speak MQTT 3.1.1"},
		"the client id":           {2, "client id"},
		"not available":           {3, "not available"},
		"a code that is none":     {77, "does not speak MQTT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantCause(t, (&scripted{connack: c.code}).serve(t), c.want)
		})
	}
	server := brokertest.Mosquitto(t)
	t.Run("wrong password", func(t *testing.T) {
		t.Parallel()
		target := server.Target()
		target.Password = "quite-wrong"
		wantCause(t, target, `refuses user "admin"`)
	})
	t.Run("no user", func(t *testing.T) {
		t.Parallel()
		wantCause(t, broker.Target{URL: server.URL}, "without username and password")
	})
}

// TestCause_of_silence: a broker that sends nothing at all, not even PINGRESP.
func TestCause_of_silence(t *testing.T) {
	t.Parallel()
	d := quick()
	d.timing.responseTimeout = 200 * time.Millisecond
	addr := accepting(t, func(conn net.Conn) {
		t.Cleanup(func() { conn.Close() })
		conn.Write([]byte{packetConnack << 4, 2, 0, 0}) //nolint:errcheck // the client checks the result
	})
	b := open(t, d, broker.Target{URL: "mqtt://" + addr})
	if e := wantKind(t, b.Ready(t.Context()), broker.Unavailable); !strings.Contains(e.Msg, "overloaded") {
		t.Errorf("Ready() = %q", e.Msg)
	}
}

func TestCause_TLS(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.WithTLS(), brokertest.WithWebSockets())
	verified := func(url string, ca []byte) broker.Target {
		target := server.Target()
		target.URL, target.TLS = url, broker.TLS{CACert: string(ca), Verify: true}
		return target
	}
	t.Run("unknown authority", func(t *testing.T) {
		t.Parallel()
		wantCause(t, verified(server.TLSURL, nil), `"brokertest authority"`, "give the authority's certificate as ca_cert")
	})
	t.Run("unknown authority, over WebSockets", func(t *testing.T) {
		t.Parallel()
		wantCause(t, verified(server.WSSURL, nil), "give the authority's certificate as ca_cert")
	})
	t.Run("another authority than the given one", func(t *testing.T) {
		t.Parallel()
		wantCause(t, verified(server.TLSURL, brokertest.NewCA(t).PEM), "not in the given ca_cert")
	})
	t.Run("TLS is wanted", func(t *testing.T) {
		t.Parallel()
		wantCause(t, verified(strings.Replace(server.TLSURL, "mqtts", "mqtt", 1), nil), "mqtts://")
	})
	t.Run("TLS is not spoken", func(t *testing.T) {
		t.Parallel()
		wantCause(t, verified(strings.Replace(server.URL, "mqtt", "mqtts", 1), nil), "does not speak TLS")
	})
	t.Run("nothing is verified when that was asked for", func(t *testing.T) {
		t.Parallel()
		target := verified(server.TLSURL, nil)
		target.TLS.Verify = false
		connected(t, target)
	})
}

func TestCause_certificate(t *testing.T) {
	t.Parallel()
	ca := brokertest.NewCA(t)
	for name, c := range map[string]struct {
		options brokertest.CertOptions
		want    string
	}{
		"for another name": {brokertest.CertOptions{Names: []string{"broker.example"}}, `not for "127.0.0.1" but for broker.example`},
		"expired":          {brokertest.CertOptions{Names: []string{"127.0.0.1"}, Expired: true}, "renew it"},
		"of a client":      {brokertest.CertOptions{Subject: "a client"}, "certificate is not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := brokertest.Mosquitto(t, brokertest.WithCertificate(ca.Issue(t, c.options)))
			target := server.Target()
			target.URL, target.TLS = server.TLSURL, broker.TLS{CACert: string(ca.PEM), Verify: true}
			wantCause(t, target, c.want)
		})
	}
}

func TestCause_client_certificate(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.WithClientCertificates(), brokertest.WithWebSockets())
	with := func(ca *brokertest.CA, url string) broker.Target {
		target := server.Target()
		target.URL, target.TLS = url, broker.TLS{CACert: string(server.CA.PEM), Verify: true}
		if ca != nil {
			pair := ca.Issue(t, brokertest.CertOptions{Subject: "signalbox"})
			target.TLS.ClientCert, target.TLS.ClientKey = string(pair.Cert), broker.Secret(pair.Key)
		}
		return target
	}
	for _, url := range []string{server.TLSURL, server.WSSURL} {
		scheme, _, _ := strings.Cut(url, ":")
		t.Run(scheme+", none given", func(t *testing.T) {
			t.Parallel()
			wantCause(t, with(nil, url), "wants a client certificate")
		})
		t.Run(scheme+", one of another authority", func(t *testing.T) {
			t.Parallel()
			wantCause(t, with(brokertest.NewCA(t), url), "refuses the client certificate")
		})
		t.Run(scheme+", a good one", func(t *testing.T) {
			t.Parallel()
			connected(t, with(server.CA, url))
		})
	}
}
