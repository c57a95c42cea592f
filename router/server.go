package router

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"signalbox/handlers"
	"signalbox/handlers/auth"
	"signalbox/router/manual"
)

// Server serves the API over HTTP or HTTPS.
type Server struct {
	cfg    Config
	router *router
	http   *http.Server
	certs  *certificates // nil without TLS; set by Start
	bounds *connections
	log    *slog.Logger

	fromNodes *nodeListener
	nodes     *http.Server // of the connections of other nodes

	serving atomic.Bool // the API

	mu       sync.Mutex // protects listener and done
	listener net.Listener
	done     chan struct{} // closed when serving has ended
}

// headerTimeout bounds how long a caller may take to send a request's header.
const headerTimeout = 10 * time.Second

// Program is the part of the program that the service shows.
type Program struct {
	Version       string
	ConfigFile    string // "" for none
	ConfigExample string // text of config.example.yaml, for the manual
}

// New returns a server that binds no address, and responds that the service has yet to start until Serve. ready
// reports whether the service is ready. The error names an invalid configuration.
func New(cfg Config, ready func(context.Context) error, program Program, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	trusted, err := parseProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, err
	}
	stopping, stop := context.WithCancel(context.Background())
	rt := &router{cfg: cfg, proxies: trusted, log: log, now: time.Now,
		ready: ready, version: program.Version, times: defaultEventTimes, stopping: stopping.Done(), manual: manual.New(program.ConfigExample)}
	s := &Server{cfg: cfg, router: rt, bounds: newConnections(cfg, trusted, log), log: log}
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: headerTimeout, ReadTimeout: cfg.ReadTimeout,
		WriteTimeout: cfg.WriteTimeout, IdleTimeout: cfg.IdleTimeout,
		ConnState: s.bounds.onState,
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	s.http.RegisterOnShutdown(stop)
	s.fromNodes = newNodeListener()
	s.nodes = &http.Server{Handler: http.HandlerFunc(s.serveForwarded), ReadHeaderTimeout: headerTimeout, ReadTimeout: cfg.ReadTimeout,
		WriteTimeout: cfg.WriteTimeout, IdleTimeout: 2 * forwardIdleTime, ErrorLog: s.http.ErrorLog}
	return s, nil
}

// Serve serves the API from now on; more is exposed with the server's own metrics. It is called once. The error
// names a row of the table that contradicts another.
func (s *Server) Serve(api *handlers.API, a *auth.Auth, more ...prometheus.Collector) error {
	rt := s.router
	rt.api, rt.auth = api, a
	rt.metrics = newMetrics(rt.version, append(append(more, s.bounds.collectors()...), newBrokerGauge(api))...)
	rt.rows = rt.routes()
	if err := rt.build(); err != nil {
		return fmt.Errorf("build router: %w", err)
	}
	if err := rt.registerConsole(); err != nil {
		return fmt.Errorf("build the console: %w", err)
	}
	rt.forwarder = rt.newForwarder()
	s.serving.Store(true)
	return nil
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.serving.Load() {
		s.router.ServeHTTP(w, r)
		return
	}
	s.router.serveStarting(w, r)
}

// Start binds the address and serves in the background until Close.
func (s *Server) Start(ctx context.Context) error {
	if s.cfg.TLS.CertFile != "" {
		certs, err := loadCertificates(s.cfg.TLS, s.log)
		if err != nil {
			return err
		}
		s.certs, s.http.TLSConfig = certs, certs.config()
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("http.listen: %s is in use by another process; stop that, or set http.listen (SIGNALBOX_HTTP_LISTEN) to a free address", s.cfg.Listen)
	}
	if err != nil {
		return fmt.Errorf("http.listen: %w", err)
	}
	done := make(chan struct{})
	s.mu.Lock()
	s.listener, s.done = l, done
	s.mu.Unlock()
	go s.serve(&boundedListener{l, s.bounds}, done)
	return nil
}

// ReloadCertificates reads the certificate's files now, instead of when a client
// connects after they have changed. It must be called after Start.
func (s *Server) ReloadCertificates() {
	if s.certs != nil {
		s.certs.reload()
	}
}

func (s *Server) serve(l net.Listener, done chan struct{}) {
	defer close(done)
	var err error
	if s.http.TLSConfig != nil {
		secured := newTLSListener(l, s.http.TLSConfig, s.log)
		err = s.http.Serve(secured)
		secured.wait()
	} else {
		err = s.http.Serve(objectListener{l})
	}
	if !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("HTTP server ended", "error", err)
	}
}

// Addr returns the bound address, "" before Start.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.Addr().String()
}

// WriteMetrics writes the metrics in Prometheus' text format.
func (s *Server) WriteMetrics(w io.Writer) error { return s.router.metrics.write(w) }

// UntrustedProxyRequests returns how many requests came through a proxy that is not trusted.
func (s *Server) UntrustedProxyRequests() int64 { return s.router.metrics.unknown.Load() }

// URL returns the address as in "http://127.0.0.1:8080", "" before Start.
func (s *Server) URL() string {
	scheme := "http://"
	if s.cfg.TLS.CertFile != "" {
		scheme = "https://"
	}
	if addr := s.Addr(); addr != "" {
		return scheme + addr
	}
	return ""
}

// Close stops accepting, waits for the requests in flight and returns when serving has
// ended. Requests that are not complete when ctx is done are aborted; its error is then
// returned. It may be called more than once, and without Start.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("finish requests in flight: %w", errors.Join(err, s.http.Close()))
	}
	s.mu.Lock()
	done := s.done
	s.mu.Unlock()
	if done != nil {
		<-done
	}
	return err
}
