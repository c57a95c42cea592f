package brokertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"signalbox/broker"
)

func streamReplayCases() []testCase {
	cases := []testCase{
		{name: "a replay gives what came from gte to lte, in order or in reverse, up to the limit", run: replaySelection},
		{name: "a replay of a stream that does not persist is refused", run: replayUnkept},
		{name: "a replay keeps all bytes and properties, and does not expire", run: replayProperties},
		{name: "a replay leaves the target alone", run: replayElsewhere},
		{name: "a replay may feed another stream", run: replayFeeds},
		{name: "a replay of 2,000 messages is whole and in order", run: replayMany},
		{name: "a replay at the original pace takes as long as the messages did, others as their factor says", run: replayPace},
		{name: "a replay that runs is shown, and stands alone", run: replayRunning},
		{name: "a replay in reverse keeps the distances", run: replayReversePace},
		{name: "a replay that is stopped sends no more", run: replayStop},
		{name: "a replay ends with its stream", run: replayDeleted},
		{name: "messages go through a stream while it is replayed, and are not replayed", run: replayMeanwhile},
	}
	for qos := -1; qos <= 2; qos++ {
		cases = append(cases, testCase{name: fmt.Sprintf("a replay at target QoS %d", qos), run: func(t *testing.T, s *fixture) { s.replayQoS(t, qos) }})
	}
	return cases
}

// endless is a speed at which a replay does not get past its first message, unless the others
// arrived in the same millisecond.
const endless = 1e-7

func replaySelection(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	before := f.spaced(t, "1", "2", "3", "4", "5")
	for _, c := range []struct {
		r    broker.StreamReplay
		want []string
	}{
		{broker.StreamReplay{Limit: -1}, []string{"1", "2", "3", "4", "5"}},
		{broker.StreamReplay{Limit: -1, Reverse: true}, []string{"5", "4", "3", "2", "1"}},
		{broker.StreamReplay{Limit: -1, GTE: &before[2]}, []string{"3", "4", "5"}},
		{broker.StreamReplay{Limit: -1, LTE: &before[2]}, []string{"1", "2"}},
		{broker.StreamReplay{Limit: -1, GTE: &before[1], LTE: &before[4]}, []string{"2", "3", "4"}},
		{broker.StreamReplay{Limit: -1, GTE: &before[1], LTE: &before[4], Reverse: true}, []string{"4", "3", "2"}},
		{broker.StreamReplay{Limit: -1, GTE: new(before[0] + 1000)}, nil},
		{broker.StreamReplay{Limit: -1, LTE: new(1.5)}, nil},
		{broker.StreamReplay{Limit: 0}, nil},
		{broker.StreamReplay{Limit: 2}, []string{"1", "2"}},
		{broker.StreamReplay{Limit: 2, Reverse: true}, []string{"5", "4"}},
		{broker.StreamReplay{Limit: 2, GTE: &before[1]}, []string{"2", "3"}},
		{broker.StreamReplay{Limit: 100}, []string{"1", "2", "3", "4", "5"}},
	} {
		f.replayToEnd(t, c.r)
		f.replays(t, c.want...)
		if t.Failed() {
			t.Fatalf("for %+v", c.r)
		}
	}
	if got := f.count(t); got != 5 {
		t.Errorf("%d messages are kept after replays, want 5", got)
	}
}

func replayUnkept(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{})
	wantKind(t, f.startReplay(t, broker.StreamReplay{Limit: -1}), broker.Conflict)
}

func replayProperties(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	expiring := properties()
	expiring.MessageExpiry = new(uint32(1000))
	f.send(t, &paho.Publish{QoS: 2, Payload: []byte("\x00\xffbinary"), Properties: expiring})
	f.send(t, &paho.Publish{QoS: 1, Payload: nil})
	f.awaitProcessed(t)
	f.replayToEnd(t, broker.StreamReplay{Limit: 1})
	wantMessage(t, f.mqtt5.collect(t, f.replay, 1), &paho.Publish{QoS: 2, Payload: []byte("\x00\xffbinary"), Properties: properties()})
	f.replayToEnd(t, broker.StreamReplay{Limit: 1, Reverse: true})
	wantMessage(t, f.mqtt5.collect(t, f.replay, 1), &paho.Publish{QoS: 1})
}

func (s *fixture) replayQoS(t *testing.T, target int) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true), TargetQoS: &target})
	var want []byte
	for source := range byte(3) {
		f.send(t, &paho.Publish{QoS: source, Payload: []byte{source}})
		f.awaitProcessed(t)
		want = append(want, source)
		if target >= 0 {
			want[source] = byte(target)
		}
	}
	f.replayToEnd(t, broker.StreamReplay{Limit: -1})
	var got []byte
	for _, m := range f.mqtt5.collect(t, f.replay, 3) {
		got = append(got, m.QoS)
	}
	if !slices.Equal(got, want) {
		t.Errorf("QoS of what was replayed: got %v, want %v", got, want)
	}
}

func replayElsewhere(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	f.publish(t, "1", "2")
	f.wants(t, "1", "2")
	f.awaitProcessed(t)
	f.replayToEnd(t, broker.StreamReplay{Limit: -1})
	f.replays(t, "1", "2")
	f.wants(t)
	if s := f.awaitProcessed(t); s.Replayed != 2 || s.Republished != 2 {
		t.Errorf("want 2 messages replayed and 2 republished: %+v", s)
	}
	f.replayToEnd(t, broker.StreamReplay{ReplayTopic: f.target, Limit: 1})
	f.wants(t, "1")
}

func replayFeeds(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	f.publish(t, "1", "2")
	f.awaitProcessed(t)
	next := s.flow(t, broker.StreamSpec{SourceTopic: &f.replay, Persist: new(true)})
	f.replayToEnd(t, broker.StreamReplay{Limit: -1})
	next.sent = 2
	next.awaitProcessed(t)
	next.wants(t, "1", "2")
}

func replayMany(t *testing.T, s *fixture) {
	const n = 2000
	f := s.flow(t, broker.StreamSpec{Persist: new(true), TargetTopic: new("")})
	batch, want := make([]*paho.Publish, n), make([]string, n)
	for i := range batch {
		want[i] = fmt.Sprint(i)
		batch[i] = &paho.Publish{Topic: f.topic, QoS: 1, Payload: []byte(want[i])}
	}
	f.mqtt5.burst(t, batch)
	f.sent = n
	f.awaitProcessed(t)
	f.replayToEnd(t, broker.StreamReplay{Limit: -1})
	f.replays(t, want...)
	f.replayToEnd(t, broker.StreamReplay{Limit: -1, Reverse: true})
	slices.Reverse(want)
	f.replays(t, want...)
}

// replayPace compares the duration of replays with that of the original messages: a replay at the
// original pace or slower takes no less; a faster one takes less, on a busy machine in a later
// attempt.
func replayPace(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	f.publish(t, "1")
	f.awaitProcessed(t)
	kept := time.Now()
	WaitFor(t, "half a second has gone by", afterDuration(500*time.Millisecond))
	distance := time.Since(kept) - time.Millisecond // times are stored in milliseconds
	f.publish(t, "2")
	f.awaitProcessed(t)
	took := func(speed float64) time.Duration {
		begin := time.Now()
		must(t, f.startReplay(t, broker.StreamReplay{Limit: -1, Speed: speed}))
		f.replays(t, "1", "2")
		WaitFor(t, "the replay has ended", func() bool { return !f.record(t).Replaying })
		return time.Since(begin)
	}
	for _, speed := range []float64{1, 0.5} {
		if got, least := took(speed), time.Duration(float64(distance)/speed); got < least {
			t.Errorf("a replay at speed %v took %v, and must take %v", speed, got, least)
		}
	}
	if got, least := took(2), distance/2; got < least {
		t.Errorf("a replay at speed 2 took %v, and must take %v", got, least)
	}
	for _, speed := range []float64{0, 100} {
		WaitFor(t, fmt.Sprintf("a replay at speed %v takes less time than the messages did", speed), func() bool { return took(speed) < distance })
	}
}

func replayRunning(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	before := f.spaced(t, "1", "2", "3", "4")
	asked := time.Now().UnixMilli()
	must(t, f.startReplay(t, broker.StreamReplay{Limit: -1, Speed: endless, GTE: &before[1]}))
	f.replays(t, "2")
	WaitFor(t, "the first message is counted", func() bool { r := f.record(t); return r.Replay != nil && r.Replay.Sent == 1 })
	r := f.record(t)
	if p := *r.Replay; !r.Replaying || p.ReplayTopic != f.replay || p.Total != 3 || p.StartedAt < asked ||
		p.StartedAt > time.Now().UnixMilli() || p.Speed != endless || p.Reverse {
		t.Errorf("replaying %t, %+v, asked for at %d", r.Replaying, p, asked)
	}
	if listed, _ := s.findStream(t, f.name); !listed.Replaying {
		t.Error("the list does not show that the stream is replayed")
	}
	wantKind(t, f.startReplay(t, broker.StreamReplay{Limit: -1}), broker.Conflict)
	other := s.flow(t, broker.StreamSpec{SourceTopic: &f.topic, Persist: new(true)})
	other.replayToEnd(t, broker.StreamReplay{Limit: -1})
	f.modify(t, broker.StreamSpec{TextName: new("changed meanwhile")})
	if !f.record(t).Replaying {
		t.Error("a change of the text ended the replay")
	}
	must(t, s.Broker.StopStreamReplay(t.Context(), f.name))
	if r := f.record(t); r.Replaying || r.Replay != nil || r.Stats.Replayed != 1 {
		t.Errorf("after the replay: replaying %t, %+v, %d replayed", r.Replaying, r.Replay, r.Stats.Replayed)
	}
	f.replayToEnd(t, broker.StreamReplay{Limit: 1})
	f.replays(t, "1")
}

func replayReversePace(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	f.spaced(t, "1", "2", "3")
	must(t, f.startReplay(t, broker.StreamReplay{Limit: -1, Speed: endless, Reverse: true}))
	f.replays(t, "3")
	if r := f.record(t); !r.Replaying || !r.Replay.Reverse {
		t.Errorf("replaying %t: %+v", r.Replaying, r.Replay)
	}
}

func replayStop(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	wantKind(t, s.Broker.StopStreamReplay(t.Context(), f.name), broker.Conflict)
	f.spaced(t, "1", "2")
	must(t, f.startReplay(t, broker.StreamReplay{Limit: -1, Speed: endless}))
	f.replays(t, "1")
	must(t, s.Broker.StopStreamReplay(t.Context(), f.name))
	wantKind(t, s.Broker.StopStreamReplay(t.Context(), f.name), broker.Conflict)
	f.replayToEnd(t, broker.StreamReplay{Limit: -1})
	f.replays(t, "1", "2")
}

func replayDeleted(t *testing.T, s *fixture) {
	spec := broker.StreamSpec{Persist: new(true)}
	f := s.flow(t, spec)
	f.spaced(t, "1", "2")
	must(t, f.startReplay(t, broker.StreamReplay{Limit: -1, Speed: endless}))
	f.replays(t, "1")
	must(t, s.Broker.DeleteStream(t.Context(), f.name))
	wantKind(t, s.Broker.StopStreamReplay(t.Context(), f.name), broker.NotFound)
	f.replays(t)
	spec.StreamName, spec.SourceTopic, spec.TargetTopic = f.name, &f.topic, &f.target
	s.createStream(t, spec)
	if r := f.record(t); r.Replaying {
		t.Error("a new stream is replayed as the old one with its name was")
	}
}

// replayMeanwhile publishes while a replay waits between two messages; on a slow machine it may
// have ended by then.
func replayMeanwhile(t *testing.T, s *fixture) {
	f := s.flow(t, broker.StreamSpec{Persist: new(true)})
	f.spaced(t, "1", "2")
	f.wants(t, "1", "2")
	must(t, f.startReplay(t, broker.StreamReplay{Limit: -1, Speed: 0.02}))
	f.publish(t, "3")
	f.awaitProcessed(t)
	f.wants(t, "3")
	WaitFor(t, "the replay has ended", func() bool { return !f.record(t).Replaying })
	f.replays(t, "1", "2")
	if got := f.count(t); got != 3 {
		t.Errorf("%d messages are kept, want 3", got)
	}
}
