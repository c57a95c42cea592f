package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// The variables of the stream campaign: how many messages are published, and how often the
// broker is ended meanwhile.
const (
	messagesVariable = "SIGNALBOX_CRASH_STREAM_MESSAGES"
	endsVariable     = "SIGNALBOX_CRASH_STREAM_ENDS"
)

// TestCampaignStreams kills the program while streams store what is published.
// The broker's own database may be ahead of that of the streams, and behind it.
func TestCampaignStreams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ broker, streams string }{{"full", "full"}, {"process", "full"}, {"full", "process"}} {
		t.Run(c.broker+", streams "+c.streams, func(t *testing.T) {
			t.Parallel()
			s := newSignalbox(t, "SIGNALBOX_BROKER_DURABILITY="+c.broker, "SIGNALBOX_STREAMS_DURABILITY="+c.streams)
			newStreamCampaign(s, suite.Seed(t), suite.FromEnvironment(t, messagesVariable, 20_000)).run(t, suite.FromEnvironment(t, endsVariable, 3))
		})
	}
}

// The streams: one stores messages as they are, one aggregates them.
const (
	recordStream = "record"
	tallyStream  = "tally"
)

// streamCampaign is a broker with two streams, the publishers whose messages they
// store, and what was acknowledged to these.
type streamCampaign struct {
	server     *server
	expected   *expectedState
	rng        *rand.Rand
	publishers []*publisher
	total      int // messages to be published
}

// newStreamCampaign creates the publishers. Half of them reconnect now and then to send
// again what the broker may still be about to store.
func newStreamCampaign(s *server, seed uint64, messages int) *streamCampaign {
	qos := []byte{1, 2, 1, 2}
	p := &streamCampaign{server: s, expected: newExpectedState(qos...), rng: rand.New(rand.NewPCG(seed, 0))}
	each := max(1, messages/len(qos))
	p.total = each * len(qos)
	for n, q := range qos {
		p.publishers = append(p.publishers, &publisher{server: s, expected: p.expected, number: n, name: fmt.Sprintf("publisher-%d", n), qos: q,
			rng: rand.New(rand.NewPCG(p.rng.Uint64(), 0)), pause: new(atomic.Bool), total: each, window: 50, write: message.document,
			cutEvery: n / 2 * 500})
	}
	return p
}

// run publishes everything while the broker is ended and started that many times, and
// then checks what the streams hold.
func (p *streamCampaign) run(t *testing.T, ends int) {
	ctx, cancel := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	defer p.report(t)
	defer publishing.Wait()
	defer cancel()
	if err := p.server.start(ctx); err != nil {
		t.Fatal(err)
	}
	p.createStreams(ctx, t)
	for _, one := range p.publishers {
		publishing.Go(func() { one.run(ctx, nil) })
	}
	for _, at := range p.endPoints(ends) {
		p.awaitAcknowledged(t, at)
		p.endAndStart(ctx, t)
	}
	p.awaitAcknowledged(t, p.total)
	p.checkStreams(ctx, t)
}

// createStreams creates the streams.
func (p *streamCampaign) createStreams(ctx context.Context, t *testing.T) {
	t.Helper()
	query := json.RawMessage(fmt.Sprintf(`{"select":[{"source":"[p]","target":"[p]"},{"source":"[n]","target":"[n]"},
		{"source":"","target":"[count]","function":{"name":"count"}},{"source":"[v]","target":"[sum]","function":{"name":"sum"}},
		{"source":"","target":"[bucket]","function":{"name":"time_bucket","intervalsize":%d}}]}`, bucketSize))
	for _, o := range []command{
		{"streamname": recordStream},
		{"streamname": tallyStream, "process": true, "query": query},
	} {
		o["command"], o["sourcetopic"], o["persist"] = "createStream", allTopics, true
		if err := runStreamCommand(ctx, p.server, o, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// endPoints returns how many messages are acknowledged each time the broker is ended.
func (p *streamCampaign) endPoints(ends int) (list []int) {
	for range ends {
		list = append(list, p.rng.IntN(p.total))
	}
	slices.Sort(list)
	return list
}

// awaitAcknowledged waits until that many messages are acknowledged.
func (p *streamCampaign) awaitAcknowledged(t *testing.T, acknowledged int) {
	t.Helper()
	for last, deadline := -1, time.Now(); ; pollPause(t) {
		now := p.expected.acknowledgedInAll()
		if now >= acknowledged {
			return
		}
		if now != last {
			last, deadline = now, time.Now().Add(suite.HangLimit)
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %d messages are acknowledged, and no more come", suite.HangLimit, now)
		}
	}
}

// endAndStart ends the broker in the middle of a replay, mostly with SIGKILL. What
// was acknowledged before must be counted afterwards.
func (p *streamCampaign) endAndStart(ctx context.Context, t *testing.T) {
	t.Helper()
	p.replay(ctx, t, recordStream, "nowhere", 1)
	end := os.Signal(syscall.SIGKILL)
	if p.rng.IntN(6) == 0 {
		end = syscall.SIGTERM
	}
	if err := p.server.end(end); err != nil {
		t.Fatal(err)
	}
	acknowledged := p.expected.acknowledgedInAll()
	if err := p.server.start(ctx); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{recordStream, tallyStream} {
		if count := p.count(ctx, t, stream); count < acknowledged {
			p.expected.report("stream %s holds %d messages after end %d of the broker, and %d were acknowledged before",
				stream, count, p.server.gate.life-1, acknowledged)
		}
	}
	if t.Failed() || len(p.expected.reported()) > 0 {
		t.Fatalf("in life %d of the broker", p.server.gate.life)
	}
}

func (p *streamCampaign) count(ctx context.Context, t *testing.T, stream string) int {
	t.Helper()
	var data struct{ Count int }
	if err := runStreamCommand(ctx, p.server, command{"command": "getStreamMessageCount", "streamname": stream}, &data); err != nil {
		t.Fatal(err)
	}
	return data.Count
}

// replay starts a replay, which must not be refused because of one that an earlier life
// of the broker started.
func (p *streamCampaign) replay(ctx context.Context, t *testing.T, stream, topic string, speed float64) {
	t.Helper()
	o := command{"command": "replayStream", "streamname": stream, "replaytopic": topic, "speed": speed}
	if err := runStreamCommand(ctx, p.server, o, nil); err != nil {
		t.Fatal(err)
	}
}

// checkStreams replays both streams and checks what is delivered.
func (p *streamCampaign) checkStreams(ctx context.Context, t *testing.T) {
	t.Helper()
	records := newStreamChecker(p.expected, recordStream)
	p.read(ctx, t, records, func(payload []byte) bool {
		m, ok := readDocument(payload)
		records.add(m)
		return ok
	})
	tallies := &aggregateChecker{streamChecker: newStreamChecker(p.expected, tallyStream)}
	p.read(ctx, t, tallies.streamChecker, func(payload []byte) bool {
		var one tally
		err := json.Unmarshal(payload, &one)
		tallies.add(one)
		return err == nil
	})
	t.Logf("stream %s holds %d messages, stream %s %d in %d buckets", recordStream, records.count, tallyStream, tallies.count, tallies.buckets)
}

// read reads the replay of a stream to its end.
func (p *streamCampaign) read(ctx context.Context, t *testing.T, h *streamChecker, take func(payload []byte) (ok bool)) {
	t.Helper()
	topic := "replay/" + h.stream
	l, err := connect(ctx, p.server, packet.Login{ClientID: "reader", Clean: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.subscribe(topic, 1)
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if first, _, err := l.Next(time.Now().Add(suite.HangLimit)); first != packet.Suback {
		t.Fatalf("got packet %#x and %v instead of SUBACK", first, err)
	}
	count := p.count(ctx, t, h.stream)
	p.replay(ctx, t, h.stream, topic, 0)
	for wait := suite.HangLimit; ; {
		first, body, err := l.Next(time.Now().Add(wait))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := l.replayed(first, body, take); err != nil {
			t.Fatalf("packet %#x after %d messages of stream %s: %v", first, h.count, h.stream, err)
		}
		if h.count >= count { // what comes now is one too many
			wait = 2 * idle
		}
	}
	h.finish(count)
}

// replayed passes a message to take and acknowledges it, with others that came with
// it.
func (l *link) replayed(first byte, body []byte, take func(payload []byte) bool) error {
	m, ok := l.readPublish(first, body)
	if packet.Kind(first) != packet.Publish || !ok || m.QoS != 1 || m.Dup || m.Retain || !take(m.Payload) {
		return errWrongPacket
	}
	l.Out = packet.AppendAck(l.Out, packet.Puback, m.ID)
	if l.More() {
		return nil
	}
	return l.Flush()
}

// report fails the test with all violations, and logs what was done.
func (p *streamCampaign) report(t *testing.T) {
	t.Helper()
	for _, violation := range p.expected.reported() {
		t.Error(violation)
	}
	t.Logf("%d messages published, %d lives of the broker", sum(p.expected.sentUpTo()), p.server.gate.life)
}
