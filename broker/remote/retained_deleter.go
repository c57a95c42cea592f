package remote

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"signalbox/broker"
)

// Bounds of what is deleted at once: a broker may accept small packets only.
const (
	maxDeletions     = 16
	maxDeletionBytes = 4 << 10 // of topics
)

// retainedDeleter deletes retained messages over one short connection, which the first
// deletion opens. Simultaneous calls are combined: one of them does the work of those that
// wait, as most of the time is spent waiting until the broker has sent what it retains.
type retainedDeleter struct {
	b *Broker

	lock   chan struct{} // a mutex that can be waited for with a context; guards reader
	reader *topicReader  // nil while there is no connection

	mu      sync.Mutex // guards waiting
	waiting []*deletion
}

// deletion is a call in progress.
type deletion struct {
	topic string
	done  chan error // receives the outcome
}

// RetainedDeleter deletes retained messages over one connection.
func (b *Broker) RetainedDeleter() broker.RetainedDeleter {
	return &retainedDeleter{b: b, lock: make(chan struct{}, 1)}
}

// DeleteRetained clears the retained message of a topic and verifies that.
func (d *retainedDeleter) DeleteRetained(ctx context.Context, topic string) error {
	one := &deletion{topic, make(chan error, 1)}
	d.mu.Lock()
	d.waiting = append(d.waiting, one)
	d.mu.Unlock()
	select {
	case err := <-one.done:
		return err
	case <-ctx.Done():
		return d.abandon(ctx, one)
	case d.lock <- struct{}{}:
	}
	defer func() { <-d.lock }()
	for {
		select {
		case err := <-one.done:
			return err
		default:
			d.run(ctx, d.next())
		}
	}
}

// abandon ends a call whose context has ended.
func (d *retainedDeleter) abandon(ctx context.Context, one *deletion) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.waiting, one); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
		return &broker.Error{Kind: broker.Unavailable, Op: opDeleteRetained, Msg: "the request ended before the deletion began", Err: context.Cause(ctx)}
	}
	return &broker.Error{Kind: broker.Unconfirmed, Op: opDeleteRetained, Msg: "the deletion was not confirmed in time; it may have happened", Err: context.Cause(ctx)}
}

// next takes the calls that have waited longest, as many as are done at once.
func (d *retainedDeleter) next() []*deletion {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, size := 0, 0
	for n < min(maxDeletions, len(d.waiting)) {
		if size += len(d.waiting[n].topic); n > 0 && size > maxDeletionBytes {
			break
		}
		n++
	}
	batch := slices.Clone(d.waiting[:n])
	d.waiting = slices.Delete(d.waiting, 0, n)
	return batch
}

// run deletes for some calls. lock is held.
func (d *retainedDeleter) run(ctx context.Context, batch []*deletion) {
	topics := make([]string, 0, len(batch))
	for _, one := range batch {
		topics = append(topics, one.topic)
	}
	outcomes, err := d.clear(ctx, topics)
	for _, one := range batch {
		if err != nil {
			one.done <- err
			continue
		}
		one.done <- outcomes[one.topic]
	}
}

// clear does for topics what Broker.clear does for a filter, and returns the outcome of each.
func (d *retainedDeleter) clear(ctx context.Context, topics []string) (map[string]error, error) {
	found, err := d.read(ctx, topics)
	if err != nil {
		return nil, err
	}
	outcomes := map[string]error{}
	var left []string
	for _, topic := range topics {
		switch {
		case found.refused[topic]:
			outcomes[topic] = d.b.retainedError(ctx, opDeleteRetained, topic, errSubscriptionRefused)
		case !found.retained[topic]:
			outcomes[topic] = nothingRetained(opDeleteRetained)
		default:
			left = append(left, topic)
		}
	}
	left = slices.DeleteFunc(left, func(topic string) bool {
		outcomes[topic] = d.b.sendEmpty(ctx, topic)
		return outcomes[topic] != nil
	})
	left, err = d.awaitCleared(ctx, left)
	for _, topic := range left {
		if outcomes[topic] = stillRetained(); err != nil {
			outcomes[topic] = &broker.Error{Kind: broker.Unconfirmed, Op: opDeleteRetained, Msg: "the deletion was sent, but it could not be verified", Err: err}
		}
	}
	return outcomes, nil
}

// awaitCleared waits until no topic retains a message, at most for timing.clearTimeout. It
// returns those that do, or with an error those of which that is not known.
func (d *retainedDeleter) awaitCleared(ctx context.Context, topics []string) ([]string, error) {
	over := time.NewTimer(d.b.timing.clearTimeout)
	defer over.Stop()
	for pause := 10 * time.Millisecond; len(topics) > 0; pause *= 2 {
		found, err := d.read(ctx, topics)
		if err != nil {
			return topics, err
		}
		topics = slices.DeleteFunc(topics, func(topic string) bool { return !found.retained[topic] })
		if len(topics) == 0 {
			break
		}
		select {
		case <-time.After(pause):
		case <-over.C:
			return topics, nil
		case <-ctx.Done():
			return topics, context.Cause(ctx)
		}
	}
	return nil, nil
}

// read returns which topics retain a message. A connection from before may have been lost
// meanwhile; then another one is opened.
func (d *retainedDeleter) read(ctx context.Context, topics []string) (retainedTopicSet, error) {
	ctx, cancel := context.WithTimeout(ctx, d.b.timing.responseTimeout)
	defer cancel()
	isOld := d.reader != nil
	found, err := d.readOnce(ctx, topics)
	if err != nil && isOld && ctx.Err() == nil {
		found, err = d.readOnce(ctx, topics)
	}
	if _, explained := errors.AsType[*broker.Error](err); err != nil && !explained {
		err = d.b.retainedError(ctx, opDeleteRetained, topics[0], err)
	}
	return found, err
}

func (d *retainedDeleter) readOnce(ctx context.Context, topics []string) (retainedTopicSet, error) {
	if err := d.open(ctx); err != nil {
		return retainedTopicSet{}, err
	}
	if err := d.b.waitProcessed(ctx, opDeleteRetained); err != nil {
		return retainedTopicSet{}, err
	}
	conn := d.reader.conn.conn
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	found, err := d.reader.read(topics)
	if !stop() || err != nil {
		d.close()
	}
	return found, err
}

// open opens the connection unless there is one. lock is held.
func (d *retainedDeleter) open(ctx context.Context) error {
	if d.reader != nil {
		return nil
	}
	v, err := d.b.openShortConn(ctx, opDeleteRetained, maxDeletions)
	if err != nil {
		return err
	}
	v.conn.unsubscribes = true
	stop := context.AfterFunc(ctx, func() { v.conn.Close() })
	err = v.handshake(d.b.connectPacket())
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		v.conn.Close()
		<-d.b.shortConns
		return err
	}
	d.reader = &topicReader{conn: v, in: v.startReader()}
	return nil
}

// Close closes the connection.
func (d *retainedDeleter) Close() {
	d.lock <- struct{}{}
	defer func() { <-d.lock }()
	d.close()
}

// close closes the connection if there is one. lock is held.
func (d *retainedDeleter) close() {
	if d.reader == nil {
		return
	}
	d.reader.in.stop(d.reader.conn)
	d.reader = nil
	<-d.b.shortConns
}

// topicReader reads what topics retain, again and again over one connection.
type topicReader struct {
	conn *shortConn
	in   *packetReader
	id   uint16 // of the last SUBSCRIBE and UNSUBSCRIBE
}

// retainedTopicSet is what was found of topics: which retain a message, and which may not be
// subscribed to.
type retainedTopicSet struct{ retained, refused map[string]bool }

// read subscribes to topics until all that they retain was received.
func (r *topicReader) read(topics []string) (retainedTopicSet, error) {
	found := retainedTopicSet{map[string]bool{}, map[string]bool{}}
	if r.id++; r.id == 0 {
		r.id = 1
	}
	if err := r.conn.write(subscribePacket(r.id, topics...), packets.NewControlPacket(packets.Pingreq)); err != nil {
		return found, err
	}
	err := r.conn.readAll(r.in, func(s *packets.SubackPacket) error {
		if s.MessageID != r.id || len(s.ReturnCodes) != len(topics) {
			return errSuback
		}
		for i, code := range s.ReturnCodes {
			found.refused[topics[i]] = code == refusedSubscription
		}
		return nil
	}, func(p *packets.PublishPacket) bool {
		found.retained[p.TopicName] = true
		return true
	})
	if err != nil {
		return found, err
	}
	unsubscribe := packets.NewControlPacket(packets.Unsubscribe).(*packets.UnsubscribePacket)
	unsubscribe.MessageID, unsubscribe.Topics = r.id, topics
	return found, r.conn.write(unsubscribe)
}

// errSuback means that a SUBACK is not the response to the SUBSCRIBE.
var errSuback = errors.New("the broker acknowledged a subscription that was not requested")
