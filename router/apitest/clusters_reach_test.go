package apitest_test

import (
	"fmt"
	"strings"
	"testing"

	"signalbox/broker"
)

// ownRecords waits until the broker of each node has a record that all nodes know, by which the tests
// address it from then on.
func ownRecords(t *testing.T, all []*site) {
	t.Helper()
	first := all[0]
	for _, s := range all {
		waitFor(t, "the broker of the node has a record", func() bool {
			s.Embedded = s.Handlers.Embedded()
			return s.Embedded != "" && first.Root.Get(first.BrokerAt(s.Embedded, "")).Status == 200
		})
		s.Project = first.Project
		s.Root = s.logIn(t)
	}
}

// TestClusterReachesBrokers has each node reach the brokers of the others without stored credentials: they
// are connected and managed at every node, and so is the cluster. A node that was removed is reached no
// more, which its record explains.
func TestClusterReachesBrokers(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3, shareData)
	first := all[0]
	path := formCluster(t, all, "dynsec")
	ownRecords(t, all)
	for _, s := range all {
		for _, other := range all {
			waitFor(t, fmt.Sprintf("node %d reaches the broker of node %d", s.id, other.id), func() bool {
				return s.Root.Get(s.BrokerAt(other.Embedded, "/clients")).Status == 200
			})
			if r := brokerRecord(s.API, other.Embedded); !r.Status.Connected || r.Status.Error != "" || r.Username != nil || r.HasPassword {
				t.Errorf("the record of node %d's broker at node %d: %+v", other.id, s.id, r)
			}
			name := fmt.Sprintf("of-%d-at-%d", s.id, other.id)
			waitFor(t, "a client is created", func() bool {
				r := s.Root.Post(s.BrokerAt(other.Embedded, "/clients"), object{"username": name, "password": "secret"})
				return r.Status == 204 || strings.Contains(string(r.Body), "ALREADY_EXISTS")
			})
			for _, at := range all {
				waitFor(t, "the client is at all nodes", func() bool { return strings.Contains(string(at.Root.Get(at.At("/clients")).Body), `"`+name+`"`) })
			}
		}
		waitState(t, s, path, "active", len(all))
	}
	// The far node records which node has acted, and the near one who.
	waitFor(t, "both have recorded the command", func() bool {
		list := string(first.Root.Get("/api/audit?operation=createClient").Body)
		return strings.Contains(list, `"cluster node 2"`) && strings.Contains(list, `"user"`)
	})
	second, third := all[1], all[2]
	first.leaveCluster(t, path, 3)
	for _, s := range []*site{first, second} {
		waitFor(t, "the removed node is not reached", func() bool {
			r := brokerRecord(s.API, third.Embedded)
			return !r.Status.Connected && strings.Contains(r.Status.Error, "node 3 has left the cluster")
		})
		s.Root.Get(s.BrokerAt(third.Embedded, "/clients")).WantError(503, "BROKER_UNAVAILABLE")
		waitState(t, s, path, "active", 2)
	}
	waitFor(t, "the removed node reaches no other", func() bool {
		r := brokerRecord(third.API, first.Embedded)
		return !r.Status.Connected && strings.Contains(r.Status.Error, "not part of the cluster")
	})
}

// TestClusterIsDeletedFromAnyNode dissolves a cluster whose leader is reached over the cluster port, which
// closes the connection before the response may have arrived.
func TestClusterIsDeletedFromAnyNode(t *testing.T) {
	t.Parallel()
	all := startSites(t, 3, shareData)
	path := formCluster(t, all, "dynsec")
	ownRecords(t, all)
	second := all[1]
	waitFor(t, "the first node leads", func() bool {
		all[0].Root.Put(path+"/leader", object{"nodeid": 1})
		var c broker.Cluster
		second.Root.Get(path).Want(200).Decode(&c)
		return c.State == "active" && c.Nodes[0].Leader
	})
	second.Root.Delete(path).Want(200)
	for _, s := range all {
		waitFor(t, "the broker is alone", func() bool { return metrics(s.API)["signalbox_cluster_state"] == "0" })
	}
}
