package console_test

import (
	"net"
	"strconv"
	"testing"

	"signalbox/broker/brokertest"
	"signalbox/router/apitest"
	"signalbox/scripts/suite"
)

// TestClusterDrain drains a node, which the service reaches by its ordinary listener, and undoes that.
func TestClusterDrain(t *testing.T) {
	t.Parallel()
	var addresses [2]string
	var services [2]*apitest.API
	for i := range services {
		addresses[i] = brokertest.FreePort(t, "127.0.0.1")
		services[i] = newNode(t, addresses[i])
	}
	p := &plant{services[0], t, plain, nil, map[string]string{}}
	nodes := []object{}
	for i, id := range []string{p.Embedded, p.addNode("second", services[1])} {
		host, port, _ := net.SplitHostPort(addresses[i])
		number, err := strconv.Atoi(port)
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, object{"broker_id": id, "url": "mqtt://x", "nodeid": i + 1, "name": "n" + strconv.Itoa(i+1), "address": host, "port": number})
	}
	var made struct{ ID string }
	p.Root.Post("/api/projects/"+p.Project+"/clusters", object{"clustername": "site", "syncmode": "hp", "nodes": nodes}).Want(200).Decode(&made)

	c := &clusterConsole{signIn(t, p.URL+"/ui/p/"+p.Project+"/clusters/"+made.ID), t}
	c.wantNodes("1 Leader", "2 Follower")
	const drain = "#nodes a[href$='/drain?node=2']"
	suite.WaitFor(t, "the node serves clients as one of the cluster", func() bool {
		var record struct{ ClusterMode *string }
		services[1].Root.Get(services[1].At("")).Want(200).Decode(&record)
		return record.ClusterMode != nil && *record.ClusterMode == "hp"
	})
	c.dialog(drain, "moves all its sessions to the other nodes", nil, "n2")
	c.wantNodes("1 Leader", "2 Follower Drained")
	c.Expect("400 Bad Request")
	c.Click("#nodes a[href$='/drain?node=1']")
	c.WaitFor("document.querySelector('#dialog').open && document.querySelector('#dialog form')")
	c.Click("#dialog form .primary")
	c.WaitFor("document.querySelector('#dialog .message.bad')?.innerText.includes('No other node of the cluster')")
	c.Reload()
	c.dialog(drain, "accepts clients again", nil, "n2")
	c.wantNodes("1 Leader", "2 Follower")
}
