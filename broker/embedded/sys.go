package embedded

import (
	"fmt"
	"maps"
	"math"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/embedded/engine"
)

// sysPrefix begins the topics in which a broker tells about itself.
const sysPrefix = "$SYS/broker/"

// samplesKept is how many samples are remembered.
const samplesKept = 60

// sysTree publishes the broker's figures under $SYS, under Mosquitto's names,
// and remembers the last samples.
type sysTree struct {
	b     *Broker
	loads []*load // touched by tick only

	mu       sync.Mutex // guards what follows
	started  time.Time
	last     map[string]string // as published
	rates    map[string]string // the loads as of the last tick
	history  []broker.SysTopics
	heapHigh uint64
}

func newSysTree(b *Broker) *sysTree {
	s := &sysTree{b: b, started: b.now(), last: map[string]string{}}
	count := func(name string, of func(engine.Counts) int64) {
		s.loads = append(s.loads, &load{name: name, count: of})
	}
	count("messages/received", func(c engine.Counts) int64 { return c.PacketsReceived })
	count("messages/sent", func(c engine.Counts) int64 { return c.PacketsSent })
	count("publish/received", func(c engine.Counts) int64 { return c.PublishesReceived })
	count("publish/sent", func(c engine.Counts) int64 { return c.PublishesSent })
	count("publish/dropped", dropped)
	count("bytes/received", func(c engine.Counts) int64 { return b.bytesReceived(c) })
	count("bytes/sent", func(c engine.Counts) int64 { return b.bytesSent(c) })
	count("sockets", func(engine.Counts) int64 { return b.traffic.Accepted.Load() })
	count("connections", func(c engine.Counts) int64 { return c.Connections })
	return s
}

// bytesReceived and bytesSent are those on the wire.
func (b *Broker) bytesReceived(c engine.Counts) int64 {
	return b.traffic.Received.Load() + c.BytesReceived
}

func (b *Broker) bytesSent(c engine.Counts) int64 { return b.traffic.Sent.Load() + c.BytesSent }

// dropped is how many messages did not reach a client.
func dropped(c engine.Counts) (n int64) {
	for _, one := range c.Dropped {
		n += one
	}
	return n
}

// tick takes a sample and publishes what changed since the last one.
func (s *sysTree) tick() {
	now := s.b.now()
	rates, counts := map[string]string{}, s.b.engine.Counts()
	for _, l := range s.loads {
		l.update(now, l.count(counts), rates)
	}
	s.mu.Lock()
	s.rates = rates
	s.mu.Unlock()

	topics := s.figures()
	for _, topic := range s.keep(topics, now) {
		s.b.engine.Publish(&engine.Message{ //nolint:errcheck // nothing of it is stored
			Topic: topic, Payload: []byte(topics[topic]), Retain: true, CreatedAt: now.UnixMilli(),
		})
	}
}

// keep remembers a sample and gives the topics that changed, in order.
func (s *sysTree) keep(topics map[string]string, now time.Time) (changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, value := range topics {
		if old, ok := s.last[topic]; !ok || old != value {
			changed = append(changed, topic)
		}
	}
	s.last = topics
	if len(s.history) == samplesKept {
		s.history = slices.Delete(s.history, 0, 1)
	}
	s.history = append(s.history, broker.SysTopics{Topics: topics, Date: now.UnixMilli()})
	slices.Sort(changed)
	return changed
}

// figures gives all topics with their values now; the loads are those of the
// last tick.
func (s *sysTree) figures() map[string]string {
	f := figures{}
	counts := s.b.engine.Counts()
	s.clients(f, counts)
	s.traffic(f, counts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process(f)
	maps.Copy(f, s.rates)
	return f
}

// figures are topics with their values.
type figures map[string]string

func (f figures) count(name string, n int64) {
	f[sysPrefix+name] = strconv.FormatInt(n, 10)
}

func (s *sysTree) clients(f figures, c engine.Counts) {
	f.count("clients/total", c.Sessions)
	f.count("clients/connected", c.Connected)
	f.count("clients/active", c.Connected)
	f.count("clients/disconnected", max(c.Sessions-c.Connected, 0))
	f.count("clients/inactive", max(c.Sessions-c.Connected, 0))
	f.count("clients/maximum", c.Maximum)
	f.count("clients/expired", c.Expired)
}

func (s *sysTree) traffic(f figures, c engine.Counts) {
	f.count("messages/received", c.PacketsReceived)
	f.count("messages/sent", c.PacketsSent)
	f.count("publish/messages/received", c.PublishesReceived)
	f.count("publish/messages/sent", c.PublishesSent)
	f.count("publish/messages/dropped", dropped(c))
	f.count("publish/bytes/received", c.PayloadReceived)
	f.count("publish/bytes/sent", c.PayloadSent)
	f.count("bytes/received", s.b.bytesReceived(c))
	f.count("bytes/sent", s.b.bytesSent(c))
	f.count("subscriptions/count", c.Subscriptions)
	f.count("retained messages/count", c.Retained)
}

// process tells about this process. s.mu is held.
func (s *sysTree) process(f figures) {
	heap := heapInUse()
	s.heapHigh = max(s.heapHigh, heap)
	f.count("heap/current", int64(heap))
	f.count("heap/maximum", int64(s.heapHigh))
	f[sysPrefix+"uptime"] = fmt.Sprintf("%d seconds", int64(s.b.now().Sub(s.started).Seconds()))
	f[sysPrefix+"version"] = versionText(s.b.config.Version)
}

func versionText(version string) string {
	if version == "" {
		return "signalbox"
	}
	return "signalbox version " + version
}

func heapInUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// load is the growth of a counter per minute, as moving averages over 1, 5 and
// 15 minutes that forget exponentially.
type load struct {
	name     string
	count    func(engine.Counts) int64
	at       time.Time
	seen     int64
	averages [3]float64
}

func (l *load) update(now time.Time, n int64, into map[string]string) {
	if minutes := now.Sub(l.at).Minutes(); !l.at.IsZero() && minutes > 0 {
		rate := float64(n-l.seen) / minutes
		for i, span := range [3]float64{1, 5, 15} {
			l.averages[i] = rate + math.Exp(-minutes/span)*(l.averages[i]-rate)
		}
	}
	l.at, l.seen = now, n
	for i, span := range [3]string{"1min", "5min", "15min"} {
		into[sysPrefix+"load/"+l.name+"/"+span] = strconv.FormatFloat(l.averages[i], 'f', 2, 64)
	}
}
