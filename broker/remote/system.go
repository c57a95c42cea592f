package remote

import (
	"context"
	"maps"
	"strings"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
)

// sysPrefix begins the topics by which a broker tells about itself.
const sysPrefix = "$SYS/"

// Bounds of the $SYS tree, which a broker may fill as it likes. What comes
// first stays; topics and values beyond are passed over or cut off.
const (
	maxSysTopics  = 2000
	maxSysTopic   = 256  // bytes
	maxSysValue   = 1024 // bytes
	maxSysSamples = 60
)

// sysTree is a broker's $SYS tree as last seen, with a history of samples.
type sysTree struct {
	now func() time.Time

	mu      sync.Mutex // guards the fields below
	topics  map[string]string
	at      time.Time // of the last change
	stale   bool      // what is there comes from an earlier session
	history []broker.SysTopics
}

func newSysTree(now func() time.Time) *sysTree {
	return &sysTree{now: now, topics: map[string]string{}}
}

// put takes a message in. A message without payload removes its topic.
func (t *sysTree) put(topic string, payload []byte) {
	if len(topic) > maxSysTopic {
		return
	}
	value := strings.ToValidUTF8(string(payload[:min(len(payload), maxSysValue)]), "")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stale {
		clear(t.topics)
		t.stale = false
	}
	_, known := t.topics[topic]
	switch {
	case value == "":
		delete(t.topics, topic)
	case known || len(t.topics) < maxSysTopics:
		t.topics[topic] = value
	}
	t.at = t.now()
}

// version is what the broker says that it is, "" where it does not tell.
func (t *sysTree) version() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stale {
		return ""
	}
	return t.topics[sysPrefix+"broker/version"]
}

// renew has the tree of an earlier session replaced by what comes next. Until
// then it stays, and its samples stay in any case.
func (t *sysTree) renew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale = true
}

// last gives a copy of the tree. The caller holds mu.
func (t *sysTree) last() broker.SysTopics {
	s := broker.SysTopics{Topics: maps.Clone(t.topics)}
	if !t.at.IsZero() {
		s.Date = t.at.UnixMilli()
	}
	return s
}

func (t *sysTree) snapshot() (broker.SysTopics, []broker.SysTopics) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last(), append([]broker.SysTopics{}, t.history...)
}

// sample adds the tree as it is now to the history; the oldest sample goes.
func (t *sysTree) sample() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.topics) == 0 {
		return
	}
	s := t.last()
	s.Date = t.now().UnixMilli()
	t.history = append(t.history, s)
	if over := len(t.history) - maxSysSamples; over > 0 {
		t.history = append([]broker.SysTopics{}, t.history[over:]...)
	}
}

// sample samples the $SYS tree while the broker is connected.
func (b *Broker) sample(ctx context.Context) {
	tick := time.NewTicker(b.timing.sample)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if b.link.status().Connected {
				b.sys.sample()
			}
		case <-ctx.Done():
			return
		}
	}
}

// SysTopics gives the $SYS tree as last seen, also while the broker is not
// connected, and up to 60 samples taken every 10 seconds. A broker that keeps
// its $SYS tree from this service's user has an empty one.
func (b *Broker) SysTopics(context.Context) (broker.SysTopics, []broker.SysTopics, error) {
	now, history := b.sys.snapshot()
	return now, history, nil
}

// GetLicense asks the broker for its licence. One that has no licence to show
// is Unsupported, as is Mosquitto.
func (b *Broker) GetLicense(ctx context.Context) (broker.License, error) {
	var l control.License
	if err := b.ask(ctx, broker.CapLicense, control.LicenseTopic, control.GetLicenseInformation(), &l); err != nil {
		return broker.License{}, err
	}
	return l.View(), nil
}

// ListListeners asks the broker where it accepts clients. A broker shows no
// certificates, and one that shows no ids gets them by their order, from 1.
func (b *Broker) ListListeners(ctx context.Context) ([]broker.Listener, error) {
	var l control.Listeners
	if err := b.ask(ctx, broker.CapListeners, control.BrokerTopic, control.ListListeners(), &l); err != nil {
		return nil, err
	}
	return l.View(), nil
}
