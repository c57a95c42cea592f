package embedded

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"

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
	return &roamingClient{device: device{t: t, version: 5, name: name, patience: suite.HangLimit}, all: all, open: map[uint16]bool{}}
}

// roam calls work on one connection after the other until the context ends.
func (r *roamingClient) roam(ctx context.Context, work func() error) {
	for i := 0; ctx.Err() == nil; i++ {
		if r.connect(ctx, r.all[i%len(r.all)].config.Listen) == nil {
			stop := context.AfterFunc(ctx, func() { r.conn.Close() })
			for err := error(nil); err == nil && ctx.Err() == nil; {
				err = work()
			}
			stop()
		}
		if r.conn != nil {
			r.conn.Close()
		}
		select {
		case <-time.After(5 * time.Millisecond): // the next node is tried
		case <-ctx.Done():
		}
	}
}

var errRefused = errors.New("refused")

func (r *roamingClient) connect(ctx context.Context, address string) (err error) {
	if r.conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address); err != nil {
		return err
	}
	r.r = bufio.NewReader(r.conn)
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Connect}}
	pk.Connect.ProtocolName, pk.Connect.ClientIdentifier = []byte("MQTT"), r.name
	as("dev", "pw")(&pk)
	persistent(&pk)
	if err := r.try(pk); err != nil {
		return err
	}
	ack, err := r.next()
	if err != nil || ack.ReasonCode != 0 {
		return errors.Join(err, errRefused)
	}
	if r.known && !ack.SessionPresent {
		r.lost++
	}
	return nil
}

func (r *roamingClient) try(pk packets.Packet) error {
	_, err := r.conn.Write(r.encode(pk))
	return err
}

// publishNext publishes one message until it is acknowledged completely, again after each
// interruption.
func (r *roamingClient) publishNext(qos byte) error {
	r.known = true
	again := r.sent
	if !r.sent {
		r.sent, r.released, r.id = true, false, r.id%60_000+1
	}
	if !r.released {
		pk := packets.Packet{
			FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: qos, Dup: again}, PacketID: r.id,
			TopicName: "news/" + r.name, Payload: []byte(r.name + " " + strconv.FormatInt(r.count.Load(), 10) + r.extra),
		}
		if err := r.exchange(pk, map[byte]byte{1: packets.Puback, 2: packets.Pubrec}[qos]); err != nil {
			return err
		}
		r.released = true
	}
	if qos == 2 {
		pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pubrel, Qos: 1}, PacketID: r.id}
		if err := r.exchange(pk, packets.Pubcomp); err != nil {
			return err
		}
	}
	r.sent = false
	r.count.Add(1)
	return nil
}

func (r *roamingClient) exchange(pk packets.Packet, kind byte) error {
	if err := r.try(pk); err != nil {
		return err
	}
	ack, err := r.next()
	if err == nil && (ack.FixedHeader.Type != kind || ack.PacketID != r.id || ack.ReasonCode >= 0x80 && kind != packets.Pubcomp) {
		err = errRefused
	}
	return err
}

// receive handles one packet.
func (r *roamingClient) receive() error {
	pk, err := r.next()
	if err != nil {
		return err
	}
	reply := packets.Packet{PacketID: pk.PacketID}
	switch kind, qos := pk.FixedHeader.Type, pk.FixedHeader.Qos; {
	case kind == packets.Publish && qos == 2:
		if !r.open[pk.PacketID] {
			r.note(string(pk.Payload))
		}
		r.open[pk.PacketID] = true
		reply.FixedHeader.Type = packets.Pubrec
	case kind == packets.Publish && qos == 1:
		r.note(string(pk.Payload))
		reply.FixedHeader.Type = packets.Puback
	case kind == packets.Pubrel:
		delete(r.open, pk.PacketID)
		reply.FixedHeader.Type = packets.Pubcomp
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
