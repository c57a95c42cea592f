package mesh

import (
	"cmp"
	"log/slog"
	"sync"
	"time"
)

// logEvery is how often losses are logged at most.
const logEvery = time.Minute

// LossReason is why sessions do not get messages that were acknowledged.
type LossReason int

// The reasons, in the order in which they are shown.
const (
	// LostUnreachable: the node that has the sessions was not reached for too long.
	LostUnreachable LossReason = iota
	// LostSuperseded: the messages waited in a session whose client has begun another
	// session at another node meanwhile.
	LostSuperseded
	lossReasons
)

// String names the reason as it is shown in metrics and logs.
func (r LossReason) String() string {
	return [...]string{"node-unreachable", "session-superseded"}[r]
}

// LossReasons are all there are.
func LossReasons() []LossReason { return []LossReason{LostUnreachable, LostSuperseded} }

// Losses counts messages above QoS 0 that were acknowledged to their publishers and
// that sessions elsewhere, or taken over from here, do not get: once for each node.
// The first is logged at once, later ones as totals, at most once a minute. All
// methods are safe for concurrent use.
type Losses struct {
	log *slog.Logger

	mu     sync.Mutex // guards what follows; an innermost lock, held for moments only
	totals [lossReasons]int64
	recent map[lossOf]int64 // not logged yet; one entry for each node and reason
	timer  *time.Timer      // runs while something is to be logged
	logged time.Time
}

// lossOf is what losses are added up by. The node is that which is not reached, or
// which has the other session.
type lossOf struct {
	reason LossReason
	node   int
}

// NewLosses returns a counter that logs to log, nil for none.
func NewLosses(log *slog.Logger) *Losses {
	return &Losses{log: cmp.Or(log, slog.New(slog.DiscardHandler)), recent: map[lossOf]int64{}}
}

// Add counts messages.
func (l *Losses) Add(reason LossReason, node, messages int) {
	if messages == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals[reason] += int64(messages)
	l.recent[lossOf{reason, node}] += int64(messages)
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(l.logged.Add(logEvery)), l.Report)
	}
}

// Total returns how many messages were lost for a reason since the start.
func (l *Losses) Total(reason LossReason) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals[reason]
}

// Report logs what has not been logged yet.
func (l *Losses) Report() {
	l.mu.Lock()
	recent, totals := l.recent, l.totals
	l.recent, l.logged = map[lossOf]int64{}, time.Now()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.mu.Unlock()
	for of, messages := range recent {
		l.log.Warn("acknowledged messages are lost to sessions at another node", "reason", of.reason.String(),
			"node", of.node, "messages", messages, "total", totals[of.reason])
	}
}
