package embedded

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"signalbox/broker"
	"signalbox/broker/control"
	"signalbox/broker/dynsec"
	"signalbox/broker/embedded/cluster"
	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// record is the control requests that the program of a node was asked to record.
type record struct {
	mu       sync.Mutex
	requests []broker.ControlRequest
}

// withRecord has the requests of a node recorded.
func (r *record) withRecord(n *node) {
	n.config.ControlAudit = func(q broker.ControlRequest) (func([]broker.ControlOutcome), error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests = append(r.requests, q)
		return func([]broker.ControlOutcome) {}, nil
	}
}

// of returns the first request with a command.
func (r *record) of(command string) (found broker.ControlRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range r.requests {
		if slices.ContainsFunc(q.Commands, func(c broker.ControlCommand) bool { return c.Name == command }) {
			return q
		}
	}
	return found
}

// dialNode connects to the broker of another node over the cluster port.
func (n *node) dialNode(to *node) *device {
	n.t.Helper()
	var d *device
	eventually(n.t, "the other node accepts", func() bool {
		ctx, cancel := context.WithTimeout(n.t.Context(), suite.HangLimit)
		defer cancel()
		conn, err := n.DialNode(ctx, to.Membership())
		if err == nil {
			d = newDevice(n.t, conn, 5)
		}
		return err == nil
	})
	d.Connect()
	return d
}

// TestDialNode manages the broker of each other node over the cluster port, whether or not it leads. The
// other node names the one that acts, and no ban keeps it out.
func TestDialNode(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"dynsec", "full", "hp"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			recorded := &record{}
			all := newCluster(t, 3, mode, func(*node) {}, withList, recorded.withRecord)
			for _, from := range all {
				for _, to := range all.others(from) {
					name, rolename := fmt.Sprint("cluster node ", from.at.NodeID), fmt.Sprintf("%d at %d", from.at.NodeID, to.at.NodeID)
					for _, ban := range []broker.BanSpec{{Kind: broker.BanUsername, Value: name}, {Kind: broker.BanAddress, Value: "127.0.0.1"}} {
						if err := to.AddBan(t.Context(), ban); err != nil && broker.KindOf(err) != broker.Exists {
							t.Fatal(err)
						}
					}
					d := from.dialNode(to)
					if codes := d.Subscribe(0, dynsec.ResponseTopic, "$CONTROL/#"); codes[0] != 0 {
						t.Fatalf("SUBACK code %d", codes[0])
					}
					eventually(t, "a role is created", func() bool { // while there is no leader that is refused
						d.command(`{"command":"createRole","rolename":"` + rolename + `"}`)
						answer := string(d.Want(packet.Publish).Payload)
						return !strings.Contains(answer, `"error"`) || strings.Contains(answer, "already exists")
					})
					if q := recorded.of("createRole"); q.Username == "" || !strings.HasPrefix(q.Username, "cluster node ") || q.Address != "127.0.0.1" {
						t.Errorf("recorded %+v", q)
					}
					shown, err := to.InspectClient(t.Context(), d.ID)
					if err != nil || shown.Username != name || shown.Listener == nil || shown.Listener.Port != to.at.Port {
						t.Errorf("got %+v, %v", shown, err)
					}
				}
			}
		})
	}
}

// TestDialNodeThatLeft refuses a node that was removed, and one whose cluster does not share the data of
// the program.
func TestDialNodeThatLeft(t *testing.T) {
	t.Parallel()
	all := newCluster(t, 3, "dynsec", func(*node) {}, withList)
	leader := all.leading(t)
	others := all.others(leader)
	stays, gone := others[0], others[1]
	former, own := gone.Membership(), stays.Membership()
	d, back := stays.dialNode(gone), gone.dialNode(stays)
	leader.ask(control.RemoveNode("plant", gone.at), nil)
	d.WantEnd()
	back.WantEnd()
	eventually(t, "the removed node is alone", func() bool { return gone.Membership() == "" })
	wantUnavailable := func(from *node, to, want string) {
		t.Helper()
		eventually(t, "the connection is refused: "+want, func() bool {
			_, err := from.DialNode(t.Context(), to)
			return broker.KindOf(err) == broker.Unavailable && strings.Contains(err.Error(), want)
		})
	}
	wantUnavailable(stays, former, fmt.Sprintf("node %d has left the cluster", gone.at.NodeID))
	wantUnavailable(gone, own, "not part of the cluster")
	stays.stop()
	wantUnavailable(leader, own, "cannot be reached at its cluster port "+stays.config.Cluster.Listen)

	apart := newCluster(t, 2, "dynsec", func(*node) {})
	wantUnavailable(apart[0], apart[1].Membership(), "does not share")
	conn, _, err := apart[0].cluster.node.DialMQTT(t.Context(), cluster.Membership(apart[1].Membership()))
	if err != nil {
		t.Fatal(err)
	}
	newDevice(t, conn, 5).WantEnd()
	alone := start(t)
	if _, err := alone.DialNode(t.Context(), own); broker.KindOf(err) != broker.Unavailable || alone.Membership() != "" {
		t.Errorf("a broker without a cluster port: %v", err)
	}
}
