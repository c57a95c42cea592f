package embedded

import (
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
