package router

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

// The streams and bridges that nodes share run at one node of a cluster that shares the data of the platform. Every
// node serves requests about them: the others forward them to that one, with the caller's credential.

// callerHeader is the header of a forwarded request with the address of its caller.
const callerHeader = "Signalbox-Caller"

// isHosted reports whether the operation is about the streams or bridges of a broker.
func (row *route) isHosted() bool {
	return strings.HasPrefix(row.Path, brokerPath+"/streams") || strings.HasPrefix(row.Path, brokerPath+"/bridges")
}

// forwardIdleTime is how long a connection to another node is kept for the next request.
const forwardIdleTime = 30 * time.Second

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
			ResponseHeaderTimeout: rt.cfg.WriteTimeout + forwardIdleTime,
			MaxConnsPerHost:       24, IdleConnTimeout: forwardIdleTime, DisableCompression: true,
		},
		Rewrite: func(p *httputil.ProxyRequest) {
			f := forwardingOf(p.In.Context())
			p.Out.URL = &url.URL{Scheme: "http", Host: strconv.Itoa(f.node), RawQuery: p.In.URL.RawQuery}
			p.Out.URL.Path, p.Out.URL.RawPath = unmarkEscapedSlashes(p.In.URL.Path)
			p.Out.Host = p.In.Host
			for _, name := range append(forwardingHeaders, "Expect") {
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

// errNoHost is why an operation on streams and bridges that nodes share is refused.
var errNoHost = &broker.Error{Kind: broker.Unavailable, Msg: "no node of the cluster runs the streams and bridges of this broker at the moment, and nothing was changed: try again when a majority of its nodes is in contact"}

// forward forwards an admitted request, if another node is to serve it, and reports whether it was answered. A request
// that failed with an error has yet to be.
func (rt *router) forward(w http.ResponseWriter, r *http.Request, row *route, params httprouter.Params) (done bool, err error) {
	if !row.isHosted() {
		return false, nil
	}
	node, known := rt.api.HostedAt(r.Context(), params.ByName("projectId"), params.ByName("brokerId"))
	forwarded := r.Context().Value(forwardedKey{}) != nil
	switch {
	case known && node == 0:
		return false, nil
	case forwarded, !known && row.writes():
		return false, errNoHost
	case !known: // without a majority this node shows what it has
		w.Header().Set(staleHeader, "true")
		return false, nil
	}
	body, err := readBody(w, r, row.maxBody())
	if err != nil {
		return false, err
	}
	x := infoOf(r.Context())
	f := &forwarding{node: node, id: x.id}
	stale := w.Header().Get(staleHeader)
	for name := range responseHeaders { // which the other node sets
		w.Header().Del(name)
	}
	w.Header().Del("X-Request-Id")
	w.Header().Del(staleHeader)
	rt.forwarder.ServeHTTP(&slowWriter{w, http.NewResponseController(w), rt.cfg.WriteTimeout}, f.request(r, body))
	if f.err == nil {
		return true, nil
	}
	setHeaders(w.Header(), x.id)
	if stale != "" {
		w.Header().Set(staleHeader, stale)
	}
	return false, forwardError(f, row)
}

// request returns the request with a body that was read.
func (f *forwarding) request(r *http.Request, body []byte) *http.Request {
	r = r.WithContext(context.WithValue(r.Context(), forwardingKey{}, f))
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	return r
}

// slowWriter allows each part of a response the time for a whole one: the other node may be writing a long list.
type slowWriter struct {
	http.ResponseWriter
	controller *http.ResponseController
	timeout    time.Duration
}

// Write writes a part.
func (w *slowWriter) Write(b []byte) (int, error) {
	if w.timeout > 0 {
		w.controller.SetWriteDeadline(time.Now().Add(w.timeout)) //nolint:errcheck // a page that calls the operation in process has none
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *slowWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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

	serving sync.Once // guards the beginning of serving
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

// AcceptNode serves a connection over which another node of the cluster forwards requests. After CloseNodes it closes it.
func (s *Server) AcceptNode(conn net.Conn) {
	s.fromNodes.serving.Do(func() { go s.nodes.Serve(s.fromNodes) }) //nolint:errcheck // it ends with CloseNodes
	select {
	case s.fromNodes.conns <- conn:
	case <-s.fromNodes.closed:
		conn.Close()
	}
}

// CloseNodes waits for the requests of other nodes in flight. Those that are not complete when ctx is done are aborted;
// its error is then returned.
func (s *Server) CloseNodes(ctx context.Context) error {
	s.fromNodes.Close()
	err := s.nodes.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.nodes.Close())
	}
	return err
}
