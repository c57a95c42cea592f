package streams

import (
	"testing"
	"testing/synctest"

	"signalbox/broker/messaging"
)

// ignoredNotifier is a CommitNotifier that does nothing.
type ignoredNotifier struct{}

func (ignoredNotifier) Committed(error) {}

// TestQueueBounds fills queues. They drop the newest message at the limits,
// which are twice as high for messages with a notifier. One message is taken
// regardless of its size.
func TestQueueBounds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		queue       *queue
		size        int
		notifier    messaging.CommitNotifier
		wantTaken   int
		wantAwakens int
	}{
		{"messages", &queue{messages: 3, bytes: 1 << 20}, 10, nil, 3, 1},
		{"messages that are waited for", &queue{messages: 3, bytes: 1 << 20}, 10, ignoredNotifier{}, 6, 1},
		{"bytes", &queue{messages: 100, bytes: 4 * (10 + messaging.Overhead)}, 10, nil, 4, 1},
		{"bytes that are waited for", &queue{messages: 100, bytes: 4 * (10 + messaging.Overhead)}, 10, ignoredNotifier{}, 8, 1},
		{"one that is too long", &queue{messages: 100, bytes: 10}, 1000, nil, 1, 1},
		{"closed", &queue{messages: 100, bytes: 1000, closed: true}, 10, nil, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var taken, awakens int
			for range 20 {
				ok, wake := tt.queue.put(messaging.Message{Payload: make([]byte, tt.size)}, tt.notifier)
				if ok {
					taken++
				}
				if wake {
					awakens++
				}
			}
			if taken != tt.wantTaken || awakens != tt.wantAwakens {
				t.Errorf("%d taken and %d awakened, want %d and %d", taken, awakens, tt.wantTaken, tt.wantAwakens)
			}
			if list, _ := tt.queue.take(nil); len(list) != taken {
				t.Errorf("%d taken out", len(list))
			}
			if list, more := tt.queue.take(nil); more {
				t.Errorf("%d left", len(list))
			}
		})
	}
}

// TestQueueWork checks that there is one worker at a time, and that Wait waits
// for it.
func TestQueueWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &queue{messages: 10, bytes: 10000}
		var seen []string
		work := func() {
			defer q.work.Done()
			for list, more := q.take(nil); more; list, more = q.take(list) {
				for _, m := range list {
					seen = append(seen, m.Topic)
				}
			}
		}
		for _, topic := range []string{"a", "b", "c", "d"} {
			if _, wake := q.put(messaging.Message{Topic: topic}, nil); wake {
				go work()
			}
			if topic == "b" {
				synctest.Wait()
			}
		}
		q.close()
		q.work.Wait()
		if got := len(seen); got != 4 || seen[0] != "a" || seen[3] != "d" {
			t.Errorf("got %q", seen)
		}
		if taken, wake := q.put(messaging.Message{}, nil); taken || wake {
			t.Error("a closed queue takes messages")
		}
	})
}
