package remote

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// The reasons why a call has no response. Except for the first two, the command may have been
// carried out.
var (
	errNoEndpoint  = errors.New("endpoint not available")
	errNotSent     = errors.New("command not sent")
	errLost        = errors.New("connection lost")
	errNoResponse  = errors.New("no answer to a command that was processed")
	errUnconfirmed = errors.New("no answer in time")
)

// The stages of a call. Only the sender changes queued to sent, and only the caller changes
// queued to abandoned, so both know whether the command may have reached the broker.
const (
	queued int32 = iota
	sent
	abandoned
)

// call is a message with a single command; or a message without a response, which is complete
// with its acknowledgement.
type call struct {
	topic       string
	correlation string
	payload     []byte
	qos         byte
	retain      bool
	unanswered  bool
	probe       bool          // followed by a PINGREQ, to detect that there is no response, or that the broker has the message
	grace       time.Duration // how long to wait for the response after PINGRESP, for brokers that respond out of order

	stage atomic.Int32
	token chan mqtt.Token // of the PUBLISH if its acknowledgement is needed; buffered by one
	reply chan reply      // buffered by one: the caller may have left
}

// reply is the response to a call; err is errNoEndpoint or errNotSent.
type reply struct {
	payload []byte
	err     error
}

func newCall(topic, correlation string, payload []byte) *call {
	return &call{topic: topic, correlation: correlation, payload: payload,
		token: make(chan mqtt.Token, 1), reply: make(chan reply, 1)}
}

// ask sends a command and waits for the response, until ctx or the connection ends.
func (s *session) ask(ctx context.Context, c *call) ([]byte, error) {
	s.pending.add(c)
	defer s.pending.remove(c)
	return s.submit(ctx, c)
}

// submit passes a call to the sender and waits for its end.
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
				return nil, lostError(token.Error())
			}
			done = nil
			passed, _ = s.conn.ping() // if it cannot be written, the connection is about to be lost
		case <-passed:
			if c.unanswered {
				return nil, nil
			}
			passed, silence, overdue = nil, errNoResponse, time.After(c.grace)
		case <-s.lost:
			return c.giveUp(errLost)
		case <-overdue:
			return c.giveUp(silence)
		case <-ctx.Done():
			return c.giveUp(silence)
		}
	}
}

// lostError converts the library's error of a message.
func lostError(err error) error {
	if err != nil {
		return errors.Join(errLost, err)
	}
	return nil
}

// deliver passes a reply to the caller; further ones are dropped.
func (c *call) deliver(r reply) {
	select {
	case c.reply <- r:
	default:
	}
}

// giveUp ends the wait, unless the response arrived at the same moment.
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

// send publishes queued calls in order, one at a time, until the session ends. Only the sender
// waits if the library delays a PUBLISH while the connection breaks.
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

// publish sends a call. Commands have QoS 0 because the response acknowledges them: brokers
// may close the connection on a higher QoS (max_qos 0), and a second packet from a broker with
// Nagle's algorithm, Mosquitto's default, would add 40 ms per command.
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
