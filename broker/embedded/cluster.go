package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"signalbox/broker"
	"signalbox/broker/cluster"
	"signalbox/broker/control"
	"signalbox/broker/dynsec"
)

// ClusterConfig is the configuration under "cluster.".
type ClusterConfig struct {
	// Listen is the address of the cluster port; empty for a broker that takes no
	// part in clusters.
	Listen string `mapstructure:"listen"`
}

// Validate names every key whose value cannot be used.
func (c ClusterConfig) Validate() error {
	if c.Listen == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("cluster.listen: must be host:port, as in 10.0.0.1:7000, or empty: %w", err)
	}
	return nil
}

// clusterDir is the folder of the cluster's files in the data directory.
const clusterDir = "cluster"

// joinPatience is how long a node that joins waits to be let in before it is
// answered, which is before whoever asked loses patience; it goes on waiting.
const joinPatience = 7 * time.Second

// member is this broker as a node of a cluster, or as one that could be.
type member struct {
	broker *Broker
	node   *cluster.Node // set once, before ready is closed
	ready  chan struct{}
	look   chan struct{} // holds one entry while the node's place has to be looked at

	place sync.Mutex // held while the place is changed or looked at

	mu       sync.Mutex   // guards the fields below
	entering bool         // into a cluster, by a command that is not answered yet
	cuts     []dynsec.Cut // to be made when it is

	asking map[string]int        // requests about access control under way, by username; "" for those without
	spared map[string]dynsec.Cut // to be made when these are answered
}

// openCluster opens the node, if the broker is to take part in clusters. From
// then on the access control changes by agreement where it is shared.
func (b *Broker) openCluster(ctx context.Context, dataDir string) (err error) {
	shared := b.control.AppliedIndex() > 0
	if b.config.Cluster.Listen == "" {
		if shared {
			b.log.Warn("the access control is shared with a cluster and cannot be changed; set cluster.listen again")
		}
		return nil
	}
	m := &member{broker: b, ready: make(chan struct{}), look: make(chan struct{}, 1),
		asking: map[string]int{}, spared: map[string]dynsec.Cut{}}
	if shared {
		b.control.SetReplicator(m)
	}
	m.node, err = cluster.Open(ctx, cluster.Options{
		Dir: filepath.Join(dataDir, clusterDir), Listen: b.config.Cluster.Listen, Version: b.config.Version,
		Machine: machine{m}, Serve: m.serve, Answer: m.answer, Changed: m.changed, Log: b.log, Now: b.now,
	})
	if err != nil {
		return fmt.Errorf("open the cluster port (cluster.listen): %w", err)
	}
	close(m.ready)
	b.cluster = m
	m.changed()
	b.tasks.Go(m.follow)
	return nil
}

// closeCluster leaves the cluster's work to the others.
func (b *Broker) closeCluster(ctx context.Context) error {
	if b.cluster == nil {
		return nil
	}
	return b.cluster.node.Close(ctx)
}

// machine is the access control as the cluster replicates it.
type machine struct{ *member }

// Apply applies a change, and cuts off whom it concerns.
func (m machine) Apply(index uint64, command []byte) any {
	cuts, err := m.broker.control.ApplyChange(index, command)
	if err != nil {
		return cluster.Stop{Err: err}
	}
	m.broker.cut(m.spare(cuts))
	return nil
}

// Applied gives the index of the last change.
func (m machine) Applied() uint64 { return m.broker.control.AppliedIndex() }

// Snapshot gives the access control as it is now.
func (m machine) Snapshot(ctx context.Context) (cluster.Snapshot, error) {
	s, err := m.broker.control.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Restore takes over the access control of the others.
func (m machine) Restore(ctx context.Context, index uint64, r io.Reader) error {
	cuts, err := m.broker.control.ImportState(ctx, index, r)
	if err == nil {
		m.cut(cuts)
	}
	return err
}

// cut cuts off clients, after the answer where a command is under way: whoever
// has this broker join a cluster may not be known there.
func (m *member) cut(cuts []dynsec.Cut) {
	m.mu.Lock()
	later := m.entering
	if later {
		m.cuts = append(m.cuts, cuts...)
	}
	m.mu.Unlock()
	if !later {
		m.broker.cut(cuts)
	}
}

// spare leaves out, until they are answered, those who wait for an answer about
// access control: an administrator who changes itself through a node that does
// not lead is to hear of it.
func (m *member) spare(cuts []dynsec.Cut) []dynsec.Cut {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(cuts), func(c dynsec.Cut) bool {
		spared := m.asking[c.Username] > 0
		if spared {
			m.spared[c.Username] = c
		}
		return spared
	})
}

// asks notes that a client waits for an answer. It gives what is to be called
// when that is out.
func (m *member) asks(username string) (answered func()) {
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	m.asking[username]++
	m.mu.Unlock()
	return func() {
		if c, due := m.heard(username); due {
			m.broker.cut([]dynsec.Cut{c})
		}
	}
}

// heard notes that a client has its answer, and gives whether it is to be cut off
// now.
func (m *member) heard(username string) (c dynsec.Cut, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.asking[username]--; m.asking[username] > 0 {
		return c, false
	}
	delete(m.asking, username)
	c, due = m.spared[username]
	delete(m.spared, username)
	return c, due
}

// answered cuts off the clients that were to hear an answer first.
func (m *member) answered() {
	m.mu.Lock()
	cuts := m.cuts
	m.entering, m.cuts = false, nil
	m.mu.Unlock()
	m.broker.cut(cuts)
}

// Leads tells whether changes are decided here.
func (m *member) Leads() bool { return m.node.IsLeader() }

// Replicate has a change applied on all nodes.
func (m *member) Replicate(ctx context.Context, change []byte) error {
	_, _, err := m.node.Propose(ctx, change)
	return outcomeOf(err)
}

// Forward has the leader serve a request.
func (m *member) Forward(ctx context.Context, request []byte) ([]byte, error) {
	answer, err := m.node.Forward(ctx, request)
	return answer, outcomeOf(err)
}

// outcomeOf says whether what was proposed may still happen.
func outcomeOf(err error) error {
	if err == nil {
		return nil
	}
	if _, remote := errors.AsType[*cluster.RemoteError](err); remote || errors.Is(err, cluster.ErrUnconfirmed) {
		return &broker.Error{Kind: broker.Unconfirmed, Err: err, Msg: "the cluster did not confirm the change in time: it may be in force"}
	}
	return &broker.Error{Kind: broker.Unavailable, Err: err, Msg: "the cluster takes no changes at the moment: " + err.Error()}
}

// serve does a request of another node about access control.
func (m *member) serve(ctx context.Context, _ cluster.NodeID, request []byte) ([]byte, error) {
	select {
	case <-m.ready:
	case <-ctx.Done():
		return nil, cluster.ErrNoLeader
	}
	answer, cuts := m.broker.control.Serve(ctx, request)
	m.broker.cut(cuts)
	return answer, nil
}

// changed has the node's place looked at.
func (m *member) changed() {
	select {
	case m.look <- struct{}{}:
	default:
	}
}

// follow shares the access control as long as the broker is in a cluster.
func (m *member) follow() {
	for {
		select {
		case <-m.look:
			if err := m.settle(context.Background()); err != nil {
				m.broker.log.Error("the access control could not be separated from the cluster", "error", err)
			}
		case <-m.broker.life.closing:
			return
		}
	}
}

// settle shares the access control, or does not any more, as the node's place
// demands.
func (m *member) settle(ctx context.Context) error {
	m.place.Lock()
	defer m.place.Unlock()
	_, err := m.node.Info()
	switch {
	case err == nil, errors.Is(err, cluster.ErrNoLeader):
		m.broker.control.SetReplicator(m)
	case errors.Is(err, cluster.ErrNotClustered) && m.broker.control.AppliedIndex() > 0:
		return m.broker.control.Detach(ctx)
	case errors.Is(err, cluster.ErrNotClustered):
		m.broker.control.SetReplicator(nil)
	}
	return nil
}

// isEntering tells whether a command that takes the broker into a cluster is not
// answered yet. It holds the place for as long as that takes.
func (m *member) isEntering() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entering
}

// enter changes the node's place from none to one in a cluster. Nobody changes
// the access control alone meanwhile.
func (m *member) enter(do func() error) error {
	m.mu.Lock()
	m.entering = true
	m.mu.Unlock()
	m.place.Lock()
	if _, err := m.node.Info(); errors.Is(err, cluster.ErrNotClustered) {
		m.broker.control.SetReplicator(m)
	}
	err := do()
	m.place.Unlock()
	return errors.Join(err, m.settle(context.Background()))
}

// refusals are what the errors of a node are told as.
var refusals = []struct{ from, to error }{
	{cluster.ErrClustered, control.ErrInCluster},
	{cluster.ErrNotClustered, control.ErrNoCluster},
	{cluster.ErrNotLeader, control.ErrNotLeader},
	{cluster.ErrNoLeader, control.ErrNoLeader},
	{cluster.ErrUnknownNode, control.ErrNoNode},
	{cluster.ErrMember, control.ErrMember},
	{cluster.ErrUnconfirmed, control.ErrUnconfirmed},
}

// told gives an error of the node in the words of the control topic.
func told(err error) error {
	for _, r := range refusals {
		if errors.Is(err, r.from) {
			return r.to
		}
	}
	if _, ok := errors.AsType[*broker.Error](err); ok || err == nil {
		return err
	}
	return &broker.Error{Kind: broker.Conflict, Msg: err.Error(), Err: err}
}

// AskHA does a command about clusters as if it had come over the control topic.
func (b *Broker) AskHA(ctx context.Context, c control.HACommand, data any) error {
	if b.cluster == nil {
		return broker.NotSupported(c.Name(), broker.CapCluster)
	}
	const correlation = "own"
	answer := control.HA(ctx, b.cluster, c.Encode(correlation))
	b.cluster.answered()
	if answer == nil {
		return &broker.Error{Kind: broker.Unconfirmed, Op: c.Name(), Msg: "the broker did not answer in time: it may have been carried out", Err: ctx.Err()}
	}
	return control.ReadHA(c, answer, correlation, data)
}
