package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"
)

// dialTime bounds a connection to an address.
const dialTime = 5 * time.Second

// Bound checks that a running service has bound the address of a configuration key.
func Bound(key, address string, bound []string) Finding {
	_, port, _ := net.SplitHostPort(address)
	if port == "0" {
		return Good("ports", key, "any port that was free")
	}
	for _, b := range bound {
		if _, its, _ := net.SplitHostPort(b); its == port {
			return Good("ports", key, "%s is the running service's", b)
		}
	}
	return Warn("ports", key, fmt.Sprintf("the running service does not listen on %s", address), "restart the service: its configuration has changed since its start, or this command has another one")
}

// Reach checks, by step, that another node can be reached.
func Reach(ctx context.Context, object, address string) Finding {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close() //nolint:errcheck // nothing was sent
		return Good("cluster", object, "%s can be reached", address)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return Bad("cluster", object, "name: "+dns.Error(), "correct the name, or the name server of this machine")
	}
	return Bad("cluster", object, "port: "+err.Error(), "start the node, and let firewalls pass its cluster port")
}

// Proxies checks how callers behind reverse proxies are told apart. forwarded is the number of
// requests with headers of proxies that are not trusted, at a running service.
func Proxies(listen string, trusted []string, secure bool, forwarded int64) (found []Finding) {
	for _, text := range trusted {
		if p, err := netip.ParsePrefix(text); err == nil && p.Bits() == 0 {
			found = append(found, Bad("proxies", "http.trusted_proxies", text+" trusts every caller, so each can choose the address for which its failed log-ins are counted",
				"name the addresses of the proxies only"))
		}
	}
	if forwarded > 0 {
		found = append(found, Warn("proxies", "http.trusted_proxies", fmt.Sprintf("%d requests came through a proxy that is not trusted, whose callers share one limit of failed log-ins", forwarded),
			"add the address of the proxy to http.trusted_proxies"))
	}
	if host, _, err := net.SplitHostPort(listen); err == nil && !secure && !loopback(host) && len(trusted) == 0 {
		found = append(found, Warn("proxies", "http.listen", listen+" can be reached from other machines without TLS, so passwords and tokens can be read on the way",
			"configure http.tls, or listen on loopback behind a proxy that does"))
	}
	if found == nil {
		found = append(found, Good("proxies", "", "%s", proxyText(trusted)))
	}
	return found
}

func proxyText(trusted []string) string {
	if len(trusted) == 0 {
		return "no proxy is trusted, and none is needed"
	}
	return "the headers of " + strings.Join(trusted, ", ") + " are trusted"
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}
