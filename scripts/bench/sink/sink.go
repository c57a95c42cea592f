// Package sink is targets for bridges that take whatever comes, and the barest
// clients that write to them, which bridges are held against.
//
// It must not import anything of this module.
package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Targets is where the sinks are.
type Targets struct{ HTTP, NATS string }

// readyTime bounds how long the NATS server may take to begin, and to let a client in.
const readyTime = time.Minute

// Serve runs an HTTP and a NATS server until ctx ends. Ready is told where.
func Serve(ctx context.Context, ready func(Targets)) error {
	n, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		return err
	}
	n.Start()
	defer n.WaitForShutdown()
	defer n.Shutdown()
	if !n.ReadyForConnections(readyTime) {
		return errors.New("the NATS server does not become ready")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	h := &http.Server{Handler: http.HandlerFunc(swallow), ReadHeaderTimeout: readyTime}
	defer context.AfterFunc(ctx, func() { h.Close() })()
	ready(Targets{HTTP: fmt.Sprintf("http://%s/", ln.Addr()), NATS: n.ClientURL()})
	if err := h.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// swallow takes a request.
func swallow(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
