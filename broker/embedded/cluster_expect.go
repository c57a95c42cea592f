package embedded

import (
	"context"
	"errors"
	"fmt"

	"signalbox/broker/control"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/mqtt/packet"
)

// lockOut closes the listeners for others than administrators, if a cluster is expected: this
// broker's access control and messages are not those that its clients are to find. The caller
// holds transition, or has not started the broker.
func (m *member) lockOut(ctx context.Context) error {
	b := m.broker
	if b.config.Cluster.Expect == "" || m.expecting || m.serving != alone {
		return nil
	}
	if err := b.listeners.Restrict(true); err != nil {
		return err
	}
	if err := b.suspend(ctx, packet.ReasonUseAnotherServer); err != nil {
		return err
	}
	if err := b.engine.Resume(ctx); err != nil {
		return err
	}
	m.expecting = true
	b.log.Warn("the broker serves administrators only, until it is let into the cluster that it expects (cluster.expect)",
		"cluster", b.config.Cluster.Expect)
	return nil
}

// letIn undoes lockOut. In syncmode full, the serving state decides about the listeners. The caller
// holds transition.
func (m *member) letIn() error {
	if !m.expecting {
		return nil
	}
	if m.serving == alone || m.serving == meshed {
		if err := m.broker.listeners.Restrict(false); err != nil {
			return err
		}
	}
	m.expecting = false
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
