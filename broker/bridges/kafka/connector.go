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
	"signalbox/broker/bridges/target"
)

// connector is a connection to a cluster.
type connector struct {
	options        []kgo.Opt
	dial           bridges.Dial
	tls            *tls.Config // nil without TLS
	maxBytes       int32
	hasCredentials bool // credentials are configured
	trial          bool
	plans          map[string]*plan // by topic mapping
	changed        chan struct{}

	client      *kgo.Client     // nil while not connected
	hook        *connectionHook // belongs to client
	connections *connections    // belongs to client
	knownTopics map[string]bool // topics whose partitions the client knows
}

// connectionHook is a hook of the client that observes its connections to brokers.
type connectionHook struct {
	changed chan<- struct{}

	mu      sync.Mutex // guards the field below
	lastErr error      // why the last attempt to connect failed
}

// OnBrokerConnect records why a connection failed.
func (w *connectionHook) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lastErr = err
}

// OnBrokerDisconnect has the engine check whether the cluster is still available.
func (w *connectionHook) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	select {
	case w.changed <- struct{}{}:
	default: // a check is due already
	}
}

func (w *connectionHook) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lastErr
}

// Connect creates a client and connects to one of the brokers.
func (c *connector) Connect(ctx context.Context) error {
	c.drop()
	w, l := &connectionHook{changed: c.changed}, newConnections(c.dial, c.tls)
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.WithHooks(w), kgo.Dialer(l.dial)}, c.options...)...)
	if err != nil {
		return target.Explain(err, "the configuration is none for a client of Kafka: "+err.Error())
	}
	c.client, c.hook, c.connections, c.knownTopics = client, w, l, make(map[string]bool)
	stop := context.AfterFunc(ctx, l.closeAll)
	err = client.Ping(ctx)
	if err == nil && c.trial {
		err = c.findTopics(ctx)
	}
	if !stop() {
		err = ctx.Err()
	}
	if err != nil {
		err = explain(err, w.err(), c.hasCredentials)
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
	response, err := req.RequestWith(ctx, c.client)
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil && topic.Topic != nil {
			return topicError(err, *topic.Topic)
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
	stop := context.AfterFunc(ctx, c.connections.closeAll)
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
		c.connections.closeAll()
		c.client.Close()
	}
	c.client, c.hook, c.connections, c.knownTopics = nil, nil, nil, nil
}

// lost closes the client, with all records in flight, and returns the error.
func (c *connector) lost(err error) error {
	err = explain(err, c.hook.err(), c.hasCredentials)
	c.drop()
	return &bridges.Lost{Err: err}
}
