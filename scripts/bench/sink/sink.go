// Package sink implements targets for bridges that accept everything, and minimal
// clients of them, with which bridges are compared.
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

// Targets are the addresses of the sinks.
type Targets struct{ HTTP, NATS string }

// readyTime bounds the time in which the NATS server must start and accept a client.
const readyTime = time.Minute

// Serve runs an HTTP and a NATS server until ctx is done. It calls ready with their
// addresses.
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
	h := &http.Server{Handler: http.HandlerFunc(discard), ReadHeaderTimeout: readyTime}
	defer context.AfterFunc(ctx, func() { h.Close() })()
	ready(Targets{HTTP: fmt.Sprintf("http://%s/", ln.Addr()), NATS: n.ClientURL()})
	if err := h.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// discard discards a request.
func discard(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
