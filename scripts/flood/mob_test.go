package flood

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"signalbox/scripts/bench/packet"
)

// mob is a crowd of clients that do the same harm. Each lives again and again:
// it connects, does its harm until the broker has enough of it, and comes back.
type mob struct {
	name    string
	members int
	life    func(*member) error

	lives, failed atomic.Int64
}

// member is one of a mob.
type member struct {
	ctx    context.Context
	target *horde
	from   string // address of this machine
	name   string // no other member of any mob has it
	lives  int
}

// apart is the least time between a member's lives, so that the machine under
// test is the broker's and not the kernel's.
const apart = 20 * time.Millisecond

// rage lets all mobs loose until the context ends, and waits for them to be gone.
func rage(ctx context.Context, h *horde, mobs []*mob) {
	var all sync.WaitGroup
	for _, m := range mobs {
		for i := range m.members {
			one := &member{ctx: ctx, target: h, from: h.Addresses[i%len(h.Addresses)], name: m.name + "-" + strconv.Itoa(i)}
			all.Go(func() { m.run(one) })
		}
	}
	all.Wait()
}

func (m *mob) run(one *member) {
	pause := time.NewTicker(apart)
	defer pause.Stop()
	for ; one.ctx.Err() == nil; one.lives++ {
		if m.life(one) != nil && one.ctx.Err() == nil {
			m.failed.Add(1)
		}
		m.lives.Add(1)
		select {
		case <-pause.C:
		case <-one.ctx.Done():
		}
	}
}

// String shows what became of the mob.
func (m *mob) String() string {
	return fmt.Sprintf("%-22s %4d members, %6d lives, %6d ended by the broker", m.name, m.members, m.lives.Load(), m.failed.Load())
}

// over gives a life that begins with a connection, which ends with the context.
func over(connect func(*member) (*link, error), harm func(*member, *link) error) func(*member) error {
	return func(m *member) error {
		l, err := connect(m)
		if err != nil {
			return err
		}
		defer l.Close()
		defer context.AfterFunc(m.ctx, func() { l.Close() })()
		return harm(m, l)
	}
}

// stranger is a connection that has not said a word.
func stranger(m *member) (*link, error) { return narrow(m.ctx, m.target.TCP, m.from) }

// browser is a connection to the WebSocket listener that has not said a word.
func browser(m *member) (*link, error) { return narrow(m.ctx, m.target.WS, m.from) }

// caller is a WebSocket on which no packet has been sent.
func caller(m *member) (*link, error) { return upgrade(browser(m)) }

// loggedIn gives the way to connect of clients that have logged in.
func loggedIn(connect func(*member) (*link, error)) func(*member) (*link, error) {
	return func(m *member) (*link, error) {
		l, err := connect(m)
		if err != nil {
			return nil, err
		}
		if err := l.logIn(named(guest, m.name)); err != nil {
			l.Close()
			return nil, err
		}
		return l, nil
	}
}

// endless writes the same again and again, and reads nothing.
func endless(b []byte) func(*member, *link) error {
	return func(_ *member, l *link) error {
		for {
			if _, err := l.Write(b); err != nil {
				return err
			}
		}
	}
}

// then writes something once and waits for the end.
func then(b []byte) func(*member, *link) error {
	return func(_ *member, l *link) error {
		if _, err := l.Write(b); err != nil {
			return err
		}
		return l.drain()
	}
}

// say does the same with text.
func say(text string) func(*member, *link) error { return then([]byte(text)) }

// one writes one of several things, another in each life.
func one(of [][]byte) func(*member, *link) error {
	return func(m *member, l *link) error { return then(of[m.lives%len(of)])(m, l) }
}

// slowly writes byte by byte.
func slowly(what func(*member) []byte) func(*member, *link) error {
	return func(m *member, l *link) error {
		const pace = 100 * time.Millisecond
		if err := l.dribble(m.ctx, what(m), pace); err != nil {
			return err
		}
		return l.drain()
	}
}

// deaf subscribes to the stream that the shouters fill, and reads no more.
func deaf(qos byte) func(*member, *link) error {
	return func(m *member, l *link) error {
		if err := l.subscribe("guest/stream/#", qos); err != nil {
			return err
		}
		<-m.ctx.Done()
		return nil
	}
}

// ungrateful subscribes to the stream, reads it, and acknowledges nothing.
func ungrateful(qos byte) func(*member, *link) error {
	return func(_ *member, l *link) error {
		if err := l.subscribe("guest/stream/#", qos); err != nil {
			return err
		}
		return l.drain()
	}
}

// shouter fills the stream as fast as the broker takes it.
func shouter(size int) func(*member, *link) error {
	return func(m *member, l *link) error {
		message := packet.AppendPublish(nil, packet.Message{
			Topic: []byte("guest/stream/" + m.name), Payload: make([]byte, size),
		})
		return endless(message)(m, l)
	}
}

// hoarder publishes at QoS 2 and releases nothing, through all identifiers.
func hoarder(m *member, l *link) error {
	var reading sync.WaitGroup
	reading.Go(func() { l.drain() }) //nolint:errcheck // the acknowledgements do not count
	defer reading.Wait()
	defer l.Close()
	for {
		p := packet.AppendPublish(nil, packet.Message{Topic: []byte("guest/hoard"), Payload: []byte("x"), QoS: 2, ID: l.next()})
		if _, err := l.Write(p); err != nil {
			return err
		}
	}
}
