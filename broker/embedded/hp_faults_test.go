package embedded

import (
	"fmt"
	"testing"
)

// TestHPRestart publishes at a node that was just started again what somebody is
// subscribed to at another one.
func TestHPRestart(t *testing.T) {
	all := gatherHP(t)
	reader := join(t, all[1].Broker, 5, as("dev", "pw"))
	reader.subscribe(1, "news/#")
	for round := range 5 {
		all[0].stop()
		all[0].start()
		topic := fmt.Sprint("news/", round)
		join(t, all[0].Broker, 5, as("dev", "pw")).publishAll(topic, 1)
		if got := reader.settled(); len(got) != 1 || got[0] != topic {
			t.Errorf("the reader got %v, want %s", got, topic)
		}
	}
}
