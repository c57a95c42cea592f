package cluster

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// refusedEvery is how often refused connections are logged at most.
const refusedEvery = time.Minute

// refusals counts refused connections, and limits how often they are logged.
type refusals struct {
	all atomic.Uint64

	mu     sync.Mutex // guards what follows
	logged time.Time
	since  int // refused since the last log entry
}

// note counts a refusal. It reports whether it is to be logged, and returns how many others were
// not since the last log entry.
func (r *refusals) note(now time.Time) (others int, isLogged bool) {
	r.all.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.logged.IsZero() && now.Sub(r.logged) < refusedEvery {
		r.since++
		return 0, false
	}
	others, r.since, r.logged = r.since, 0, now
	return others, true
}

// refuse counts a refused connection and logs it, at most once a minute. A connection that ends by
// itself before its node is known is not counted.
func (p *port) refuse(g *inboundConn, why error) {
	if errors.Is(why, io.EOF) || errors.Is(why, syscall.ECONNRESET) || p.ctx.Err() != nil {
		return
	}
	others, isLogged := p.refusals.note(time.Now())
	log := p.log.Debug
	if isLogged {
		log = p.log.Warn
	}
	log("a connection to the cluster port is refused", "address", g.raw.RemoteAddr().String(), "error", why, "others", others)
}
