package apitest_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
)

// isOpen reports whether a listener accepts connections.
func isOpen(listener string) bool {
	conn, err := net.Dial("tcp", strings.TrimPrefix(listener, "mqtt://"))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// wantServing waits until exactly one of the sites serves clients, and returns it. All
// are open to administrators.
func wantServing(t *testing.T, all []*site) (serving *site) {
	t.Helper()
	waitFor(t, "one node serves clients", func() bool {
		serving = nil
		for _, s := range all {
			if isOpen(s.Listeners[0]) {
				if serving != nil {
					return false
				}
				serving = s
			}
		}
		return serving != nil
	})
	for _, s := range all {
		if !isOpen(s.Listeners[1]) {
			t.Errorf("node %d is not open to administrators", s.id)
		}
	}
	return serving
}

// TestFullCluster covers the life cycle of a cluster in which one node serves, over
// HTTP.
func TestFullCluster(t *testing.T) {
	t.Parallel()
	all := startSites(t, 4)
	first, three := all[0], all[:3]
	path := formCluster(t, three, "full")
	if s := wantServing(t, three); s != first {
		t.Errorf("node %d serves, want the one that the cluster began with", s.id)
	}
	for _, s := range three {
		if r := brokerRecord(first.API, s.at); !r.HA || r.ClusterMode == nil || *r.ClusterMode != "full" {
			t.Errorf("node %d: ha %t, clustermode %v", s.id, r.HA, r.ClusterMode)
		}
	}
	own := brokerRecord(all[1].API, all[1].Embedded) // whose project does not know the cluster
	if !own.HA || own.ClusterMode == nil || *own.ClusterMode != "full" {
		t.Errorf("node 2 of itself: ha %t, clustermode %v", own.HA, own.ClusterMode)
	}
	message := object{"topic": "kept", "payload": "x", "qos": 1, "retain": true}
	first.Root.Post(first.At("/messages"), message).Want(204)
	if e := all[1].Root.Post(all[1].At("/messages"), message).WantError(400, "CONFLICT").Error(); !strings.Contains(e.Message, "node 1") {
		t.Errorf("the leader is not named: %q", e.Message)
	}

	first.joinCluster(t, path, all[3])
	waitState(t, first, path, "active", 4)
	wantServing(t, all)
	first.leaveCluster(t, path, 2)
	waitState(t, first, path, "active", 3)
	waitFor(t, "the node that left serves", func() bool { return isOpen(all[1].Listeners[0]) })
	if r := brokerRecord(first.API, all[1].at); r.HA || r.ClusterMode != nil {
		t.Errorf("after it left: ha %t, clustermode %v", r.HA, r.ClusterMode)
	}
	first.Root.Delete(path + "?clustername=plant").Want(200)
	for _, s := range all {
		waitFor(t, "every node serves", func() bool { return isOpen(s.Listeners[0]) })
		waitFor(t, "every node has what was retained", func() bool {
			var kept []struct{ Topic string }
			s.Root.Get(s.At("/messages/retained?filter=kept")).Want(200).Decode(&kept)
			return len(kept) == 1
		})
	}
}

// A node cannot join over a listener that would be closed, and the refusal leaves
// nothing behind.
func TestFullClusterOverAClosedListener(t *testing.T) {
	t.Parallel()
	all := startSites(t, 2)
	first := all[0]
	right := all[1].at
	all[1].at = addBroker(t, first.API, object{"name": "ordinary", "url": all[1].Listeners[0], "username": mqttAdmin, "password": mqttPassword})
	waitFor(t, "the broker is known to be able to be a node", func() bool {
		return slices.Contains(brokerRecord(first.API, all[1].at).Capabilities, broker.CapCluster)
	})
	clusters := "/api/projects/" + first.Project + "/clusters"
	body := object{"clustername": "plant", "syncmode": "full", "nodes": []object{all[0].node(), all[1].node()}}
	e := first.Root.Post(clusters, body).WantError(400, "CONFLICT").Error()
	for _, words := range []string{"node 2 (n2)", "admin_only"} {
		if !strings.Contains(e.Message, words) {
			t.Errorf("got %q, want %q in it", e.Message, words)
		}
	}
	if got := strings.TrimSpace(string(first.Root.Get(clusters).Want(200).Body)); got != "[]" {
		t.Errorf("left: %s", got)
	}
	for _, s := range all {
		waitFor(t, fmt.Sprint("node ", s.id, " serves"), func() bool { return isOpen(s.Listeners[0]) })
	}
	all[1].at = right
	formCluster(t, all, "full")
	wantServing(t, all)
}
