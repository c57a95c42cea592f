package embedded

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"signalbox/broker/mqtt/mqtttest/packet"
	"signalbox/scripts/suite"
)

// TestHPRetainedRace retains and clears a few topics at all nodes concurrently, while a
// node stops and starts. At the end all have the same.
func TestHPRetainedRace(t *testing.T) {
	t.Parallel()
	all := gatherHP(t)
	for round := range 2 {
		var writing sync.WaitGroup
		for _, n := range all {
			for k := range 2 {
				p := joinPatient(t, n)
				writing.Go(func() { p.scribble(fmt.Sprintf("%d.%d.%d", round, n.at.NodeID, k), 60) })
			}
		}
		writing.Wait()
		all.wantSameRetained(t)
		away := all[round]
		away.stop()
		for _, n := range all.others(nil) {
			p := joinPatient(t, n)
			writing.Go(func() { p.scribble(fmt.Sprintf("%d.%d.away", round, n.at.NodeID), 40) })
		}
		away.start()
		writing.Wait()
		all.linked(t)
		all.wantSameRetained(t)
	}
}

// scribble retains and clears topics at all QoS. An operation without a response is
// repeated before the next one.
func (d *device) scribble(name string, messages int) {
	for i := range messages {
		payload := fmt.Sprint(name, ".", i)
		if rand.IntN(4) == 0 {
			payload = ""
		}
		m := d.Message(fmt.Sprint("race/", rand.IntN(5)), payload, byte(rand.IntN(2)), true)
		if rand.IntN(8) == 0 {
			m.Properties.MessageExpiry = 1
		}
		d.Send(m)
		if m.QoS > 0 {
			if ack, err := d.Next(); err != nil || ack.Type != packet.Puback {
				d.T.Errorf("%s got type %d: %v", name, ack.Type, err)
				return
			}
		}
	}
	d.Send(packet.Packet{Type: packet.Pingreq})
	d.Next() //nolint:errcheck // any response
}

// wantSameRetained waits until all nodes retain the same.
func (all nodes) wantSameRetained(t *testing.T) {
	t.Helper()
	began := time.Now()
	var differ []map[string]string
	same := func() bool {
		differ = nil
		for _, n := range all {
			m := map[string]string{}
			_, kept := n.engine.Retained("race/#", 0, -1)
			for _, k := range kept {
				m[k.Topic] = string(k.Payload)
			}
			differ = append(differ, m)
		}
		return maps.Equal(differ[0], differ[1]) && maps.Equal(differ[1], differ[2])
	}
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !same() {
		<-again.C
		if time.Since(began) > suite.HangLimit {
			t.Fatalf("what is retained differs: %v", differ)
		}
	}
	t.Logf("alike after %v: %v", time.Since(began), differ[0])
}
