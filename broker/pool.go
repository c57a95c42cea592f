package broker

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// TLS describes how a connection to a broker is secured. Certificates and key are PEM;
// empty means the system's authorities, no client certificate. Fingerprint is that of the only
// certificate to be accepted, whatever Verify and CACert are; empty for none.
type TLS struct {
	CACert      string
	ClientCert  string
	ClientKey   Secret
	Verify      bool
	Fingerprint string
}

// SchemeUsesTLS reports whether a broker whose URL has the scheme is reached with TLS.
func SchemeUsesTLS(scheme string) bool {
	return slices.Contains([]string{"mqtts", "ssl", "wss"}, strings.ToLower(scheme))
}

// Target is a stored connection to a broker. Rev changes with every edit, so that a
// live connection of an older one is replaced. With TopicTree, the topics of a broker
// without a topic tree may be determined by subscribing to everything.
//
// With Membership the broker is that of another node of the cluster of the broker in this process, and
// is reached over the cluster port; URL, Username, Password and TLS are not used then. It begins with
// "UUID of the cluster/number of the node".
type Target struct {
	ID         string
	Rev        int64
	URL        string
	Username   string
	Password   Secret
	TLS        TLS
	Membership string
	TopicTree  bool
}

// Dial builds a live broker for a target. It validates and returns at once;
// the connection is made in the background. Its error is an *Error of kind
// Invalid.
type Dial func(t Target) (Broker, error)

// Pool holds the live brokers, one per target. The zero value is not usable.
type Pool struct {
	dial Dial

	closing sync.WaitGroup // connections replaced by a newer revision

	mu     sync.Mutex // protects the fields below; held while dialling, which does no I/O
	live   map[string]entry
	gone   map[string]struct{} // dropped; ids are never reused
	closed bool
}

type entry struct {
	rev    int64
	broker Broker
	pinned bool
}

// NewPool returns an empty pool.
func NewPool(dial Dial) *Pool {
	return &Pool{dial: dial, live: map[string]entry{}, gone: map[string]struct{}{}}
}

// Pin adds a broker in this process, under the id of its record. It stays whatever the
// revision, and the pool does not close it.
func (p *Pool) Pin(id string, b Broker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[id] = entry{broker: b, pinned: true}
}

// Live returns the broker of a record if it was dialled at this revision or a
// newer one, else nil.
func (p *Pool) Live(id string, rev int64) Broker {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := p.live[id]; ok && (e.pinned || e.rev >= rev) {
		return e.broker
	}
	return nil
}

// All returns the live brokers by the ids of their targets.
func (p *Pool) All() map[string]Broker {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make(map[string]Broker, len(p.live))
	for id, e := range p.live {
		all[id] = e.broker
	}
	return all
}

// Get returns the live broker of a target; it dials at most once per revision.
// The broker may not be connected yet. A connection of an older revision is
// closed in the background; Close waits for that.
func (p *Pool) Get(t Target) (Broker, error) {
	b, stale, err := p.take(t)
	if stale != nil {
		p.closing.Go(func() { stale.Close(context.Background()) }) //nolint:errcheck // its successor is available
	}
	return b, err
}

// take returns the broker of a target, dialled under the lock if necessary (which does
// no I/O), and the one that it replaces.
func (p *Pool) take(t Target) (b, stale Broker, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, &Error{Kind: Unavailable, Op: "connect", Msg: "the service is stopping"}
	}
	if _, gone := p.gone[t.ID]; gone {
		return nil, nil, &Error{Kind: NotFound, Op: "connect", Msg: "the broker connection was deleted"}
	}
	e, ok := p.live[t.ID]
	if ok && (e.pinned || e.rev >= t.Rev) {
		return e.broker, nil, nil
	}
	b, err = p.dial(t)
	if err != nil {
		return nil, nil, err
	}
	p.live[t.ID] = entry{rev: t.Rev, broker: b}
	return b, e.broker, nil
}

// Drop closes the broker of a deleted target. A request that read the record
// before it was deleted cannot connect to it again.
func (p *Pool) Drop(ctx context.Context, id string) error { return p.remove(ctx, id, true) }

// Release closes the broker of a target that is not stored at present, and may be again.
func (p *Pool) Release(ctx context.Context, id string) error { return p.remove(ctx, id, false) }

func (p *Pool) remove(ctx context.Context, id string, forGood bool) error {
	p.mu.Lock()
	e, ok := p.live[id]
	if !e.pinned {
		delete(p.live, id)
		if forGood {
			p.gone[id] = struct{}{}
		}
	}
	p.mu.Unlock()
	if !ok || e.pinned {
		return nil
	}
	return e.broker.Close(ctx)
}

// Unpin removes a broker in this process from its record.
func (p *Pool) Unpin(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live[id].pinned {
		delete(p.live, id)
	}
}

// Trial is the result of a test: the capabilities of a broker, what is missing, and how the
// attempt went.
type Trial struct {
	Capabilities []Capability
	Missing      []Missing
	Diagnosis    Diagnosis
}

// Try connects to a target that is not stored, waits for the outcome and closes the
// connection. It returns the broker's capabilities, or the cause as an *Error; how the attempt
// went in both cases.
func (p *Pool) Try(ctx context.Context, t Target) (Trial, error) {
	trial := Trial{Diagnosis: NewDiagnosis()}
	b, err := p.dial(t)
	if err != nil {
		return trial, err
	}
	defer b.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the test is over
	err = b.Ready(ctx)
	if d, ok := b.(Diagnoser); ok {
		trial.Diagnosis = d.Diagnose(err)
	}
	if err == nil {
		trial.Capabilities, trial.Missing = b.Capabilities(), b.Status().Missing
	}
	return trial, err
}

// Close closes every broker that the pool dialled and refuses new ones.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	live := p.live
	p.live = map[string]entry{}
	p.mu.Unlock()

	for _, e := range live {
		if !e.pinned {
			p.closing.Go(func() { e.broker.Close(ctx) }) //nolint:errcheck // nothing left to do with it
		}
	}
	done := make(chan struct{})
	go func() { p.closing.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
