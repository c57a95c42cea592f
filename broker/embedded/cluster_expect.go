package embedded

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker/control"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/mqtt/packet"
)

// standBy opens the listeners of a broker that is alone, or only those for administrators if a
// cluster is expected: its access control and messages are not those that its clients are to find.
// The caller holds transition, or has not started the broker.
func (m *member) standBy() error {
	m.restricted = m.broker.config.Cluster.Expect != ""
	return m.broker.listeners.Restrict(m.restricted)
}

// lockOut leaves the clients of a broker that is in no cluster, although one is expected, to other
// nodes. The caller holds transition.
func (m *member) lockOut(ctx context.Context) error {
	b := m.broker
	if b.config.Cluster.Expect == "" {
		return nil
	}
	if !m.restricted {
		if err := errors.Join(m.standBy(), b.suspend(ctx, packet.ReasonUseAnotherServer)); err != nil {
			m.restricted = false // it is tried again
			return err
		}
	}
	if err := b.engine.Resume(ctx); err != nil { // without effect if nothing was suspended
		return err
	}
	if !m.announced {
		m.announced = true
		b.log.Warn("the broker serves administrators only, until it is let into the cluster that it expects (cluster.expect)",
			"cluster", b.config.Cluster.Expect)
	}
	return nil
}

// letIn undoes lockOut. In syncmode full, the serving state decides about the listeners. The caller
// holds transition.
func (m *member) letIn() error {
	if !m.restricted {
		return nil
	}
	if m.serving == alone || m.serving == meshed {
		if err := m.broker.listeners.Restrict(false); err != nil {
			return err
		}
	}
	m.restricted, m.announced = false, false
	return nil
}

// checkExpected refuses another cluster than the one that is expected.
func (m *member) checkExpected(clustername string) error {
	if expected := m.broker.config.Cluster.Expect; expected != "" && expected != clustername {
		return control.ErrExpected
	}
	return nil
}

// awaitsCluster returns why the broker does not serve as a node of the cluster that it expects, nil
// if it does or none is expected.
func (m *member) awaitsCluster() error {
	expected := m.broker.config.Cluster.Expect
	if expected == "" {
		return nil
	}
	info, err := m.node.Info()
	switch {
	case errors.Is(err, cluster.ErrNotClustered), err == nil && info.Name == "":
		return fmt.Errorf("the broker serves administrators only, until it is let into the cluster %q: add it there as a node, "+
			"or remove cluster.expect if it is to serve alone", expected)
	case err == nil && info.Name != expected:
		return fmt.Errorf("the broker is a node of the cluster %q, but cluster.expect is %q: correct the setting, or remove the node there",
			info.Name, expected)
	}
	return nil
}
