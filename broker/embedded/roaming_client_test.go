package embedded

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// roamingClient is a client with a persistent session that connects to whichever node serves, and
// continues there what it started elsewhere.
type roamingClient struct {
	device
	all   nodes
	lost  int    // sessions that no longer existed
	known bool   // it has had a session
	extra string // appended to each payload, after a space

	waited time.Duration // the longest time between two connections

	// of a publisher
	count    atomic.Int64 // messages that are acknowledged completely
	sent     bool         // a message is in flight, with the packet identifier id
	released bool         // PUBREC was received

	// of a subscriber
	mu       sync.Mutex
	open     map[uint16]bool // QoS 2: received and not released
	received []string
}

func newRoamer(t *testing.T, all nodes, name string) *roamingClient {
	return &roamingClient{device: device{&mqtttest.Client{T: t, Version: packet.V5, ID: name, Patience: suite.HangLimit}}, all: all, open: map[uint16]bool{}}
}

// roam calls work on one connection after the other until the context ends.
func (r *roamingClient) roam(ctx context.Context, work func() error) {
	var gone time.Time
	for i := 0; ctx.Err() == nil; i++ {
		if r.connect(ctx, r.all[i%len(r.all)].config.Listen) == nil {
			if !gone.IsZero() {
				r.waited = max(r.waited, time.Since(gone))
			}
			stop := context.AfterFunc(ctx, func() { r.Conn.Close() })
			for err := error(nil); err == nil && ctx.Err() == nil; {
				err = work()
			}
			stop()
			gone = time.Now()
		}
		if r.Conn != nil {
			r.Conn.Close()
		}
		select {
		case <-time.After(5 * time.Millisecond): // the next node is tried
		case <-ctx.Done():
		}
	}
}

var errRefused = errors.New("refused")

func (r *roamingClient) connect(ctx context.Context, address string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	r.Use(conn)
	if err := r.try(mqtttest.NewConnect(r.ID, as("dev", "pw"), persistent)); err != nil {
		return err
	}
	ack, err := r.Next()
	if err != nil || ack.Reason != 0 {
		return errors.Join(err, errRefused)
	}
	if r.known && !ack.Present {
		r.lost++
	}
	return nil
}

func (r *roamingClient) try(pk packet.Packet) error {
	return r.TrySend(pk.Append(nil, r.Version))
}

// publishNext publishes one message until it is acknowledged completely, again after each
// interruption.
func (r *roamingClient) publishNext(qos byte) error {
	r.known = true
	again := r.sent
	if !r.sent {
		r.sent, r.released, r.PacketID = true, false, r.PacketID%60_000+1
	}
	if !r.released {
		pk := packet.Packet{
			Type: packet.Publish, QoS: qos, Dup: again, ID: r.PacketID,
			Topic: "news/" + r.ID, Payload: []byte(r.ID + " " + strconv.FormatInt(r.count.Load(), 10) + r.extra),
		}
		if err := r.exchange(pk, map[byte]byte{1: packet.Puback, 2: packet.Pubrec}[qos]); err != nil {
			return err
		}
		r.released = true
	}
	if qos == 2 {
		pk := packet.Packet{Type: packet.Pubrel, ID: r.PacketID}
		if err := r.exchange(pk, packet.Pubcomp); err != nil {
			return err
		}
	}
	r.sent = false
	r.count.Add(1)
	return nil
}

func (r *roamingClient) exchange(pk packet.Packet, kind byte) error {
	if err := r.try(pk); err != nil {
		return err
	}
	ack, err := r.Next()
	if err == nil && (ack.Type != kind || ack.ID != r.PacketID || ack.Reason >= 0x80 && kind != packet.Pubcomp) {
		err = errRefused
	}
	return err
}

// receive handles one packet.
func (r *roamingClient) receive() error {
	pk, err := r.Next()
	if err != nil {
		return err
	}
	reply := packet.Packet{ID: pk.ID}
	switch kind, qos := pk.Type, pk.QoS; {
	case kind == packet.Publish && qos == 2:
		if !r.open[pk.ID] {
			r.note(string(pk.Payload))
		}
		r.open[pk.ID] = true
		reply.Type = packet.Pubrec
	case kind == packet.Publish && qos == 1:
		r.note(string(pk.Payload))
		reply.Type = packet.Puback
	case kind == packet.Pubrel:
		delete(r.open, pk.ID)
		reply.Type = packet.Pubcomp
	default:
		return errRefused
	}
	return r.try(reply)
}

func (r *roamingClient) note(payload string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received = append(r.received, payload)
}

// times returns how often each payload was received.
func (r *roamingClient) times() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	times := map[string]int{}
	for _, p := range r.received {
		times[p]++
	}
	return times
}

// awaitAll waits until the subscriber has received what the publishers have published.
func (r *roamingClient) awaitAll(publishers []*roamingClient) {
	r.T.Helper()
	eventually(r.T, "all was received", func() bool {
		times := r.times()
		for _, p := range publishers {
			for n := range p.count.Load() {
				if times[p.ID+" "+strconv.FormatInt(n, 10)] == 0 {
					return false
				}
			}
		}
		return true
	})
}
