package listen_test

import (
	"slices"
	"strings"
	"testing"

	"signalbox/broker/embedded/listen"
)

func TestValidateNamesEveryInvalidKey(t *testing.T) {
	t.Parallel()
	secure := func(change func(*listen.Config)) []listen.Config {
		c := listen.Config{Protocol: "wss", Address: ":1", CertFile: "c", KeyFile: "k", CAFile: "a", Key: "l."}
		change(&c)
		return []listen.Config{c}
	}
	for name, c := range map[string]struct {
		give []listen.Config
		want []string
	}{
		"none": {nil, nil},
		"all protocols": {[]listen.Config{
			{Protocol: "mqtt", Address: "127.0.0.1:1883"}, {Protocol: "ws", Address: ":0", Path: "/mqtt", Origins: []string{"*"}},
			{Protocol: "ws", Address: ":0"}, {Protocol: "unix", Address: "/run/s", SocketMode: "0666", ProxyProtocol: true},
			{Protocol: "unix", Address: "127.0.0.1:1884"},
			{Protocol: "mqtt", Address: "[::1]:1", ProxyProtocol: true, TrustedProxies: []string{"10.0.0.0/8", "::1"}, MaxConnections: 5},
		}, nil},
		"everything of TLS": {secure(func(c *listen.Config) { c.RequireCertificate, c.CertificateUsername = true, "san" }), nil},
		"unknown protocol":  {[]listen.Config{{Protocol: "quic", Address: "x", Key: "l."}}, []string{"l.protocol"}},
		"addresses": {[]listen.Config{
			{Protocol: "mqtt", Address: "here", Key: "broker.listen"}, {Protocol: "mqtt", Address: ":65536", Key: "a."},
			{Protocol: "mqtt", Address: ":1", Key: "b."}, {Protocol: "ws", Address: ":1", Key: "c."},
			{Protocol: "unix", Key: "d."}, {Protocol: "unix", Address: "@abstract", Key: "e."},
			{Protocol: "unix", Address: "/" + strings.Repeat("x", 107), Key: "f."},
			{Protocol: "unix", Address: "/s", Key: "g."}, {Protocol: "unix", Address: "/s", Key: "h."},
		}, []string{"a.address", "broker.listen", "c.address", "d.address", "e.address", "f.address", "h.address"}},
		"socket modes": {[]listen.Config{
			{Protocol: "unix", Address: "/a", SocketMode: "1000", Key: "a."}, {Protocol: "unix", Address: "/b", SocketMode: "rw", Key: "b."},
			{Protocol: "mqtt", Address: ":1", SocketMode: "0600", Key: "c."},
		}, []string{"a.socket_mode", "b.socket_mode", "c.socket_mode"}},
		"TLS without certificate": {secure(func(c *listen.Config) {
			c.CertFile, c.KeyFile, c.CAFile, c.RequireCertificate, c.CertificateUsername = "", "", "", true, "cn"
		}), []string{"l.ca_file", "l.cert_file", "l.certificate_username", "l.key_file"}},
		"name from elsewhere":     {secure(func(c *listen.Config) { c.CertificateUsername = "dn" }), []string{"l.certificate_username"}},
		"certificate without TLS": {secure(func(c *listen.Config) { c.Protocol = "ws" }), []string{"l.protocol"}},
		"web without web": {secure(func(c *listen.Config) { c.Protocol, c.Path, c.Origins = "mqtts", "/x", []string{"*"} }),
			[]string{"l.origins", "l.path"}},
		"path":    {secure(func(c *listen.Config) { c.Path = "mqtt" }), []string{"l.path"}},
		"proxies": {secure(func(c *listen.Config) { c.TrustedProxies = []string{"10.0.0.0/8"} }), []string{"l.trusted_proxies"}},
		"bad proxies": {secure(func(c *listen.Config) { c.ProxyProtocol, c.TrustedProxies = true, []string{"::1", "proxy"} }),
			[]string{"l.trusted_proxies[1]"}},
		"proxies of a path": {[]listen.Config{
			{Protocol: "unix", Address: "/a", ProxyProtocol: true, TrustedProxies: []string{"::1"}, Key: "l."},
		}, []string{"l.trusted_proxies"}},
		"negative": {secure(func(c *listen.Config) { c.MaxConnections = -1 }), []string{"l.max_connections"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, err := range listen.Validate(c.give) {
				key, _, _ := strings.Cut(err.Error(), ": ")
				got = append(got, key)
			}
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("bad keys %q, want %q", got, c.want)
			}
		})
	}
}
