package systemtest

import (
	"testing"

	"signalbox/scripts/suite"
)

// attach routes the connections to the cluster port of a machine through the network: the
// machine advertises the address there.
func (s *faultCampaign) attach(t testing.TB, m *machine) {
	t.Helper()
	m.advertised = s.network.Attach(t, m.id, m.cluster)
}

// outgoing returns the paths from one machine to others, and incoming those to it.
func outgoing(m *machine, others []*machine) (paths []suite.Path) {
	for _, o := range others {
		paths = append(paths, suite.Path{From: m.id, To: o.id})
	}
	return paths
}

func incoming(m *machine, others []*machine) (paths []suite.Path) {
	for _, o := range others {
		paths = append(paths, suite.Path{From: o.id, To: m.id})
	}
	return paths
}
