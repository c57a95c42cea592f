package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"signalbox/broker/bridges"
	"signalbox/broker/bridges/reach"
)

// connector is one connection to a cluster.
type connector struct {
	options  []kgo.Opt
	dial     bridges.Dial
	tls      *tls.Config // nil for none
	maxBytes int32
	login    bool // there are credentials
	trial    bool
	plans    map[string]*plan // by topic mapping
	changed  chan struct{}

	client *kgo.Client     // nil while there is none
	watch  *watch          // of the client
	lines  *lines          // of the client
	known  map[string]bool // topics that the client knows the partitions of
}

// watch is told by the client of its connections to brokers.
type watch struct {
	changed chan<- struct{}

	mu   sync.Mutex // guards the field below
	last error      // why the newest of them failed
}

// OnBrokerConnect keeps why there is no connection.
func (w *watch) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = err
}

// OnBrokerDisconnect has the engine look whether the cluster is still there.
func (w *watch) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	select {
	case w.changed <- struct{}{}:
	default: // it is going to look anyway
	}
}

func (w *watch) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Connect makes a client and reaches one of the brokers.
func (c *connector) Connect(ctx context.Context) error {
	c.drop()
	w, l := &watch{changed: c.changed}, newLines(c.dial, c.tls)
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.WithHooks(w), kgo.Dialer(l.dial)}, c.options...)...)
	if err != nil {
		return reach.Explained(err, "the configuration is none for a client of Kafka: "+err.Error())
	}
	c.client, c.watch, c.lines, c.known = client, w, l, make(map[string]bool)
	stop := context.AfterFunc(ctx, l.end)
	err = client.Ping(ctx)
	if err == nil && c.trial {
		err = c.findTopics(ctx)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		err = explain(err, w.err(), c.login)
		c.drop()
	}
	return err
}

// findTopics looks whether the topics are there that are known by name.
func (c *connector) findTopics(ctx context.Context) error {
	req := kmsg.NewPtrMetadataRequest()
	for _, p := range c.plans {
		if p.constant != "" {
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = kmsg.StringPtr(p.constant)
			req.Topics = append(req.Topics, topic)
		}
	}
	if creates, ok := c.client.OptValue(kgo.AllowAutoTopicCreation).(bool); ok && creates || len(req.Topics) == 0 {
		return nil
	}
	answer, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return err
	}
	for _, topic := range answer.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil && topic.Topic != nil {
			return topicTrouble(err, *topic.Topic)
		}
	}
	return nil
}

// Changed tells that a connection to a broker ended.
func (c *connector) Changed() <-chan struct{} { return c.changed }

// Check asks the cluster for an answer.
func (c *connector) Check(ctx context.Context) error {
	if c.client == nil {
		return &bridges.Lost{Err: errNotConnected}
	}
	stop := context.AfterFunc(ctx, c.lines.end)
	err := c.client.Ping(ctx)
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		return c.lost(err)
	}
	return nil
}

var errNotConnected = errors.New("there is no connection to the cluster")

// Close ends the connection.
func (c *connector) Close(context.Context) error {
	c.drop()
	return nil
}

func (c *connector) drop() {
	if c.client != nil {
		c.lines.end()
		c.client.Close()
	}
	c.client, c.watch, c.lines, c.known = nil, nil, nil, nil
}

// lost gives the client up, and with it what it still has under way.
func (c *connector) lost(err error) error {
	err = explain(err, c.watch.err(), c.login)
	c.drop()
	return &bridges.Lost{Err: err}
}
