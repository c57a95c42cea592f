package streams_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"signalbox/broker"
	"signalbox/broker/messaging"
	"signalbox/broker/streams"
)

// TestCampaignStorm changes a stream at random while publishers wait for their
// messages, the broker fails and recovers, and the disk fails. The source of
// each message is notified once, and the number of stored messages matches the
// statistics.
func TestCampaignStorm(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2, 3, rand.Uint64()} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			disk := open(t, t.TempDir())
			t.Cleanup(func() { must(t, disk.Close(context.Background())) })
			s := &faultyStore{Store: disk}
			c := streams.DefaultConfig()
			c.QueueMessages = 100
			r := start(t, s, c)
			r.create(persist)
			var given notifiers
			var publishers sync.WaitGroup
			for p := range uint64(3) {
				publishers.Go(func() { publish(r, &given, rand.New(rand.NewPCG(seed, p))) })
			}
			change(t, r, s, rand.New(rand.NewPCG(seed, 99)))
			publishers.Wait()
			given.all(t)
			last := r.stats("s")
			r.stop()
			given.all(t)
			if last.Received != int64(given.taken()) {
				t.Errorf("%d messages were received, of %d", last.Received, given.taken())
			}
			r.broker.setOnPublish(nil)
			r.restart()
			r.modify(inactive, persist)
			if got := int64(len(r.stored())); got != last.Persisted {
				t.Errorf("%d messages are kept, %d were", got, last.Persisted)
			}
		})
	}
}

// publish sends messages, some of which match the queries.
func publish(r *fixture, given *notifiers, random *rand.Rand) {
	payloads := []string{`{"v":1}`, `{"v":9}`, `{}`, `nothing`, ``}
	for range 2000 {
		r.broker.deliverTracked(messaging.Message{Topic: "in", QoS: byte(random.IntN(3)), Payload: []byte(payloads[random.IntN(len(payloads))])}, given)
	}
}

// change changes stream "s", the broker or the disk at random.
func change(t *testing.T, r *fixture, s *faultyStore, random *rand.Rand) {
	t.Helper()
	for range 150 {
		var err error
		switch random.IntN(8) {
		case 0:
			s.fails([]string{"append", "commit"}[random.IntN(2)])
		case 1:
			s.on("append", nil)
			s.on("commit", nil)
		case 2:
			r.broker.setOnPublish(unreachable)
		case 3:
			r.broker.setOnPublish(nil)
		case 4:
			err = r.ReplayStream(t.Context(), broker.StreamReplay{StreamName: "s", ReplayTopic: "out", Limit: 10})
		case 5:
			err = r.ClearStreamMessages(t.Context(), "s", nil, new(float64(-1)))
		default:
			err = r.ModifyStream(t.Context(), randomSpec(random), true)
		}
		if err != nil && broker.KindOf(err) != broker.Conflict {
			t.Fatal(err, errors.Unwrap(err))
		}
	}
	s.on("append", nil)
	s.on("commit", nil)
	r.broker.setOnPublish(nil)
}

// randomSpec returns a random definition of stream "s".
func randomSpec(random *rand.Rand) broker.StreamSpec {
	w := spec()
	if random.IntN(2) == 0 {
		w.TargetTopic = new("out")
	}
	w.Persist = new(random.IntN(3) > 0)
	w.Active = new(random.IntN(5) > 0)
	w.Query = [][]byte{nil, []byte(counting), []byte(tenth), []byte(`{"where":[{"operator":">","left":"[v]","right":5}]}`)}[random.IntN(4)]
	return w
}
