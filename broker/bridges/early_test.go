package bridges_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
)

// TestStoredIfTargetFails has a target that fails while messages are being stored. They are stored then,
// and all are delivered after a restart, in order.
func TestStoredIfTargetFails(t *testing.T) {
	t.Parallel()
	k := &bridgestest.Kind{}
	r := bridgestest.Start(t, k, disk(t))
	target := k.Target("t")
	r.Set(doc(conn("c", `"retryMinInsertDelay":1`, `"batchSize":3`)))
	publishTexts(r.Broker, "a/b", "first") // later ones may be delivered while they are being stored
	arrives(t, target, 1)
	target.HandleBatches(func(context.Context, []*bridges.Entry, []bridges.Result) error {
		return errors.New("the target is busy")
	})
	want := []string{"first"}
	for _, text := range numbers(0, 40) {
		want = append(want, text)
		if len(want)%3 == 0 {
			publishTexts(r.Broker, "a/b", text)
		} else {
			r.Broker.ClientPublish(qos0("a/b", text))
		}
	}
	r.Until("c", "delivering fails", func(s broker.BridgeStatus) bool { return s.Error != "" && s.QueuedMessages == 40 })
	bridgestest.Await(t, func() error {
		if waiting, settled := r.Broker.Outcomes(); waiting > 0 || len(settled) != 1+13 {
			return fmt.Errorf("%d wait, %d are settled", waiting, len(settled))
		}
		return nil
	})
	r.Restart()
	target.HandleBatches(nil)
	if diff := cmp.Diff(want, arrives(t, target, 41)); diff != "" {
		t.Errorf("what came (-want +got):\n%s", diff)
	}
	r.Until("c", "all is delivered", func(s broker.BridgeStatus) bool { return s.QueuedMessages == 0 && s.Error == "" })
}
