// Package relay is the least program that can forward MQTT messages: no sessions, no
// rights, no wildcards, no retained messages, and the publishers' packet identifiers
// are forwarded unchanged. It acknowledges what must be acknowledged, and copies the
// bytes of a PUBLISH to the subscribers of its topic. It is the limit that a broker is
// compared with.
//
// It must not import anything of this module but broker/mqtt/mqtttest/packet.
package relay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"signalbox/broker/mqtt/mqtttest/packet"
)

const (
	readBuffer = 64 << 10
	mostQueued = 4 << 20 // bytes for one peer; senders wait beyond it
)

// relay is the subscribers of each topic.
type relay struct {
	mu    sync.Mutex // held by writers of peers
	peers atomic.Pointer[map[string][]*peer]
}

// Serve relays between the peers that connect, until ctx is done.
func Serve(ctx context.Context, ln net.Listener) error {
	r := &relay{}
	r.peers.Store(&map[string][]*peer{})
	var serving sync.WaitGroup
	defer serving.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	for {
		conn, err := ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		p := newPeer(conn)
		serving.Go(func() {
			defer context.AfterFunc(ctx, p.close)()
			r.serve(p)
		})
		serving.Go(p.write)
	}
}

// serve reads one peer's packets until it disconnects.
func (r *relay) serve(p *peer) {
	defer p.close()
	defer r.forget(p)
	in := packet.NewReader(p.conn, readBuffer)
	var answers []byte
	touched := []*peer{}
	for {
		first, body, err := in.Next()
		if err != nil {
			return
		}
		if packet.Kind(first) == packet.Publish {
			touched = r.forward(first, body, touched)
		}
		if answers, err = r.answer(p, answers, first, body); err != nil {
			return
		}
		if in.More() {
			continue
		}
		if len(answers) > 0 {
			p.queue(answers)
			p.flush()
		}
		for _, t := range touched {
			t.flush()
		}
		answers, touched = answers[:0], touched[:0]
	}
}

// forward queues a PUBLISH for its subscribers, and appends them to the peers to flush.
func (r *relay) forward(first byte, body []byte, touched []*peer) []*peer {
	m, ok := packet.ReadPublish(first, body)
	if !ok {
		return touched
	}
	head := binary.AppendUvarint([]byte{first}, uint64(len(body)))
	for _, to := range (*r.peers.Load())[string(m.Topic)] {
		to.queue(head, body)
		if !slices.Contains(touched, to) {
			touched = append(touched, to)
		}
	}
	return touched
}

var errUnexpected = errors.New("unexpected packet")

// answer appends the response to a packet.
func (r *relay) answer(p *peer, b []byte, first byte, body []byte) ([]byte, error) {
	switch packet.Kind(first) {
	case packet.Connect:
		return append(b, packet.Connack, 2, 0, 0), nil
	case packet.Publish:
		m, ok := packet.ReadPublish(first, body)
		switch {
		case !ok:
			return b, errUnexpected
		case m.QoS == 1:
			b = packet.AppendAck(b, packet.Puback, m.ID)
		case m.QoS == 2:
			b = packet.AppendAck(b, packet.Pubrec, m.ID)
		}
		return b, nil
	case packet.Pubrec:
		return packet.AppendAck(b, packet.Pubrel, packet.ReadID(body)), nil
	case packet.Pubrel & 0xf0:
		return packet.AppendAck(b, packet.Pubcomp, packet.ReadID(body)), nil
	case packet.Puback, packet.Pubcomp:
		return b, nil
	case packet.Subscribe & 0xf0:
		return r.subscribe(p, b, body)
	case packet.Pingreq:
		return packet.AppendEmpty(b, packet.Pingresp), nil
	}
	return b, fmt.Errorf("packet %#x: %w", first, errUnexpected)
}

// subscribe adds a peer to the one topic of a SUBSCRIBE and grants it.
func (r *relay) subscribe(p *peer, b, body []byte) ([]byte, error) {
	if len(body) < 5 || 4+int(binary.BigEndian.Uint16(body[2:])) != len(body)-1 {
		return b, errUnexpected
	}
	topic, qos := string(body[4:len(body)-1]), body[len(body)-1]
	r.change(func(peers map[string][]*peer) { peers[topic] = append(slices.Clone(peers[topic]), p) })
	return append(b, packet.Suback, 3, body[0], body[1], qos), nil
}

func (r *relay) forget(p *peer) {
	r.change(func(peers map[string][]*peer) {
		for topic, list := range peers {
			peers[topic] = slices.DeleteFunc(slices.Clone(list), func(other *peer) bool { return other == p })
		}
	})
}

// change replaces the map of subscribers by a modified copy.
func (r *relay) change(f func(map[string][]*peer)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	peers := maps.Clone(*r.peers.Load())
	f(peers)
	r.peers.Store(&peers)
}

// peer is a connection and its output.
type peer struct {
	conn net.Conn

	mu      sync.Mutex // protects what follows
	changed sync.Cond
	out     []byte
	due     bool // out has to be written
	closed  bool
}

func newPeer(conn net.Conn) *peer {
	p := &peer{conn: conn}
	p.changed.L = &p.mu
	return p
}

// queue appends to the next write. It waits if the queue is full.
func (p *peer) queue(parts ...[]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.out) > mostQueued && !p.closed {
		p.due = true
		p.changed.Broadcast()
		p.changed.Wait()
	}
	for _, part := range parts {
		p.out = append(p.out, part...)
	}
}

func (p *peer) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = true
	p.changed.Broadcast()
}

// write writes the output until the peer is closed.
func (p *peer) write() {
	var spare []byte
	for {
		out, ok := p.take(spare)
		if !ok {
			return
		}
		if _, err := p.conn.Write(out); err != nil {
			p.close()
			return
		}
		spare = out[:0]
	}
}

// take waits for output, and swaps it with an empty buffer.
func (p *peer) take(spare []byte) (out []byte, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.due && !p.closed {
		p.changed.Wait()
	}
	out, p.out, p.due = p.out, spare, false
	p.changed.Broadcast()
	return out, !p.closed
}

func (p *peer) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.changed.Broadcast()
	p.conn.Close()
}
