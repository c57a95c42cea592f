package systemtest

import (
	"fmt"
	"os"
	"testing"

	"signalbox/scripts/suite"
)

// TestRestoreOfANodeThatSharesData loses the node of a cluster that runs the stream and the bridge of a connected broker, with all
// its data. Others go on with them. What is restored does not run them, before the node joins again and after that, unless it
// leads: no message is taken twice.
func TestRestoreOfANodeThatSharesData(t *testing.T) {
	t.Parallel()
	const phase = 200 // messages
	c, source, at := startConnected(t)
	first := c.machines[0]
	first.api.must(t, "POST", at+"/streams", object{"streamname": "kept", "sourcetopic": "plant/#", "persist": true}, nil)
	target, ok := newHTTPPeer(t, endpoint{}).(*httpPeer)
	if !ok {
		t.Fatal("the peer is another one")
	}
	bridge, document := target.bridge()
	first.api.must(t, "PUT", at+"/bridges/"+bridge+"/config", document, nil)
	c.createShared(t)
	publishers := publishTo(t, endpoint{address: source.Addr}, 1, []string{"plant/a"})
	suite.WaitFor(t, "messages come", func() bool { return target.count(t) >= phase })

	lost, others := c.leading(t)
	restore := lost.backUp(t)
	lost.run.Kill()
	if err := os.RemoveAll(lost.dir); err != nil {
		t.Fatal(err)
	}
	suite.WaitFor(t, "another node continues", func() bool { return target.count(t) >= 2*phase })
	wantRefused(t, restore(), "--cluster rejoin")
	if got := restore("--cluster", "rejoin"); got.code != 0 {
		t.Fatalf("restore: %+v", got)
	}
	taken := target.drain() // some of those around the loss came twice
	lost.start(t)
	if state := lost.streamState(t, at, "kept"); state != "inactive" || lost.hasBridge(t, at, bridge) {
		t.Errorf("the restored node has the stream %s, and the bridge switched on: %t", state, lost.hasBridge(t, at, bridge))
	}
	suite.WaitFor(t, "messages come while the restored node is alone", func() bool { return target.count(t) >= phase })
	c.console = others[0].api
	if lost == first { // which the others reached over the cluster port
		others[0].change(t, "PUT", c.console.inProject("/brokers/"+c.brokers[lost.id]), object{"url": "mqtt://" + lost.mqtt, "username": mqttAdmin, "password": mqttPassword})
	}
	c.rejoin(t, lost)
	for _, m := range c.machines {
		suite.WaitFor(t, fmt.Sprintf("node %d has the stream and the bridge", m.id), func() bool {
			return m.streamState(t, at, "kept") == "active" && m.hasBridge(t, at, bridge)
		})
	}
	came := target.count(t)
	last := publishers.finish(t, len(taken)+came+phase)
	suite.WaitFor(t, "all messages have come", func() bool { return len(missing(append(target.all(t), taken...), last)) == 0 })
	if twice := repeated(target.all(t)); twice > 0 {
		t.Errorf("%d messages came twice after the restore", twice)
	}
}
