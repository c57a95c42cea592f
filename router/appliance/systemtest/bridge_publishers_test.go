package systemtest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"signalbox/broker/mqtt/mqtttest"
	"signalbox/scripts/suite"
)

// endpoint is a broker to publish at.
type endpoint struct{ address, username, password string }

// publishers publish numbered messages with QoS 1, each to topics of its own, until
// there are enough. They repeat what was not acknowledged when a connection was lost.
type publishers struct {
	list []*publisher
	work sync.WaitGroup
	done chan struct{} // closed when there are enough
	once sync.Once
	end  context.CancelFunc
}

const (
	publisherCount     = 2
	topicsOfAPublisher = 4
	underWay           = 100 // unacknowledged messages of a publisher
	// The rate of a publisher leaves time for the faults.
	tick       = 10 * time.Millisecond
	sentOnTick = 20
)

// newPublishers starts them. They end with the test at the latest.
func newPublishers(t testing.TB, e endpoint) *publishers {
	t.Helper()
	var topics [publisherCount][]string
	for i := range topics {
		for n := range topicsOfAPublisher {
			topics[i] = append(topics[i], fmt.Sprintf("plant/%d/%d", i, n))
		}
	}
	return publishTo(t, e, sentOnTick, topics[:]...)
}

// publishTo is newPublishers with the topics of each, and another rate.
func publishTo(t testing.TB, e endpoint, onTick int, topics ...[]string) *publishers {
	t.Helper()
	p := &publishers{done: make(chan struct{})}
	var ctx context.Context
	ctx, p.end = context.WithCancel(context.Background())
	t.Cleanup(p.stop)
	for _, own := range topics {
		one := &publisher{endpoint: e, topics: own, onTick: onTick, enough: p.done, numbers: map[string]int{}}
		p.list = append(p.list, one)
		p.work.Go(func() { one.run(ctx) })
	}
	return p
}

// stop ends them, whatever is in flight.
func (p *publishers) stop() {
	p.end()
	p.work.Wait()
}

// acknowledged returns how many messages are acknowledged.
func (p *publishers) acknowledged() (n int) {
	for _, one := range p.list {
		n += int(one.acknowledged.Load())
	}
	return n
}

// last returns the last number of each topic that is acknowledged. A publisher takes its topics
// in turn, and its messages are acknowledged in their order.
func (p *publishers) last() map[string]int {
	last := map[string]int{}
	for _, one := range p.list {
		n, all := int(one.acknowledged.Load()), len(one.topics)
		for i, topic := range one.topics {
			last[topic] = (n + all - 1 - i) / all
		}
	}
	return last
}

// finish waits until that many messages are acknowledged and none is in flight, and
// returns the last number of each topic.
func (p *publishers) finish(t testing.TB, n int) map[string]int {
	t.Helper()
	suite.WaitFor(t, fmt.Sprintf("%d messages are acknowledged", n), func() bool { return p.acknowledged() >= n })
	p.once.Do(func() { close(p.done) })
	ended := make(chan struct{})
	go func() {
		p.work.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(suite.HangLimit):
		t.Fatal("the publishers' last messages are not acknowledged")
	}
	last := map[string]int{}
	for _, one := range p.list {
		maps.Copy(last, one.numbers)
	}
	return last
}

// publisher is one of them.
type publisher struct {
	endpoint
	topics       []string
	onTick       int
	enough       <-chan struct{}
	acknowledged atomic.Int64

	// Used by its own goroutine until that has ended:
	numbers map[string]int    // the last number of each topic
	turn    int               // index of the next topic
	open    []*unacknowledged // not acknowledged, in the order of sending
}

// unacknowledged is a message without an acknowledgement.
type unacknowledged struct {
	arrival
	token mqtt.Token
}

// run connects repeatedly.
func (p *publisher) run(ctx context.Context) {
	again := time.NewTicker(tick)
	defer again.Stop()
	for ctx.Err() == nil && !(p.isEnough() && len(p.open) == 0) {
		p.connect(ctx)
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

func (p *publisher) isEnough() bool {
	select {
	case <-p.enough:
		return true
	default:
		return false
	}
}

// connect publishes over one connection, until it ends.
func (p *publisher) connect(ctx context.Context) {
	d := mqtttest.NewPaho(p.address, func(o *mqtt.ClientOptions) {
		o.SetUsername(p.username).SetPassword(p.password).SetConnectTimeout(time.Second).SetWriteTimeout(time.Second)
	})
	defer d.Disconnect(0)
	if token := d.Connect(); !token.WaitTimeout(suite.HangLimit) || token.Error() != nil {
		return
	}
	for _, open := range p.open {
		open.Attempt++
		if !open.publish(d) {
			return
		}
	}
	p.stream(ctx, d)
}

// stream publishes at the publisher's rate, until everything is acknowledged or the
// connection is lost.
func (p *publisher) stream(ctx context.Context, d *mqtttest.Paho) {
	pace := time.NewTicker(tick)
	defer pace.Stop()
	for {
		var first <-chan struct{}
		if len(p.open) > 0 {
			first = p.open[0].token.Done()
		} else if p.isEnough() {
			return
		}
		select {
		case <-first:
			if p.open[0].token.Error() != nil {
				return
			}
			p.open = p.open[1:]
			p.acknowledged.Add(1)
		case <-pace.C:
			if !p.portion(d) {
				return
			}
		case <-d.Lost:
			return
		case <-ctx.Done():
			return
		}
	}
}

// portion sends what the rate and the window allow. It returns false if the connection
// was lost.
func (p *publisher) portion(d *mqtttest.Paho) bool {
	for n := 0; n < p.onTick && len(p.open) < underWay && !p.isEnough(); n++ {
		topic := p.topics[p.turn%len(p.topics)]
		p.turn++
		p.numbers[topic]++
		next := &unacknowledged{arrival: arrival{Topic: topic, N: p.numbers[topic], Attempt: 1}}
		p.open = append(p.open, next)
		if !next.publish(d) {
			return false
		}
	}
	return true
}

// publish sends a message once more. It returns false if it was not sent, after which
// nothing may be sent.
func (p *unacknowledged) publish(d *mqtttest.Paho) bool {
	payload, _ := json.Marshal(p.arrival) // it can always be encoded
	p.token = d.Publish(p.Topic, 1, false, payload)
	return p.token.Error() == nil
}
