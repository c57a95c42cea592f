package flood

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
)

// attackGroup is a group of clients that run the same attack. Each connects, attacks
// until the broker closes the connection, and connects again.
type attackGroup struct {
	name       string
	clients    int
	connection func(*attackClient) error

	connections, failed atomic.Int64
}

// attackClient is a client of a group.
type attackClient struct {
	ctx         context.Context
	target      *attack
	from        string // address of this machine
	name        string // unique over all groups
	connections int
}

// apart is the minimum interval between two connections of a client, so that the broker
// is under test and not the kernel.
const apart = 20 * time.Millisecond

// runGroups runs all groups until the context ends, and waits for their end.
func runGroups(ctx context.Context, h *attack, groups []*attackGroup) {
	var all sync.WaitGroup
	for _, m := range groups {
		for i := range m.clients {
			one := &attackClient{ctx: ctx, target: h, from: h.Addresses[i%len(h.Addresses)], name: m.name + "-" + strconv.Itoa(i)}
			all.Go(func() { m.run(one) })
		}
	}
	all.Wait()
}

func (m *attackGroup) run(one *attackClient) {
	pause := time.NewTicker(apart)
	defer pause.Stop()
	for ; one.ctx.Err() == nil; one.connections++ {
		if m.connection(one) != nil && one.ctx.Err() == nil {
			m.failed.Add(1)
		}
		m.connections.Add(1)
		select {
		case <-pause.C:
		case <-one.ctx.Done():
		}
	}
}

// String returns a summary of what the group has done.
func (m *attackGroup) String() string {
	return fmt.Sprintf("%-26s %4d clients, %6d connections, %6d ended by the broker", m.name, m.clients, m.connections.Load(), m.failed.Load())
}

// over returns an attack over a connection, which ends with the context.
func over(connect func(*attackClient) (*link, error), attack func(*attackClient, *link) error) func(*attackClient) error {
	return func(m *attackClient) error {
		l, err := connect(m)
		if err != nil {
			return err
		}
		defer l.Close()
		defer context.AfterFunc(m.ctx, func() { l.Close() })()
		return attack(m, l)
	}
}

// tcpClient connects over TCP and sends nothing.
func tcpClient(m *attackClient) (*link, error) { return dialSmallBuffer(m.ctx, m.target.TCP, m.from) }

// webSocketTCP connects to the WebSocket listener and sends nothing.
func webSocketTCP(m *attackClient) (*link, error) { return dialSmallBuffer(m.ctx, m.target.WS, m.from) }

// webSocketClient connects over WebSocket and sends no packet.
func webSocketClient(m *attackClient) (*link, error) { return upgrade(webSocketTCP(m)) }

// loggedIn returns a connect function for clients that have logged in.
func loggedIn(connect func(*attackClient) (*link, error)) func(*attackClient) (*link, error) {
	return func(m *attackClient) (*link, error) {
		l, err := connect(m)
		if err != nil {
			return nil, err
		}
		if err := l.logIn(withClientID(attackUser, m.name)); err != nil {
			l.Close()
			return nil, err
		}
		return l, nil
	}
}

// sendEndlessly repeats a write, and reads nothing.
func sendEndlessly(b []byte) func(*attackClient, *link) error {
	return func(_ *attackClient, l *link) error {
		for {
			if _, err := l.Write(b); err != nil {
				return err
			}
		}
	}
}

// sendOnce writes once and waits for the end of the connection.
func sendOnce(b []byte) func(*attackClient, *link) error {
	return func(_ *attackClient, l *link) error {
		if _, err := l.Write(b); err != nil {
			return err
		}
		return l.drain()
	}
}

// sendText is sendOnce for text.
func sendText(text string) func(*attackClient, *link) error { return sendOnce([]byte(text)) }

// sendOneOf writes one of several values, another over each connection.
func sendOneOf(of [][]byte) func(*attackClient, *link) error {
	return func(m *attackClient, l *link) error { return sendOnce(of[m.connections%len(of)])(m, l) }
}

// sendSlowly writes byte by byte.
func sendSlowly(what func(*attackClient) []byte) func(*attackClient, *link) error {
	return func(m *attackClient, l *link) error {
		const pace = 100 * time.Millisecond
		if err := l.writeSlowly(m.ctx, what(m), pace); err != nil {
			return err
		}
		return l.drain()
	}
}

// unreading subscribes to the topics of the fast publishers, and stops reading.
func unreading(qos byte) func(*attackClient, *link) error {
	return func(m *attackClient, l *link) error {
		if err := l.subscribe("attacker/stream/#", qos); err != nil {
			return err
		}
		<-m.ctx.Done()
		return nil
	}
}

// unacknowledging subscribes to these topics, reads, and acknowledges nothing.
func unacknowledging(qos byte) func(*attackClient, *link) error {
	return func(_ *attackClient, l *link) error {
		if err := l.subscribe("attacker/stream/#", qos); err != nil {
			return err
		}
		return l.drain()
	}
}

// fastPublisher publishes as fast as the broker reads.
func fastPublisher(size int) func(*attackClient, *link) error {
	return func(m *attackClient, l *link) error {
		message := packet.AppendPublish(nil, packet.Message{
			Topic: []byte("attacker/stream/" + m.name), Payload: make([]byte, size),
		})
		return sendEndlessly(message)(m, l)
	}
}

// unreleased publishes at QoS 2 without PUBREL, with all packet identifiers.
func unreleased(m *attackClient, l *link) error {
	var reading sync.WaitGroup
	reading.Go(func() { l.drain() }) //nolint:errcheck // the acknowledgements are ignored
	defer reading.Wait()
	defer l.Close()
	for {
		p := packet.AppendPublish(nil, packet.Message{Topic: []byte("attacker/hoard"), Payload: []byte("x"), QoS: 2, ID: l.next()})
		if _, err := l.Write(p); err != nil {
			return err
		}
	}
}
