package appliance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"
	"time"
)

// diagnosticsFile is the socket in the data directory at which a running service describes
// itself. It is for the owner of the directory only, who may read all that is in it anyway. It
// takes no request: each connection is sent one description.
const diagnosticsFile = "diagnostics.sock"

const (
	diagnosticsTime = 10 * time.Second // for one description
	maxDiagnostics  = 64 << 20         // bytes of one
)

// Diagnostics is how a running service describes itself.
type Diagnostics struct {
	Version    string    `json:"version"`
	PID        int       `json:"pid"`
	Started    time.Time `json:"started"`
	Addresses  []string  `json:"addresses"` // that it listens on
	NotReady   string    `json:"not_ready,omitempty"`
	OpenFiles  int       `json:"open_files"` // limit; 0 if it is not known
	Forwarded  int64     `json:"forwarded"`  // requests through proxies that are not trusted
	Peers      []Peer    `json:"peers"`
	Metrics    string    `json:"metrics,omitempty"`
	Goroutines string    `json:"goroutines,omitempty"`
}

// Peer is another node of the cluster of the broker in this process.
type Peer struct {
	Node    int           `json:"node"`
	Address string        `json:"address"`
	Ahead   time.Duration `json:"ahead"` // of its clock
	Error   string        `json:"error,omitempty"`
}

// startDiagnostics starts to describe the service to those who connect to the socket. Without it the
// service runs, too.
func (a *Appliance) startDiagnostics(context.Context) error {
	path := filepath.Join(a.cfg.DataDir, diagnosticsFile)
	os.Remove(path) //nolint:errcheck // of a process that was killed: the lock excludes another one
	l, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		a.log.Warn("\"signalbox doctor\" will not learn what the running service knows about itself", "path", path, "error", err)
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { a.describeAll(ctx, l) })
	a.undo.add(func() error {
		cancel()
		l.Close() //nolint:errcheck // the file may have been deleted
		running.Wait()
		return nil
	})
	return nil
}

// describeAll answers connections, one after the other.
func (a *Appliance) describeAll(ctx context.Context, l net.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return
		}
		if err != nil { // such as too many open files, which is when the description is wanted
			a.log.Warn("a connection to the diagnostics socket failed", "error", err)
			select {
			case <-time.After(diagnosticsTime):
				continue
			case <-ctx.Done():
				return
			}
		}
		stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // the service ends
		conn.SetDeadline(time.Now().Add(diagnosticsTime))       //nolint:errcheck // then writing takes as long as it takes
		if err := json.NewEncoder(conn).Encode(a.describe(ctx)); err != nil {
			a.log.Debug("a description of the service was not read", "error", err)
		}
		stop()
		conn.Close() //nolint:errcheck // all was written, or its reader has gone
	}
}

// describe describes the service.
func (a *Appliance) describe(ctx context.Context) Diagnostics {
	ctx, cancel := context.WithTimeout(ctx, diagnosticsTime)
	defer cancel()
	d := Diagnostics{Version: a.program.Version, PID: os.Getpid(), Started: a.started, OpenFiles: openFiles(), Peers: []Peer{},
		Addresses: []string{a.server.Addr()}, Forwarded: a.server.UntrustedProxyRequests()}
	for _, text := range a.Broker {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			d.Addresses = append(d.Addresses, u.Host)
		}
	}
	if err := a.isReady(ctx); err != nil {
		d.NotReady = err.Error()
	}
	if a.broker != nil {
		for _, p := range a.broker.ClusterPeers(ctx) {
			peer := Peer{Node: p.Node, Address: p.Address, Ahead: p.Ahead}
			if p.Err != nil {
				peer.Error = p.Err.Error()
			}
			d.Peers = append(d.Peers, peer)
		}
	}
	var metrics bytes.Buffer
	if err := a.server.WriteMetrics(&metrics); err != nil {
		fmt.Fprintf(&metrics, "# not complete: %v\n", err)
	}
	d.Metrics, d.Goroutines = metrics.String(), goroutines()
	return d
}

// maxStacks bounds the stacks of goroutines, and with them how long the program stands still.
const maxStacks = 4 << 20

var stackArguments = regexp.MustCompile(`(?m)^(\S.*)\([^()\n]*\)$`)

// goroutines returns the stacks of all goroutines without the arguments of functions.
func goroutines() string {
	stacks := make([]byte, maxStacks)
	return stackArguments.ReplaceAllString(string(stacks[:runtime.Stack(stacks, true)]), "$1(...)")
}

// AskRunning asks the service that runs on a data directory to describe itself. nil and no error:
// none runs.
func AskRunning(ctx context.Context, c Config) (*Diagnostics, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*diagnosticsTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(c.DataDir, diagnosticsFile))
	if err != nil {
		if running, _ := isLocked(c.DataDir); !running {
			return nil, nil
		}
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // it was only read
	if until, ok := ctx.Deadline(); ok {
		conn.SetDeadline(until) //nolint:errcheck // the context ends it, too
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })() //nolint:errcheck // as above
	d := &Diagnostics{}
	return d, json.NewDecoder(io.LimitReader(conn, maxDiagnostics)).Decode(d)
}
