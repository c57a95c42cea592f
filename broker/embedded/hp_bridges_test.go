package embedded

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker/bridges/bridgestest"
)

// TestHPBridges: a bridge at one node receives what is published at all, once, with its
// publisher and RETAIN; one at each node receives all of it.
func TestHPBridges(t *testing.T) {
	t.Parallel()
	kinds := map[int]*bridgestest.Kind{}
	all := gatherHP(t, func(n *node) {
		k := &bridgestest.Kind{}
		kinds[n.at.NodeID] = k
		bridged(t, &n.config, k)
	})
	for i, n := range all[:2] {
		if err := n.SetBridgeConfig(t.Context(), "fake-bridge", leads("a")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the others know of the bridge", func() bool {
			for _, other := range all {
				for _, f := range other.cluster.peering.Load().mesh.Figures() {
					if f.Node == i+1 && f.Routes == 0 {
						return false
					}
				}
			}
			return true
		})
	}
	for qos, n := range all {
		d := joinPatient(t, n)
		d.publishAll("in/1", byte(qos))
		d.Send(d.Message("in/2", "x", 0, true))
	}
	want := map[string]int{"in/1 QoS 0": 1, "in/1 QoS 1": 1, "in/1 QoS 2": 1, "in/2 QoS 0 retained": 3}
	for _, n := range all[:2] {
		target := kinds[n.at.NodeID].Target("a")
		eventually(t, "all is delivered", func() bool { return len(target.Delivered()) >= 2*len(all) })
		got := map[string]int{}
		for _, e := range target.Delivered() {
			what := fmt.Sprintf("%s QoS %d", e.Topic, e.QoS)
			if e.Retain {
				what += " retained"
			}
			got[what]++
			if e.ClientID == "" {
				t.Errorf("no client has published %+v", e.Message)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("node %d delivered (-want +got):\n%s", n.at.NodeID, diff)
		}
	}
}
