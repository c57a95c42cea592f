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

// sysPrefix is the prefix of a broker's topics about itself.
const sysPrefix = "$SYS/"

// logPrefix is the prefix of topics with log messages, which come between updates.
const logPrefix = sysPrefix + "broker/log/"

// Bounds of the $SYS tree. Further topics are ignored, longer values truncated.
const (
	maxSysTopics  = 2000
	maxSysTopic   = 256  // bytes
	maxSysValue   = 1024 // bytes
	maxSysSamples = 60
)

// sysTree is the latest state of a broker's $SYS tree, with a history of samples.
type sysTree struct {
	now func() time.Time

	mu       sync.Mutex // guards the fields below
	topics   map[string]string
	at       time.Time // of the last change
	reported time.Time // when the broker last published a value in this session
	stale    bool      // from an earlier session
	history  []broker.SysTopics
}

func newSysTree(now func() time.Time) *sysTree {
	return &sysTree{now: now, topics: map[string]string{}}
}

// put records a message. An empty payload removes the topic.
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

// receive records a message. One that the broker retained is as old as its last update, or
// older, so it does not count as a report.
func (t *sysTree) receive(topic string, payload []byte, retained bool) {
	t.put(topic, payload)
	if retained || strings.HasPrefix(topic, logPrefix) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reported = t.now()
}

// version returns the broker's version, or "".
func (t *sysTree) version() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stale {
		return ""
	}
	return t.topics[sysPrefix+"broker/version"]
}

// renew marks the tree as stale; the next message replaces it. Samples stay.
func (t *sysTree) renew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stale, t.reported = true, time.Time{}
}

// last returns a copy of the tree. t.mu must be held.
func (t *sysTree) last() broker.SysTopics {
	s := broker.SysTopics{Topics: maps.Clone(t.topics), Reported: t.reported}
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

// sample appends the tree to the history, and drops the oldest sample.
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

// after returns the samples that follow the one of a date.
func (t *sysTree) after(date int64) []broker.SysTopics {
	t.mu.Lock()
	defer t.mu.Unlock()
	return broker.SysAfter(t.history, date)
}

// update returns the tree if it was reported after a time and is complete.
func (t *sysTree) update(after time.Time) (broker.SysTopics, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reported.After(after) || t.now().Sub(t.reported) < updateTime {
		return broker.SysTopics{}, false
	}
	s := t.last()
	s.Date = t.reported.UnixMilli()
	return s, true
}

// isUpdating reports whether the broker has published a value so lately that others of the
// same update may follow.
func (t *sysTree) isUpdating() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !t.reported.IsZero() && t.now().Sub(t.reported) < updateTime
}

// sample samples the $SYS tree while the broker is connected.
func (b *Broker) sample(ctx context.Context) {
	tick := time.NewTicker(b.timing.sampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.awaitUpdate(ctx)
			if b.link.status().Connected {
				b.sys.sample()
			}
		case <-ctx.Done():
			return
		}
	}
}

// updateTime is how long a broker takes to publish all values of an update. A sample of a part
// of it would show rates that never were.
const updateTime = 500 * time.Millisecond

// awaitUpdate waits until an update in progress is complete.
func (b *Broker) awaitUpdate(ctx context.Context) {
	if !b.sys.isUpdating() {
		return
	}
	timer := time.NewTimer(updateTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// SysHistory returns the samples that follow the one of a date.
func (b *Broker) SysHistory(after int64) []broker.SysTopics { return b.sys.after(after) }

// SysUpdate returns the $SYS tree if it was reported after a time.
func (b *Broker) SysUpdate(after time.Time) (broker.SysTopics, bool) { return b.sys.update(after) }

// SysTopics returns the latest $SYS tree, also while the broker is not connected, and up to 60
// samples taken every 10 seconds. It is empty if this service's user may not read it.
func (b *Broker) SysTopics(context.Context) (broker.SysTopics, []broker.SysTopics, error) {
	now, history := b.sys.snapshot()
	return now, history, nil
}

// GetLicense returns the broker's licence. It is Unsupported if the broker has none, like
// Mosquitto.
func (b *Broker) GetLicense(ctx context.Context) (broker.License, error) {
	var l control.License
	if err := b.ask(ctx, broker.CapLicense, control.LicenseTopic, control.GetLicenseInformation(), &l); err != nil {
		return broker.License{}, err
	}
	return l.View(), nil
}

// ListListeners returns the broker's listeners, without certificates. Missing ids are numbered
// from 1.
func (b *Broker) ListListeners(ctx context.Context) ([]broker.Listener, error) {
	var l control.Listeners
	if err := b.ask(ctx, broker.CapListeners, control.BrokerTopic, control.ListListeners(), &l); err != nil {
		return nil, err
	}
	return l.View(), nil
}

// ListenerCertificate returns Unsupported: there is no command for it.
func (b *Broker) ListenerCertificate(context.Context, int) ([]byte, error) {
	return nil, &broker.Error{Kind: broker.Unsupported, Op: "getListenerCertificate", Feature: broker.CapListeners,
		Msg: "a broker that is reached over MQTT does not return the certificates of its listeners: a test of the broker connection shows those of its address"}
}
