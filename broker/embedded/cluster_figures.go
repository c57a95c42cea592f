package embedded

import (
	"signalbox/broker/cluster"
	"signalbox/broker/embedded/mesh"
)

// ClusterFigures are what is measured of this broker as a node of a cluster. At
// rest only what was counted is there.
type ClusterFigures struct {
	cluster.Figures
	cluster.Status
	Name string
	Self int
}

// ClusterFigures gives what is measured, false where the broker cannot be a node.
func (b *Broker) ClusterFigures() (f ClusterFigures, able bool) {
	if b.cluster == nil {
		return f, false
	}
	f.Figures, f.Status = b.cluster.node.Figures(), b.cluster.node.Status()
	if info, err := b.cluster.node.Info(); err == nil {
		f.Name, f.Self = info.Name, int(info.Self)
	}
	return f, true
}

// Links gives what is measured of the links to the other nodes of an HP cluster;
// none otherwise.
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
