package engine_test

import (
	"fmt"
	"testing"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
	"signalbox/scripts/suite"
)

// reading is a client that reads at its own pace, and records the longest time that the broker
// had to wait for it, including delays of the machine.
type reading struct {
	*client
	last    time.Time
	longest time.Duration
}

func (r *reading) note() {
	now := time.Now()
	r.longest = max(r.longest, now.Sub(r.last))
	r.last = now
}

// patiently makes clients read slowly, with a write timeout for which the machine is fast
// enough: if a client was disconnected though it never paused for half the timeout, the test
// fails; otherwise it tries a longer timeout.
func patiently(t *testing.T, try func(limit time.Duration) (*reading, error)) {
	t.Helper()
	for limit := time.Second; ; limit *= 2 {
		r, err := try(limit)
		if err == nil {
			return
		}
		if r.longest < limit/2 || limit > suite.HangLimit {
			t.Fatalf("limit %v, silent for %v at most: %v", limit, r.longest, err)
		}
		t.Logf("limit %v, silent for %v: the machine is too slow for it", limit, r.longest)
	}
}

// TestSlowReaderThatCatchesUp keeps a client connected that pauses once.
func TestSlowReaderThatCatchesUp(t *testing.T) {
	t.Parallel()
	patiently(t, func(limit time.Duration) (*reading, error) {
		const n = 16
		b := start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) { c.WriteTimeout = limit })
		defer b.close()
		r, publisher := &reading{client: b.Connect(fresh("slow"))}, b.Connect(fresh("p"))
		r.Subscribe("a", 0)
		r.last = time.Now()
		for range n {
			publisher.Publish(packet.Outgoing{Topic: "a", Payload: make([]byte, 1<<20)})
		}
		publisher.Send(packet.AppendPingreq(nil))
		publisher.Want(packet.TypePingresp)
		for range n {
			_, err := r.Read()
			if r.note(); err != nil {
				return r, err
			}
		}
		for began := time.Now(); time.Since(began) < limit*3/2; {
			err := r.TrySend(packet.AppendPingreq(nil))
			if err == nil {
				_, err = r.Read()
			}
			if r.note(); err != nil {
				return r, err
			}
		}
		return r, nil
	})
}

// TestSlowLink shows that a large message may take longer than the timeout of one write, as
// long as there is progress.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	const size, part = 24 << 20, 64 << 10
	patiently(t, func(limit time.Duration) (*reading, error) {
		b := start(t, t.TempDir(), func(c *engine.Config, _ *engine.Parts) {
			c.WriteTimeout, c.MaxPacketSize = limit, size+100
		})
		defer b.close()
		r, publisher := &reading{client: b.Connect(fresh("slow"))}, b.Connect(fresh("p"))
		r.Subscribe("a", 0)
		r.last = time.Now()
		publisher.Publish(packet.Outgoing{Topic: "a", Payload: make([]byte, size)})
		pace := time.NewTicker(4 * limit * part / size)
		defer pace.Stop()
		buf := make([]byte, part)
		for got := 0; got < size; {
			<-pace.C
			check(t, r.SetReadDeadline(time.Now().Add(suite.HangLimit)))
			n, err := r.In.Read(buf)
			if r.note(); err != nil {
				return r, fmt.Errorf("after %d bytes: %w", got, err)
			}
			got += n
		}
		return r, nil
	})
}
