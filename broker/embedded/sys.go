package embedded

import (
	"fmt"
	"maps"
	"math"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

	"signalbox/broker"
)

// sysPrefix begins the topics in which a broker tells about itself.
const sysPrefix = "$SYS/broker/"

const (
	sampleEvery = 10 * time.Second // as Mosquitto's sys_interval
	samplesKept = 60
)

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
	m := b.meters
	return &sysTree{b: b, started: b.now(), last: map[string]string{}, loads: []*load{
		{name: "messages/received", count: &m.packetsReceived},
		{name: "messages/sent", count: &m.packetsSent},
		{name: "publish/received", count: &m.publishesReceived},
		{name: "publish/sent", count: &m.publishesSent},
		{name: "publish/dropped", count: &m.publishesDropped},
		{name: "bytes/received", count: &m.bytesReceived},
		{name: "bytes/sent", count: &m.bytesSent},
		{name: "sockets", count: &m.sockets},
		{name: "connections", count: &m.connections},
	}}
}

// tick takes a sample and publishes what changed since the last one.
func (s *sysTree) tick() {
	now := s.b.now()
	rates := map[string]string{}
	for _, l := range s.loads {
		l.update(now, rates)
	}
	s.mu.Lock()
	s.rates = rates
	s.mu.Unlock()

	topics := s.figures()
	for _, topic := range s.keep(topics, now) {
		s.b.publish(packets.Packet{
			FixedHeader: packets.FixedHeader{Retain: true},
			TopicName:   topic,
			Payload:     []byte(topics[topic]),
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
	s.clients(f)
	s.traffic(f)
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

func (s *sysTree) clients(f figures) {
	total, connected := int64(s.b.server.Clients.Len()), s.b.meters.connected.Load()
	away := max(total-connected, 0)
	f.count("clients/total", total)
	f.count("clients/connected", connected)
	f.count("clients/active", connected)
	f.count("clients/disconnected", away)
	f.count("clients/inactive", away)
	f.count("clients/maximum", s.b.meters.maximum.Load())
	f.count("clients/expired", s.b.meters.expired.Load())
}

func (s *sysTree) traffic(f figures) {
	m := s.b.meters
	f.count("messages/received", m.packetsReceived.Load())
	f.count("messages/sent", m.packetsSent.Load())
	f.count("publish/messages/received", m.publishesReceived.Load())
	f.count("publish/messages/sent", m.publishesSent.Load())
	f.count("publish/messages/dropped", m.publishesDropped.Load()+atomic.LoadInt64(&s.b.server.Info.InflightDropped))
	f.count("publish/bytes/received", m.payloadBytesReceived.Load())
	f.count("publish/bytes/sent", m.payloadBytesSent.Load())
	f.count("bytes/received", m.bytesReceived.Load())
	f.count("bytes/sent", m.bytesSent.Load())
	f.count("subscriptions/count", atomic.LoadInt64(&s.b.server.Info.Subscriptions))
	f.count("retained messages/count", int64(s.b.server.Topics.Retained.Len()))
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
	count    *atomic.Int64
	at       time.Time
	seen     int64
	averages [3]float64
}

func (l *load) update(now time.Time, into map[string]string) {
	n := l.count.Load()
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

// keepHouse does what is due by the clock until the broker closes.
func (b *Broker) keepHouse() {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	sample := time.NewTicker(sampleEvery)
	defer sample.Stop()
	for {
		select {
		case <-second.C:
			b.publishDue()
		case <-sample.C:
			b.sys.tick()
		case <-b.life.closing:
			return
		}
	}
}
