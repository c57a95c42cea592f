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

	"signalbox/scripts/bench/packet"
	"signalbox/scripts/suite"
)

// The knobs of streams: how many messages are published, and how often the
// broker is ended meanwhile.
const (
	messagesKnob = "SIGNALBOX_CRASH_STREAM_MESSAGES"
	endsKnob     = "SIGNALBOX_CRASH_STREAM_ENDS"
)

// TestCampaignStreams kills the program while streams keep what is published.
// The broker's own database may be ahead of that of the streams, and behind it.
func TestCampaignStreams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ broker, streams string }{{"full", "full"}, {"process", "full"}, {"full", "process"}} {
		t.Run(c.broker+", streams "+c.streams, func(t *testing.T) {
			t.Parallel()
			s := newSignalbox(t, "SIGNALBOX_BROKER_DURABILITY="+c.broker, "SIGNALBOX_STREAMS_DURABILITY="+c.streams)
			newPlantation(s, suite.Seed(t), int(knob(t, messagesKnob, 20_000))).play(t, int(knob(t, endsKnob, 3)))
		})
	}
}

// The streams: one keeps messages as they are, one makes tallies of them.
const (
	keptAsIs = "record"
	reckoned = "tally"
)

// plantation is a broker with two streams, publishers whose messages they keep,
// and what was promised to these.
type plantation struct {
	server     *server
	ledger     *ledger
	dice       *rand.Rand
	publishers []*publisher
	total      int // messages to be published
}

// newPlantation makes the publishers. Half of them come back now and then to send
// again what the broker may still be about to store.
func newPlantation(s *server, seed uint64, messages int) *plantation {
	qos := []byte{1, 2, 1, 2}
	p := &plantation{server: s, ledger: newLedger(qos...), dice: rand.New(rand.NewPCG(seed, 0))}
	each := max(1, messages/len(qos))
	p.total = each * len(qos)
	for n, q := range qos {
		p.publishers = append(p.publishers, &publisher{server: s, ledger: p.ledger, number: n, name: fmt.Sprintf("publisher-%d", n), qos: q,
			dice: rand.New(rand.NewPCG(p.dice.Uint64(), 0)), pause: new(atomic.Bool), goal: each, window: 50, write: message.document,
			breaks: n / 2 * 500})
	}
	return p
}

// play has everything published while the broker is ended and started that many
// times, and then looks at what the streams hold.
func (p *plantation) play(t *testing.T, ends int) {
	ctx, cancel := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	defer p.report(t)
	defer publishing.Wait()
	defer cancel()
	if err := p.server.start(ctx); err != nil {
		t.Fatal(err)
	}
	p.plant(ctx, t)
	for _, one := range p.publishers {
		publishing.Go(func() { one.run(ctx, nil) })
	}
	for _, at := range p.moments(ends) {
		p.reach(t, at)
		p.endAndStart(ctx, t)
	}
	p.reach(t, p.total)
	p.reap(ctx, t)
}

// plant creates the streams.
func (p *plantation) plant(ctx context.Context, t *testing.T) {
	t.Helper()
	query := json.RawMessage(fmt.Sprintf(`{"select":[{"source":"[p]","target":"[p]"},{"source":"[n]","target":"[n]"},
		{"source":"","target":"[count]","function":{"name":"count"}},{"source":"[v]","target":"[sum]","function":{"name":"sum"}},
		{"source":"","target":"[bucket]","function":{"name":"time_bucket","intervalsize":%d}}]}`, bucketSize))
	for _, o := range []order{
		{"streamname": keptAsIs},
		{"streamname": reckoned, "process": true, "query": query},
	} {
		o["command"], o["sourcetopic"], o["persist"] = "createStream", everything, true
		if err := askStreams(ctx, p.server, o, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// moments are how many messages are acknowledged when the broker is ended.
func (p *plantation) moments(ends int) (list []int) {
	for range ends {
		list = append(list, p.dice.IntN(p.total))
	}
	slices.Sort(list)
	return list
}

// reach waits until that many messages are acknowledged.
func (p *plantation) reach(t *testing.T, acknowledged int) {
	t.Helper()
	for last, deadline := -1, time.Now(); ; tick(t) {
		now := p.ledger.acknowledgedInAll()
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

// endAndStart ends the broker in the middle of a replay, mostly at once. What
// was acknowledged before must be counted after.
func (p *plantation) endAndStart(ctx context.Context, t *testing.T) {
	t.Helper()
	p.replay(ctx, t, keptAsIs, "nowhere", 1)
	end := os.Signal(syscall.SIGKILL)
	if p.dice.IntN(6) == 0 {
		end = syscall.SIGTERM
	}
	if err := p.server.end(end); err != nil {
		t.Fatal(err)
	}
	acknowledged := p.ledger.acknowledgedInAll()
	if err := p.server.start(ctx); err != nil {
		t.Fatal(err)
	}
	for _, stream := range []string{keptAsIs, reckoned} {
		if count := p.count(ctx, t, stream); count < acknowledged {
			p.ledger.complain("stream %s holds %d messages after end %d of the broker, and %d were acknowledged before",
				stream, count, p.server.gate.life-1, acknowledged)
		}
	}
	if t.Failed() || len(p.ledger.complained()) > 0 {
		t.Fatalf("in life %d of the broker", p.server.gate.life)
	}
}

func (p *plantation) count(ctx context.Context, t *testing.T, stream string) int {
	t.Helper()
	var data struct{ Count int }
	if err := askStreams(ctx, p.server, order{"command": "getStreamMessageCount", "streamname": stream}, &data); err != nil {
		t.Fatal(err)
	}
	return data.Count
}

// replay begins a replay, which no other may hinder that an earlier life began.
func (p *plantation) replay(ctx context.Context, t *testing.T, stream, topic string, speed float64) {
	t.Helper()
	o := order{"command": "replayStream", "streamname": stream, "replaytopic": topic, "speed": speed}
	if err := askStreams(ctx, p.server, o, nil); err != nil {
		t.Fatal(err)
	}
}

// reap replays both streams and judges what comes.
func (p *plantation) reap(ctx context.Context, t *testing.T) {
	t.Helper()
	asIs := newHarvest(p.ledger, keptAsIs)
	p.read(ctx, t, asIs, func(payload []byte) bool {
		m, ok := readDocument(payload)
		asIs.take(m)
		return ok
	})
	tallies := &reckoning{harvest: newHarvest(p.ledger, reckoned)}
	p.read(ctx, t, tallies.harvest, func(payload []byte) bool {
		var one tally
		err := json.Unmarshal(payload, &one)
		tallies.take(one)
		return err == nil
	})
	t.Logf("stream %s holds %d messages, stream %s %d in %d buckets", keptAsIs, asIs.taken, reckoned, tallies.taken, tallies.buckets)
}

// read has a client read the replay of a stream to its end.
func (p *plantation) read(ctx context.Context, t *testing.T, h *harvest, take func(payload []byte) (ok bool)) {
	t.Helper()
	topic := "replay/" + h.stream
	l, err := connect(ctx, p.server, packet.Login{ClientID: "reader", Clean: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	l.subscribe(topic, 1)
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	if first, _, err := l.next(time.Now().Add(suite.HangLimit)); first != packet.Suback {
		t.Fatalf("got packet %#x and %v instead of SUBACK", first, err)
	}
	count := p.count(ctx, t, h.stream)
	p.replay(ctx, t, h.stream, topic, 0)
	for wait := suite.HangLimit; ; {
		first, body, err := l.next(time.Now().Add(wait))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := l.replayed(first, body, take); err != nil {
			t.Fatalf("packet %#x after %d messages of stream %s: %v", first, h.taken, h.stream, err)
		}
		if h.taken >= count { // what comes now would be one too many
			wait = 2 * idle
		}
	}
	h.finish(count)
}

// replayed hands on a message and acknowledges it, with others that came
// with it.
func (l *link) replayed(first byte, body []byte, take func(payload []byte) bool) error {
	m, ok := l.readPublish(first, body)
	if packet.Kind(first) != packet.Publish || !ok || m.QoS != 1 || m.Dup || m.Retain || !take(m.Payload) {
		return errWrongPacket
	}
	l.out = packet.AppendAck(l.out, packet.Puback, m.ID)
	if l.in.More() {
		return nil
	}
	return l.flush()
}

// report has the test fail with all complaints, and tells what was done.
func (p *plantation) report(t *testing.T) {
	t.Helper()
	for _, complaint := range p.ledger.complained() {
		t.Error(complaint)
	}
	t.Logf("%d messages published, %d lives of the broker", sum(p.ledger.sentUpTo()), p.server.gate.life)
}
