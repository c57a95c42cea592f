package mesh_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"signalbox/broker/embedded/engine"
	"signalbox/broker/mqtt/packet"
)

// hangingStore is a store whose disk can hang.
type hangingStore struct {
	engine.Store
	mu      sync.Mutex
	hangs   bool
	waiting []*engine.Changes
}

func (h *hangingStore) Submit(c *engine.Changes) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hangs {
		h.waiting = append(h.waiting, c)
		return
	}
	h.Store.Submit(c)
}

// hang makes the disk hang, or work again.
func (h *hangingStore) hang(is bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hangs = is
	for _, c := range h.waiting {
		h.Store.Submit(c)
	}
	h.waiting = nil
}

// TestFull refuses messages above QoS 0, and drops others, while the queue for a slow node is
// full. Accepted messages arrive, and publishing works afterwards.
func TestFull(t *testing.T) { inVirtualTime(t, testFull) }

func testFull(t *testing.T) {
	disks := map[int]*hangingStore{}
	_, n := startNodes(t, 2, func(f *network) {
		f.wrap = func(id int, s engine.Store) engine.Store {
			disks[id] = &hangingStore{Store: s}
			return disks[id]
		}
	})
	reader := n[0].connect("reader", true)
	reader.Subscribe("a", 1)
	disks[1].hang(true)
	p := n[1].NewPublisher()
	const messages = 40
	var outcomes []chan error
	for i := range messages {
		outcome := make(chan error, 1)
		outcomes = append(outcomes, outcome)
		go func() {
			outcome <- n[1].Publish(&engine.Message{Topic: "a", QoS: 1, Payload: append(fmt.Appendf(nil, "%4d", i), make([]byte, 1<<20)...)})
		}()
	}
	until(t, "the messages beyond the bounds are refused", func() bool { return n[1].figures(1).Refused == messages-15 })
	p.Publish(&engine.Message{Topic: "a", Payload: make([]byte, 1<<20)})
	if f := n[1].figures(1); f.Dropped != 1 || f.Waiting != 15 || f.WaitingBytes > 16<<20 {
		t.Errorf("got %+v", f)
	}
	disks[1].hang(false)
	p.Flush() // waits for space
	failed := 0
	for _, o := range outcomes {
		if <-o != nil {
			failed++
		}
	}
	if failed != messages-15 {
		t.Errorf("%d publishers were refused, want %d", failed, messages-15)
	}
	for range messages - failed {
		reader.next()
	}
	c := n[1].connect("c", false)
	if code := c.publish(packet.Outgoing{Topic: "a", Payload: []byte("after"), QoS: 1, PacketID: 1}); code != 0 {
		t.Errorf("got code %d", code)
	}
	if m := reader.next(); m.payload != "after" {
		t.Errorf("got %.20v", m)
	}
}

// TestCannotStore refuses a message that another node cannot store.
func TestCannotStore(t *testing.T) { inVirtualTime(t, testCannotStore) }

func testCannotStore(t *testing.T) {
	full := map[int]*failingStore{}
	_, n := startNodes(t, 2, func(f *network) {
		f.wrap = func(id int, s engine.Store) engine.Store {
			full[id] = &failingStore{Store: s}
			return full[id]
		}
	})
	reader, c := n[0].connect("reader", true), n[1].connect("c", false)
	reader.Subscribe("a", 1)
	full[1].fail(errFull)
	if code := c.publish(packet.Outgoing{Topic: "a", QoS: 1, PacketID: 1}); code != packet.ReasonQuotaExceeded {
		t.Errorf("got code %d", code)
	}
	full[1].fail(nil)
	if code := c.publish(packet.Outgoing{Topic: "a", QoS: 2, PacketID: 1}); code != 0 {
		t.Errorf("got code %d", code)
	}
	reader.next()
}

var errFull = errors.New("no space left on device")

// failingStore is a store that returns err, if set.
type failingStore struct {
	engine.Store
	mu  sync.Mutex
	err error
}

func (f *failingStore) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *failingStore) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// TestFlushHangs waits for a node with a hanging disk until the context ends, and for an
// unreachable one until it has the messages, or is removed.
func TestFlushHangs(t *testing.T) { inVirtualTime(t, testFlushHangs) }

func testFlushHangs(t *testing.T) {
	disks := map[int]*hangingStore{}
	f, n := startNodes(t, 2, func(f *network) {
		f.grace = 100 * time.Millisecond
		f.wrap = func(id int, s engine.Store) engine.Store {
			disks[id] = &hangingStore{Store: s}
			return disks[id]
		}
	})
	n[0].connect("reader", true).Subscribe("a", 1)
	check(t, n[1].mesh.Flush(t.Context(), 1))
	check(t, n[1].mesh.Flush(t.Context(), 7))
	disks[1].hang(true)
	p := n[1].NewPublisher()
	publish := func() { p.Publish(&engine.Message{Topic: "a", QoS: 1}) }
	publish()
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := n[1].mesh.Flush(stopped, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v while the disk hangs", err)
	}
	flushed := make(chan error, 1)
	go func() { flushed <- n[1].mesh.Flush(t.Context(), 1) }()
	until(t, "a message waits", func() bool { return n[1].figures(1).Waiting == 1 })
	publish() // not waited for
	disks[1].hang(false)
	check(t, <-flushed)
	disks[1].hang(true)
	publish()
	disks[1].hang(false)
	f.disconnect(2, 1, true)
	until(t, "the message is stored", func() bool { return n[1].figures(1).Stored == 1 })
	publish()
	for i := range 2 {
		go func() { flushed <- n[1].mesh.Flush(t.Context(), 1) }()
		synctest.Wait()
		if len(flushed) > 0 {
			t.Error("does not wait for what is stored")
		}
		if i == 0 {
			f.reconnect(2, 1)
		} else {
			n[1].mesh.SetPeers([]int{2})
		}
		check(t, <-flushed)
		f.disconnect(2, 1, true)
		until(t, "the node is given up", func() bool {
			publish()
			return n[1].figures(1).Stored > 0 || i == 1
		})
	}
}
