// Package loadtest puts a broker under the load of publishers and subscribers, and measures
// how many messages arrive and how long they take. A latency begins when the message was due,
// not when it could be sent, so that a broker that stalls is not shown better than it is.
//
// It must not import net/http.
package loadtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/dial"
)

// Options describe the load. All but the credentials are required.
type Options struct {
	Endpoint           dial.Endpoint
	Username           string
	Password           broker.Secret
	ClientID           string // beginning of the client ids
	Topic              string // beginning of the topics; publisher 3 publishes to Topic/3
	Publishers         int
	Subscribers        int
	Own                bool // subscriber 3 receives the messages of publisher 3 only, instead of all
	Rate               float64
	QoS                byte
	Size               int // of a payload, in bytes, at least MinSize
	Window             int // messages above QoS 0 that a publisher sends without an acknowledgement
	Duration, Patience time.Duration
}

// Result is what was measured.
type Result struct {
	Version   byte          // of MQTT
	Connected time.Duration // until all were connected and subscribed
	Published uint64        // messages that were sent, above QoS 0 those that were acknowledged
	Took      time.Duration // of publishing
	Refused   uint64        // by the broker, with a reason code
	GivenUp   uint64        // never acknowledged
	Expected  uint64        // what the subscribers should have received of those published
	Received  uint64        // of those, each once
	Receiving time.Duration // until the last one was received
	Repeated  uint64        // received once more
	Late      uint64        // received after one that was published later

	Acknowledged, Latency Histogram
}

// Lost returns the number of messages that a subscriber should have received, and did not.
func (r *Result) Lost() uint64 { return r.Expected - min(r.Received, r.Expected) }

// run is a load that is under way.
type run struct {
	Options
	epoch       time.Time     // of all times that are measured
	start       time.Duration // when publishing began
	publishers  []*publisher
	subscribers []*subscriber
	clients     sync.WaitGroup
}

// Run connects all, publishes for the duration or until the context ends, and waits until all
// messages have arrived, or none has for Patience. An error is why nothing was measured.
func Run(ctx context.Context, o Options) (*Result, error) {
	r := &run{Options: o, epoch: time.Now()}
	living, end := context.WithCancel(context.WithoutCancel(ctx))
	defer r.clients.Wait()
	defer end()
	result := &Result{}
	if err := r.connect(ctx, living); err != nil {
		return nil, err
	}
	result.Connected = r.now()
	result.Version = r.publishers[0].client.Peer().Version
	r.start = r.now()
	r.publish(ctx, living)
	result.Took = r.now() - r.start
	r.awaitArrival(living)
	r.collect(result)
	return result, nil
}

// connect has all clients connect and subscribe. A client that cannot ends it.
func (r *run) connect(ctx, living context.Context) error {
	var all []*participant
	for i := range r.Subscribers {
		s := &subscriber{participant: participant{run: r}, from: make([]series, r.Publishers)}
		s.filter = r.Topic + "/+"
		if r.Own {
			s.filter = r.topic(i)
		}
		s.init(fmt.Sprintf("s%d", i), client.SessionOptions{ReceiveOnly: true})
		s.client.Subscribe(s.filter, s)
		r.subscribers = append(r.subscribers, s)
		all = append(all, &s.participant)
	}
	for i := range r.Publishers {
		p := &publisher{participant: participant{run: r}, number: i, sent: make(chan sent, r.Window)}
		p.init(fmt.Sprintf("p%d", i), client.SessionOptions{})
		r.publishers = append(r.publishers, p)
		all = append(all, &p.participant)
	}
	for _, one := range all {
		r.clients.Go(func() { one.client.Run(living) })
	}
	for _, one := range all {
		if err := one.awaitConnected(ctx); err != nil {
			return err
		}
	}
	return nil
}

// now returns the time since the epoch, by the monotonic clock.
func (r *run) now() time.Duration { return time.Since(r.epoch) }

func (r *run) topic(i int) string { return fmt.Sprintf("%s/%d", r.Topic, i) }
