package engine

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Quota bounds what all sessions together, or those of one username, may have. 0 means no
// bound. State that comes from the store, the log or another node is counted and never
// refused, so the counts may exceed the bounds, and are the same after a restart. In a
// cluster whose nodes all serve clients, each node counts its own sessions and all retained
// messages.
type Quota struct {
	Sessions          int64 `mapstructure:"sessions"`
	SessionBytes      int64 `mapstructure:"session_bytes"`      // an estimate of the memory of sessions without their subscriptions
	SubscriptionBytes int64 `mapstructure:"subscription_bytes"` // an estimate of the memory that subscriptions take
	QueuedBytes       int64 `mapstructure:"queued_bytes"`       // of messages in stored queues, counted for each queue
	RetainedMessages  int64 `mapstructure:"retained_messages"`  // counted for the publisher's username
	RetainedBytes     int64 `mapstructure:"retained_bytes"`     // topics, payloads and properties of these
}

// QuotaReason is a bound of a Quota.
type QuotaReason int

// The reasons, in the order in which they are shown.
const (
	QuotaSessions QuotaReason = iota
	QuotaSessionBytes
	QuotaSubscriptions
	QuotaQueued
	QuotaRetained
	QuotaRetainedBytes
	quotaReasons
)

// String returns the name of the bound in metrics.
func (r QuotaReason) String() string {
	return [...]string{"sessions", "session-bytes", "subscription-bytes", "queued-bytes", "retained-messages", "retained-bytes"}[r]
}

// QuotaReasons returns all bounds.
func QuotaReasons() []QuotaReason {
	return []QuotaReason{QuotaSessions, QuotaSessionBytes, QuotaSubscriptions, QuotaQueued, QuotaRetained, QuotaRetainedBytes}
}

// bounds returns the bounds of a Quota by their reasons.
func (q *Quota) bounds() [quotaReasons]int64 {
	return [quotaReasons]int64{q.Sessions, q.SessionBytes, q.SubscriptionBytes, q.QueuedBytes, q.RetainedMessages, q.RetainedBytes}
}

// usage is the present counts, by their reasons.
type usage [quotaReasons]atomic.Int64

// add adds n, even above the bound.
func (u *usage) add(what QuotaReason, n int64) { u[what].Add(n) }

// take adds n unless the result is above the bound.
func (u *usage) take(what QuotaReason, n, bound int64) bool {
	if now := u[what].Add(n); bound > 0 && now > bound && n > 0 {
		u[what].Add(-n)
		return false
	}
	return true
}

// quotas counts usage for the whole broker and for each username. Both change together with
// what they count, under the session's lock or retained.mu.
type quotas struct {
	broker, user [quotaReasons]int64 // the bounds
	unbounded    owner               // who has those of the broker only
	all          usage
	logged       [quotaReasons]atomic.Int64 // time of the last log entry, in epoch milliseconds

	mu    sync.Mutex // guards users
	users map[owner]*account
}

// owner is a username, or all clients without one.
type owner struct {
	name      string
	anonymous bool
}

// account is the usage of an owner. It exists as long as it has references.
type account struct {
	usage
	quotas *quotas
	owner  owner
	holds  int // guarded by quotas.mu
}

func newQuotas(c *Config) *quotas {
	return &quotas{broker: c.Quota.bounds(), user: c.UserQuota.bounds(), unbounded: owner{name: c.Unbounded}, users: map[owner]*account{}}
}

// hold returns the account of an owner with one more reference, which release releases.
func (q *quotas) hold(o owner) *account {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.users[o]
	if a == nil {
		a = &account{quotas: q, owner: o}
		q.users[o] = a
	}
	a.holds++
	return a
}

func (a *account) release() {
	if a == nil {
		return
	}
	a.quotas.mu.Lock()
	defer a.quotas.mu.Unlock()
	if a.holds--; a.holds == 0 {
		delete(a.quotas.users, a.owner)
	}
}

// add adds n to the account and to the broker, even above the bounds.
func (a *account) add(what QuotaReason, n int64) {
	if a != nil {
		a.usage.add(what, n)
		a.quotas.all.add(what, n)
	}
}

// take adds n to the account and to the broker unless a result is above its bound.
func (a *account) take(what QuotaReason, n int64) bool {
	if a == nil {
		return true
	}
	bound := a.quotas.user[what]
	if a.quotas.isUnbounded(a.owner) {
		bound = 0
	}
	if !a.usage.take(what, n, bound) {
		return false
	}
	if !a.quotas.all.take(what, n, a.quotas.broker[what]) {
		a.usage.add(what, -n)
		return false
	}
	return true
}

// isUnbounded reports whether an owner has the bounds of the broker only.
func (q *quotas) isUnbounded(o owner) bool { return o.name != "" && o == q.unbounded }

func (e *Engine) isUnbounded(o owner) bool { return e.quotas.isUnbounded(o) }

// refused counts a refusal because of a quota and, at most once a minute, logs it.
func (e *Engine) refused(what QuotaReason, clientID, username string) {
	e.meters.quota[what].Add(1)
	now, last := e.config.Now().UnixMilli(), e.quotas.logged[what].Load()
	if now >= last && now-last < time.Minute.Milliseconds() || !e.quotas.logged[what].CompareAndSwap(last, now) {
		return
	}
	e.config.Log.Warn("a quota of the broker or of a user was reached; raise broker.quota or broker.user_quota, or reduce what is stored",
		"quota", what.String(), "clientid", clientID, "username", username)
}

// subscriptionCost estimates the memory that a subscription takes, in bytes: its
// filter, and in the index something for each level.
func subscriptionCost(filter string) int64 {
	return int64(256 + len(filter) + 128*(1+strings.Count(filter, "/")))
}

// reserve reports whether the session may have a subscription beside those it has and
// those that are about to be added, and reserves what a new one costs.
func (s *Session) reserve(g *grant, added map[string]struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.subscribed.options[g.filter]
	_, again := added[g.filter]
	if known || again {
		return true
	}
	if limit := s.engine.config.MaxSubscriptions; limit > 0 && !s.engine.isUnbounded(s.owner()) && len(s.subscribed.options)+len(added) >= limit {
		return false
	}
	cost := subscriptionCost(g.filter)
	if !s.out.account.take(QuotaSubscriptions, cost) {
		s.engine.refused(QuotaSubscriptions, s.clientID, s.username)
		return false
	}
	g.account, g.reserved = s.out.account, cost
	added[g.filter] = struct{}{}
	return true
}

// unreserve releases what was reserved for a subscription that is not granted.
func (g *grant) unreserve() { g.account.add(QuotaSubscriptions, -g.reserved) }

// publisher returns to whom a retained message is charged. Messages of the broker itself
// count for the broker only.
func publisher(m *Message) owner { return owner{m.Username, m.Username == "" && m.Publisher != ""} }

func (q *quotas) retain(m *Message) {
	if !isDurable(m.Topic) {
		return
	}
	a := q.hold(publisher(m))
	a.add(QuotaRetained, 1)
	a.add(QuotaRetainedBytes, int64(m.size()))
}

func (q *quotas) unretain(m *Message) {
	if !isDurable(m.Topic) {
		return
	}
	a := q.hold(publisher(m))
	a.add(QuotaRetained, -1)
	a.add(QuotaRetainedBytes, -int64(m.size()))
	a.release()
	a.release() // the reference of retain
}

// over returns which quota a message would exceed as the retained message of its topic, or
// quotaReasons for none.
func (r *retained) over(m *Message) QuotaReason {
	if len(m.Payload) == 0 || !isDurable(m.Topic) {
		return quotaReasons
	}
	q, who := r.quotas, publisher(m)
	messages, bytes := int64(1), int64(m.size()) // more for the broker
	own, ownBytes := messages, bytes             // and for the publisher
	if before, had := r.index.Get(m.Topic); had {
		messages, bytes = 0, bytes-int64(before.size())
		if publisher(before) == who {
			own, ownBytes = messages, bytes
		}
	}
	a := q.hold(who)
	defer a.release()
	bounded := who != owner{} && !q.isUnbounded(who)
	switch {
	case exceeds(&q.all[QuotaRetained], messages, q.broker[QuotaRetained]),
		bounded && exceeds(&a.usage[QuotaRetained], own, q.user[QuotaRetained]):
		return QuotaRetained
	case exceeds(&q.all[QuotaRetainedBytes], bytes, q.broker[QuotaRetainedBytes]),
		bounded && exceeds(&a.usage[QuotaRetainedBytes], ownBytes, q.user[QuotaRetainedBytes]):
		return QuotaRetainedBytes
	}
	return quotaReasons
}

// exceeds reports whether n more is above a bound.
func exceeds(used *atomic.Int64, n, bound int64) bool {
	return bound > 0 && n > 0 && used.Load()+n > bound
}

// fits reports whether the quotas allow a message as the retained message of its topic.
func (r *retained) fits(m *Message) bool { return r.over(m) == quotaReasons }

// mayRetain reports whether the quotas allow a message, which may have no RETAIN flag. It
// counts refusals.
func (e *Engine) mayRetain(m *Message) bool {
	if !m.Retain {
		return true
	}
	e.retained.mu.Lock()
	what := e.retained.over(m)
	e.retained.mu.Unlock()
	if what == quotaReasons {
		return true
	}
	e.refused(what, m.Publisher, m.Username)
	return false
}
