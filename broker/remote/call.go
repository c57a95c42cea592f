package remote

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// Why a call was not answered. After any but the first two the command may
// have been carried out.
var (
	errNoEndpoint  = errors.New("endpoint not available")
	errNotSent     = errors.New("command not sent")
	errLost        = errors.New("connection lost")
	errNoAnswer    = errors.New("no answer to a command that was processed")
	errUnconfirmed = errors.New("no answer in time")
)

// The stages of a call. Only the sender goes from queued to sent, only the
// caller from queued to abandoned; so both know for sure whether the command
// may have reached the broker.
const (
	queued int32 = iota
	sent
	abandoned
)

// call is one command on its way, a message with a single command in it; or a
// message that nobody answers, which is over with its acknowledgement.
type call struct {
	topic       string
	correlation string
	payload     []byte
	qos         byte
	retain      bool
	unanswered  bool
	probe       bool          // a PINGREQ follows, so that silence is noticed, or that the broker has the message
	grace       time.Duration // how long a probe waits after the PINGRESP, for a broker that answers later

	stage atomic.Int32
	token chan mqtt.Token // of a PUBLISH whose end counts, once it is out; buffered by one
	reply chan reply      // buffered by one: nobody waits for a caller that left
}

// reply is the message that answers a call; err is errNoEndpoint or errNotSent.
type reply struct {
	payload []byte
	err     error
}

func newCall(topic, correlation string, payload []byte) *call {
	return &call{topic: topic, correlation: correlation, payload: payload,
		token: make(chan mqtt.Token, 1), reply: make(chan reply, 1)}
}

// ask sends a command and waits for the message that answers it, until the
// context or the connection ends.
func (s *session) ask(ctx context.Context, c *call) ([]byte, error) {
	s.pending.add(c)
	defer s.pending.remove(c)
	return s.submit(ctx, c)
}

// submit hands a call to the sender and waits for its end.
func (s *session) submit(ctx context.Context, c *call) ([]byte, error) {
	select {
	case s.out <- c:
		return s.await(ctx, c)
	case <-s.lost:
	case <-ctx.Done():
	}
	return nil, errNotSent
}

func (s *session) await(ctx context.Context, c *call) ([]byte, error) {
	var token mqtt.Token
	var done, passed <-chan struct{}
	var overdue <-chan time.Time
	silence := errUnconfirmed
	for {
		select {
		case r := <-c.reply:
			return r.payload, r.err
		case token = <-c.token:
			done = token.Done()
		case <-done:
			if c.unanswered && !c.probe || token.Error() != nil {
				return nil, lostIf(token.Error())
			}
			done = nil
			passed, _ = s.wire.ping() // where it cannot be written, the connection is about to be lost
		case <-passed:
			if c.unanswered {
				return nil, nil
			}
			passed, silence, overdue = nil, errNoAnswer, time.After(c.grace)
		case <-s.lost:
			return c.giveUp(errLost)
		case <-overdue:
			return c.giveUp(silence)
		case <-ctx.Done():
			return c.giveUp(silence)
		}
	}
}

// lostIf says what it means that the library gave a message up.
func lostIf(err error) error {
	if err != nil {
		return errors.Join(errLost, err)
	}
	return nil
}

// deliver hands the caller a reply; after the first one there is no need.
func (c *call) deliver(r reply) {
	select {
	case c.reply <- r:
	default:
	}
}

// giveUp ends the waiting, unless the answer has come in the same moment.
func (c *call) giveUp(why error) ([]byte, error) {
	if c.stage.CompareAndSwap(queued, abandoned) {
		return nil, errNotSent
	}
	select {
	case r := <-c.reply:
		return r.payload, r.err
	default:
		return nil, why
	}
}

// send publishes the calls in the order in which they were queued, one at a
// time, until the session ends. The library may hold a PUBLISH back while the
// connection breaks; only the sender waits for it then.
func (s *session) send() {
	for {
		select {
		case c := <-s.out:
			s.publish(c)
		case <-s.lost:
			return
		}
	}
}

// publish sends a call. A command has its answer for an acknowledgement, and QoS 0:
// a broker may allow no other one and end the connection (max_qos 0), and a second
// packet from a broker that waits to fill its segments, as Mosquitto does by
// default, would cost every command 40 ms.
func (s *session) publish(c *call) {
	if !c.stage.CompareAndSwap(queued, sent) {
		return
	}
	token := s.client.Publish(c.topic, c.qos, c.retain, c.payload)
	if errors.Is(token.Error(), mqtt.ErrNotConnected) {
		c.deliver(reply{err: errNotSent})
		return
	}
	if c.probe || c.unanswered {
		c.token <- token
	}
}
