package mesh

import (
	"cmp"
	"log/slog"
	"sync"
	"time"
)

// logInterval is the minimum interval between log entries.
const logInterval = time.Minute

// LossReason is the reason why sessions miss messages that were acknowledged.
type LossReason int

// The reasons, in the order of metrics.
const (
	// LostUnreachable means that the node of the sessions was unreachable for too long, and they have
	// ended with it or it was removed.
	LostUnreachable LossReason = iota
	// LostSuperseded means that the messages were queued in a session whose client has begun
	// another session at another node meanwhile.
	LostSuperseded
	lossReasons
)

// String returns the name used in metrics and logs.
func (r LossReason) String() string {
	return [...]string{"node-unreachable", "session-superseded"}[r]
}

// LossReasons returns all reasons.
func LossReasons() []LossReason { return []LossReason{LostUnreachable, LostSuperseded} }

// Losses counts messages above QoS 0 that were acknowledged to their publishers although
// sessions at another node, or moved there, miss them: once for each node. The first loss is
// logged at once, later ones as totals, at most once a minute. All methods are safe for
// concurrent use.
type Losses struct {
	log *slog.Logger

	mu     sync.Mutex // guards what follows; a leaf lock, held briefly
	totals [lossReasons]int64
	recent map[lossKey]int64 // not logged yet, by node and reason
	timer  *time.Timer       // runs while something is to be logged
	logged time.Time
}

// lossKey is what losses are grouped by. The node is the unreachable one, or that with the
// newer session.
type lossKey struct {
	reason LossReason
	node   int
}

// NewLosses returns a counter that logs to log, which may be nil.
func NewLosses(log *slog.Logger) *Losses {
	return &Losses{log: cmp.Or(log, slog.New(slog.DiscardHandler)), recent: map[lossKey]int64{}}
}

// Add counts messages.
func (l *Losses) Add(reason LossReason, node, messages int) {
	if messages == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.totals[reason] += int64(messages)
	l.recent[lossKey{reason, node}] += int64(messages)
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(l.logged.Add(logInterval)), l.Report)
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
	l.recent, l.logged = map[lossKey]int64{}, time.Now()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	l.mu.Unlock()
	for key, messages := range recent {
		l.log.Warn("sessions at another node missed acknowledged messages", "reason", key.reason.String(),
			"node", key.node, "messages", messages, "total", totals[key.reason])
	}
}
