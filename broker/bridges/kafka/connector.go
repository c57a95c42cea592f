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

// connector is a connection to a cluster.
type connector struct {
	options  []kgo.Opt
	dial     bridges.Dial
	tls      *tls.Config // nil without TLS
	maxBytes int32
	login    bool // credentials are configured
	trial    bool
	plans    map[string]*plan // by topic mapping
	changed  chan struct{}

	client *kgo.Client     // nil while not connected
	watch  *watch          // belongs to client
	lines  *lines          // belongs to client
	known  map[string]bool // topics whose partitions the client knows
}

// watch is a hook of the client that observes its connections to brokers.
type watch struct {
	changed chan<- struct{}

	mu   sync.Mutex // guards the field below
	last error      // why the last attempt to connect failed
}

// OnBrokerConnect records why a connection failed.
func (w *watch) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = err
}

// OnBrokerDisconnect has the engine check whether the cluster is still available.
func (w *watch) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	select {
	case w.changed <- struct{}{}:
	default: // a check is due already
	}
}

func (w *watch) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// Connect creates a client and connects to one of the brokers.
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

// findTopics checks whether the topics with a constant name exist.
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

// Changed returns a channel that receives when a connection to a broker has ended.
func (c *connector) Changed() <-chan struct{} { return c.changed }

// Check sends a request to the cluster.
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

// Close closes the connection.
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

// lost closes the client, with all records in flight, and returns the error.
func (c *connector) lost(err error) error {
	err = explain(err, c.watch.err(), c.login)
	c.drop()
	return &bridges.Lost{Err: err}
}
