package embedded

import (
	"errors"
	"fmt"

	"signalbox/broker"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/embedded/cluster/mesh"
	"signalbox/broker/embedded/cluster/sessions"
)

// ClusterFigures are the metrics of this broker as a node. Without a cluster only the
// counters are set.
type ClusterFigures struct {
	cluster.Figures
	cluster.Status
	cluster.Health
	broker.Drain
	Name string
	Self int
}

// ClusterFigures returns the metrics; false if the broker cannot be a node.
func (b *Broker) ClusterFigures() (f ClusterFigures, able bool) {
	if b.cluster == nil {
		return f, false
	}
	f.Figures, f.Status = b.cluster.node.Figures(), b.cluster.node.Status()
	f.Health, f.Drain = b.cluster.node.Health(), b.cluster.drainState()
	if info, err := b.cluster.node.Info(); err == nil {
		f.Name, f.Self = info.Name, int(info.Self)
	}
	return f, true
}

// backlogs returns the other nodes that this one waits for, and what it stores for each.
func (m *member) backlogs() (all []broker.Backlog) {
	t := m.peering.Load()
	if t == nil {
		return nil
	}
	for _, f := range t.mesh.Figures() {
		if !f.Linked || f.Stored > 0 {
			all = append(all, broker.Backlog{NodeID: f.Node, Away: !f.Linked, Messages: f.Stored, Bytes: f.StoredBytes, MaxBytes: f.MaxStoredBytes})
		}
	}
	return all
}

// warning returns what does not keep this node from working, and should not remain; nil for nothing.
func (m *member) warning() error {
	return errors.Join(m.broker.certificateWarning(), backlogWarning(m.backlogs()), m.loopWarning(), m.sharedWarning())
}

// backlogWarning returns for which nodes so much is stored that little more may be; nil for none.
func backlogWarning(all []broker.Backlog) error {
	var errs []error
	for _, b := range all {
		if b.Bytes >= b.MaxBytes/5*4 {
			errs = append(errs, fmt.Errorf("%d of at most %d bytes are stored for node %d, beyond which messages for it are refused: start the node, remove it from the cluster, or raise cluster.max_backlog", b.Bytes, b.MaxBytes, b.NodeID))
		}
	}
	return errors.Join(errs...)
}

// Links returns the metrics of the links to the other nodes of an HP cluster; none
// otherwise.
func (b *Broker) Links() []mesh.Figures {
	if b.cluster == nil {
		return nil
	}
	t := b.cluster.peering.Load()
	if t == nil {
		return nil
	}
	return t.mesh.Figures()
}

// Claims returns the metrics of clients that move between the nodes of an HP cluster; false
// if the broker is in none.
func (b *Broker) Claims() (f sessions.Figures, ok bool) {
	if b.cluster == nil {
		return f, false
	}
	t := b.cluster.peering.Load()
	if t == nil {
		return f, false
	}
	return t.claims.Figures(), true
}

// Losses counts the acknowledged messages that were lost to sessions at other nodes of an
// HP cluster; nil if the broker cannot be a node.
func (b *Broker) Losses() *mesh.Losses {
	if b.cluster == nil {
		return nil
	}
	return b.cluster.losses
}
