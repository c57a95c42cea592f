package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/julienschmidt/httprouter"

	"signalbox/broker"
	"signalbox/handlers"
)

// The streams and bridges of a connected broker run at one node of a cluster that shares the data of the platform. Every
// node serves requests about them: the others forward them to that one, with the caller's credential.

// callerHeader is the header of a forwarded request with the address of its caller.
const callerHeader = "Signalbox-Caller"

// isHosted reports whether the operation is about the streams or bridges of a broker.
func (row *route) isHosted() bool {
	return strings.HasPrefix(row.Path, brokerPath+"/streams") || strings.HasPrefix(row.Path, brokerPath+"/bridges")
}

// forwarding is a request on its way to another node.
type forwarding struct {
	node int
	id   string // X-Request-Id
	err  error  // why there is no response
}

type forwardingKey struct{}

// forwardedKey marks the context of a request that another node has forwarded.
type forwardedKey struct{}

// newForwarder returns the client of the other nodes.
func (rt *router) newForwarder() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		ErrorLog: slog.NewLogLogger(rt.log.Handler(), slog.LevelDebug),
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				host, _, _ := net.SplitHostPort(address)
				node, err := strconv.Atoi(host)
				if err != nil {
					return nil, err
				}
				return rt.api.Nodes.Dial(ctx, node)
			},
			MaxConnsPerHost: 16, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
		},
		Rewrite: func(p *httputil.ProxyRequest) {
			f := forwardingOf(p.In.Context())
			p.Out.URL = &url.URL{Scheme: "http", Host: strconv.Itoa(f.node), RawQuery: p.In.URL.RawQuery}
			p.Out.URL.Path, p.Out.URL.RawPath = unmarkEscapedSlashes(p.In.URL.Path)
			p.Out.Host = p.In.Host
			for _, name := range forwardingHeaders {
				p.Out.Header.Del(name)
			}
			p.Out.Header.Set(callerHeader, rt.proxies.address(p.In).String())
			p.Out.Header.Set("X-Request-Id", f.id)
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) { forwardingOf(r.Context()).err = err },
	}
}

func forwardingOf(ctx context.Context) *forwarding {
	f, _ := ctx.Value(forwardingKey{}).(*forwarding)
	return f
}

// unmarkEscapedSlashes is the reverse of markEscapedSlashes: it returns Path and RawPath of a URL.
func unmarkEscapedSlashes(path string) (plain, raw string) {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(strings.ReplaceAll(s, innerSlash, "/"))
	}
	return strings.ReplaceAll(path, innerSlash, "/"), strings.Join(segments, "/")
}

// forward forwards an admitted request, if another node is to serve it, and reports whether it was answered. After an
// error it was not.
func (rt *router) forward(w http.ResponseWriter, r *http.Request, row *route, params httprouter.Params) (done bool, err error) {
	if !row.isHosted() || rt.api.Nodes == nil || r.Context().Value(forwardedKey{}) != nil {
		return false, nil
	}
	node := rt.api.HostedAt(r.Context(), params.ByName("projectId"), params.ByName("brokerId"))
	if node == 0 {
		return false, nil
	}
	x := infoOf(r.Context())
	f := &forwarding{node: node, id: x.id}
	for name := range responseHeaders { // which the other node sets
		w.Header().Del(name)
	}
	w.Header().Del("X-Request-Id")
	rt.forwarder.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), forwardingKey{}, f)))
	if f.err == nil {
		return true, nil
	}
	setHeaders(w.Header(), x.id)
	return false, forwardError(f, row)
}

// forwardError returns an error for the caller.
func forwardError(f *forwarding, row *route) error {
	if e, ok := errors.AsType[*broker.Error](f.err); ok { // no connection
		return e
	}
	e := &broker.Error{Kind: broker.Unavailable, Op: row.ID, Err: f.err,
		Msg: fmt.Sprintf("node %d of the cluster, which has the streams and bridges of this broker, did not respond: try again", f.node)}
	if row.writes() {
		e.Kind, e.Msg = broker.Unconfirmed, fmt.Sprintf("node %d of the cluster, which has the streams and bridges of this broker, did not respond: look whether the change was made before you repeat it", f.node)
	}
	return e
}

// serveForwarded serves a request that another node has forwarded, as one of its caller.
func (s *Server) serveForwarded(w http.ResponseWriter, r *http.Request) {
	caller, err := netip.ParseAddr(r.Header.Get(callerHeader))
	if err != nil {
		writeError(w, &handlers.Error{Status: http.StatusBadRequest, Code: handlers.CodeInvalidRequest, Message: "the header " + callerHeader + " must have the address of the caller"})
		return
	}
	r.Header.Del(callerHeader)
	r = r.WithContext(context.WithValue(r.Context(), forwardedKey{}, true))
	r.RemoteAddr = netip.AddrPortFrom(caller, 0).String()
	s.ServeHTTP(w, r)
}

// nodeListener is the listener of connections that other nodes have opened. Accept returns those of AcceptNode.
type nodeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once // guards the closing of closed
}

func newNodeListener() *nodeListener {
	return &nodeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for a connection.
func (l *nodeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *nodeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns no address.
func (*nodeListener) Addr() net.Addr { return &net.TCPAddr{} }

// AcceptNode serves a connection over which another node of the cluster forwards requests. Until Serve, and after Close,
// it closes it.
func (s *Server) AcceptNode(conn net.Conn) {
	select {
	case <-s.fromNodes.closed:
		conn.Close()
		return
	default:
	}
	if !s.serving.Load() {
		conn.Close()
		return
	}
	select {
	case s.fromNodes.conns <- conn:
	case <-s.fromNodes.closed:
		conn.Close()
	}
}
