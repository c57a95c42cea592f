package embedded

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/messaging"
	"signalbox/broker/mqtt/client"
	"signalbox/broker/mqtt/hosted"
)

// The nodes of a cluster that share messages and the data of the program have the same streams and bridges. One
// of them at a time, the host, takes their messages, with MQTT sessions of the cluster that the next host goes on with: so
// what was acknowledged and not processed is not lost with a node.

// Definitions are those of the streams and bridges of the nodes of a cluster, as the program shares them.
type Definitions interface {
	// StoreID returns the id under which this node stores its streams and bridges: [StoreID], or one that begins with
	// it and a slash. It changes when the content of a cluster replaces that of the node, and back.
	StoreID() string
	// Wait reports whether the nodes cannot share them yet, as some run an earlier release.
	Wait() bool
	// Share adds those of this node to those of the cluster, unless they are among them or have been replaced by them.
	// None of them is open, and Wait returns false.
	Share(ctx context.Context) error
	// Serving waits until this node is the host; see [messaging.ServingBroker].
	Serving(ctx context.Context) (context.Context, error)
	// ClientID returns from what the ids of the MQTT sessions are made, the same at all nodes.
	ClientID() string
}

// The first byte of a request about the streams or bridges of the cluster, which the host executes.
const (
	askStreams = 'S' // a message to the control topic of streams
	askBridge  = 'B' // the id of a bridge, a zero byte, and a message to its control topic
)

// clusterClient is the socket node number of the client that takes the messages for the streams and bridges of the cluster.
const clusterClient = -1

// sharesFeatures reports whether the nodes of this broker's cluster have the same streams and bridges.
func (m *member) sharesFeatures() bool {
	return m.broker.config.Definitions != nil && m.sharesData.Load() && m.sharing() != sharesNothing
}

// settleFeatures opens the streams and bridges that the membership requires, in place of the present ones. A node that waits to
// be admitted keeps its own. The caller holds transition.
func (m *member) settleFeatures(ctx context.Context, admitted bool) error {
	f := &m.broker.features
	s := f.current.Load()
	switch {
	case m.closing, m.broker.life.isClosing():
		return nil
	case !m.sharesFeatures():
		if !m.sessionsForgotten { // of this process, or of one before that ended too early
			if s != nil && s.client != nil {
				m.closeFeatures(ctx)
			}
			m.broker.forgetSessions(ctx)
			m.sessionsForgotten = true
		}
		if s != nil && s.client == nil && s.id == f.storeID() {
			return nil
		}
		m.closeFeatures(ctx)
		f.openOwn()
		return nil
	case !admitted, s != nil && !m.hasLeader(), m.broker.config.Definitions.Wait(), s != nil && s.client != nil && s.id == f.storeID():
		return nil
	}
	m.closeFeatures(ctx)
	ctx, cancel := context.WithTimeout(ctx, shareTimeout)
	defer cancel()
	if err := m.broker.config.Definitions.Share(ctx); err != nil {
		return err
	}
	f.openShared()
	return nil
}

// shareTimeout bounds how long the node waits for its definitions to be those of the cluster, before it tries again.
const shareTimeout = 3 * time.Second

// hasLeader reports whether the cluster has a leader, as far as this node knows.
func (m *member) hasLeader() bool {
	_, known := m.node.Leader()
	return known
}

// forgetSessions deletes the sessions with which this broker has taken messages for the streams and bridges of a cluster that
// it is not a node of any more: nothing would take what they go on to queue.
func (b *Broker) forgetSessions(ctx context.Context) {
	for after := ""; ; {
		all := b.engine.Ownerships(after, ownershipsPage)
		for _, o := range all {
			after = o.ClientID
			if o.Username != clusterUsername || o.Anonymous {
				continue
			}
			if err := b.engine.Forget(ctx, o.ClientID); err != nil {
				b.log.Warn("a session of the streams and bridges of the former cluster is not deleted; it expires", "clientid", o.ClientID, "error", err)
			}
		}
		if len(all) < ownershipsPage {
			return
		}
	}
}

// ownershipsPage is how many sessions are listed at once.
const ownershipsPage = 1000

// endFeatures closes the streams and bridges of the cluster before this node's sessions move to other nodes, theirs
// among them. No others are opened from then on.
func (m *member) endFeatures(ctx context.Context) {
	m.transition.Lock()
	defer m.transition.Unlock()
	if m.broker.features.isShared() {
		m.closeFeatures(ctx)
	}
}

// closeFeatures closes the streams and bridges. What they have not finished in time they finish before the next ones are opened.
func (m *member) closeFeatures(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeFeaturesTimeout)
	defer cancel()
	if err := m.broker.features.close(ctx); err != nil {
		m.broker.log.Warn("streams and bridges are still being closed", "error", err)
	}
}

// openShared opens the streams and bridges of the cluster.
func (f *features) openShared() {
	b, d := f.broker, f.broker.config.Definitions
	s := &featureSet{id: d.StoreID()}
	s.client = hosted.New(hosted.Options{
		Serving: d.Serving, ResponseTimeout: clusterClientTiming.ResumeTimeout, Log: b.log,
		Connected: func() bool { return b.Ready(context.Background()) == nil },
	})
	flow := client.New(client.Options{
		Open: b.connectInProcess, Serving: s.client.Serving, Await: func(ctx context.Context) error {
			if _, err := b.engine.Serving(ctx); err != nil {
				return err
			}
			return s.client.Refresh(ctx)
		},
		Explain: explainClusterClient, ClientID: hosted.ClientID(d.ClientID()), Session: client.SessionOptions{Expiry: clusterSessionExpiry}, Timing: clusterClientTiming, Now: b.clock.Now, Log: b.log,
	})
	var openStreams func(messaging.Broker) messaging.StreamEngine
	var openBridges func(messaging.Broker) messaging.BridgeEngine
	if host := b.config.Streams; host != nil {
		openStreams = func(m messaging.Broker) messaging.StreamEngine { return host.Open(s.id, m) }
	}
	if host := b.config.Bridges; host != nil {
		openBridges = func(m messaging.Broker) messaging.BridgeEngine { return host.Open(s.id, host.Identity(), m) }
	}
	s.client.Open(flow, openStreams, openBridges)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.client.Run(ctx) })
	s.stop = func() {
		cancel()
		running.Wait()
	}
	f.current.Store(s)
}

// clusterSessionExpiry is how long the sessions outlive a cluster in which no node can be the host, in seconds: a week.
const clusterSessionExpiry = 7 * 24 * 3600

// clusterClientTiming are the times of a client in this process.
var clusterClientTiming = client.Timing{
	Connect: 10 * time.Second, ResumeTimeout: 10 * time.Second, Write: 10 * time.Second, MinDelay: 100 * time.Millisecond, MaxDelay: 2 * time.Second,
	Stable: 10 * time.Second, Ping: 30 * time.Second, ReadTimeout: time.Minute, Retry: time.Minute, IdleTimeout: time.Second,
}

// connectInProcess opens a connection to this broker for the streams and bridges of the cluster.
func (b *Broker) connectInProcess(context.Context) (net.Conn, error) {
	if err := b.Ready(context.Background()); err != nil {
		return nil, err
	}
	here, there := net.Pipe()
	s := &engine.Socket{Conn: there, Protocol: "MQTT", Node: clusterClient}
	s.Address = shownAddress(s.IP)
	b.tasks.Go(func() { b.engine.Serve(s) })
	return here, nil
}

// explainClusterClient explains why the client has no connection.
func explainClusterClient(err error) *broker.Error {
	return &broker.Error{Kind: broker.Unavailable, Op: "connect", Err: err, Msg: "the streams and bridges of the cluster have no connection to it at this node at the moment: " + err.Error()}
}

// SharesFeatures reports whether the streams and bridges of this broker are those of its cluster, or are about to be, and a node is
// a member, by its Membership: it has the same ones.
func (b *Broker) SharesFeatures(membership string) bool {
	m := b.cluster
	return m != nil && m.sharesFeatures() && !b.config.Definitions.Wait() && m.node.Includes(cluster.Membership(membership))
}

// askHost has the host of the streams and bridges of the cluster execute a request, and returns its response. It reports
// false if this node is to execute it.
func (b *Broker) askHost(ctx context.Context, kind byte, request, payload []byte) (response []byte, asked bool) {
	if s := b.features.current.Load(); s != nil && s.client == nil || b.config.Definitions == nil || b.features.isHost() {
		return nil, false
	}
	host := b.OtherLeader()
	if host == 0 {
		return control.Refuse(payload, string(control.ErrNoHost)), true
	}
	response, err := b.cluster.node.Ask(ctx, cluster.NodeID(host), withKind(kind, request))
	remote, isRemote := errors.AsType[*cluster.RemoteError](err)
	switch {
	case errors.Is(err, cluster.ErrUnconfirmed), isRemote && remote.Error() != errors.ErrUnsupported.Error():
		return control.Refuse(payload, string(control.ErrUnconfirmed)), true
	case err != nil:
		b.log.Debug("the host of the streams and bridges of the cluster does not respond", "node", host, "error", err)
		return control.Refuse(payload, string(control.ErrNoHost)), true
	}
	return response, true
}

// answerHost executes a request that another node has sent with askHost. A node whose platform is another one may not, and a node
// that is not the host any more does not.
func (m *member) answerHost(ctx context.Context, from cluster.NodeID, execute func(context.Context) []byte) ([]byte, error) {
	if !m.isPlatform(from) || !m.broker.features.isShared() || !m.broker.features.isHost() {
		return nil, errors.ErrUnsupported
	}
	return responseOf(ctx, execute(ctx))
}

// isHost reports whether this node takes the messages for the streams and bridges of the cluster.
func (f *features) isHost() bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // so that nothing is waited for
	_, err := f.broker.config.Definitions.Serving(ctx)
	return err == nil
}
