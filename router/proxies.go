package router

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// proxies are the addresses whose X-Forwarded headers are trusted. Otherwise a caller
// could choose the address for which its failed log-ins are counted.
type proxies []netip.Prefix

// parseProxies parses addresses and prefixes, "127.0.0.1" or "10.0.0.0/8".
func parseProxies(list []string) (proxies, error) {
	var ps proxies
	for _, s := range list {
		p, err := parsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an IP address nor a prefix", s)
		}
		ps = append(ps, p.Masked())
	}
	return ps, nil
}

func parsePrefix(s string) (netip.Prefix, error) {
	if strings.Contains(s, "/") {
		return netip.ParsePrefix(s)
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, err
	}
	return a.Prefix(a.BitLen())
}

func (ps proxies) trust(a netip.Addr) bool {
	for _, p := range ps {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// peer returns the remote address of the connection.
func peer(r *http.Request) netip.Addr {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr)
	return ap.Addr().Unmap().WithZone("")
}

// address returns the caller's address: the peer's, or if that is a trusted proxy, the
// last one in X-Forwarded-For that is not a trusted proxy.
func (ps proxies) address(r *http.Request) netip.Addr {
	at := peer(r)
	if !ps.trust(at) {
		return at
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		a, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return at
		}
		if at = a.Unmap().WithZone(""); !ps.trust(at) {
			return at
		}
	}
	return at
}

// forwardingHeaders are the headers that proxies add.
var forwardingHeaders = []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Forwarded", "Via"}

// caller returns the caller's address for limits, which is loopback only for a caller
// on this machine. All other requests from loopback were forwarded by an untrusted
// proxy: their callers share one limit.
func (ps proxies) caller(r *http.Request) string {
	at := ps.address(r)
	if at.IsLoopback() && !isDirect(r) {
		return "a proxy at " + at.String()
	}
	return at.String()
}

// isDirect reports whether nothing indicates a proxy: none of its headers, a host name
// that only this machine uses for itself, and not HTTP/1.0, which nginx speaks to its
// upstream by default, with such a host name.
func isDirect(r *http.Request) bool {
	if !r.ProtoAtLeast(1, 1) {
		return false
	}
	for _, name := range forwardingHeaders {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	host := (&url.URL{Host: r.Host}).Hostname()
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	return strings.EqualFold(host, "localhost")
}

// cameThrough reports whether a request has headers of a proxy that is not trusted.
func (ps proxies) cameThrough(r *http.Request) bool {
	for _, name := range forwardingHeaders {
		if r.Header.Get(name) != "" {
			return !ps.trust(peer(r))
		}
	}
	return false
}

// secure reports whether the caller uses TLS.
func (ps proxies) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	return len(ps) > 0 && ps.trust(peer(r)) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
