package mesh

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"signalbox/broker/embedded/engine"
)

// recordingReceipt records the name of its message.
type recordingReceipt struct {
	name    string
	settled *[]string
}

func (n recordingReceipt) Committed(error) { *n.settled = append(*n.settled, n.name) }

// TestQueue compares a queue with a naive one: messages are sent in order, again after a
// reconnect unless they were received, and confirmed once, in order.
func TestQueue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(15) {
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		var q queue
		var settled, wanted []string
		var received, confirmed, last uint64 // at the other node
		pushed := 0
		for range 2000 {
			switch random.IntN(8) {
			case 0, 1, 2:
				pushed++
				name := fmt.Sprint(pushed)
				c := engine.Forward{QoS: byte(random.IntN(3))}
				if c.QoS > 0 {
					last++
					c.Receipt = recordingReceipt{name, &settled}
					wanted = append(wanted, name)
				}
				q.push(messageFrame{message: &engine.Message{Topic: name}, Forward: c})
			case 3, 4, 5:
				batch, _ := q.nextBatch(nil, int64(random.IntN(500)))
				for _, p := range batch {
					if p.number == 0 {
						continue
					}
					if p.number != received+1 {
						t.Fatalf("message %d comes after %d", p.number, received)
					}
					received = p.number
				}
			case 6:
				confirmed += uint64(random.IntN(int(received-confirmed) + 1))
				receipts, _ := q.confirm(confirmed, nil)
				for _, r := range receipts {
					r.Committed(nil)
				}
			case 7:
				if random.IntN(4) == 0 { // sent, but not received
					received = confirmed + uint64(random.IntN(int(received-confirmed)+1))
				}
				q.resume(received)
				if p := q.find(received + 1); p != nil {
					t.Fatalf("message %d counts as sent", p.number)
				}
			}
			if want := wanted[:confirmed]; !slices.Equal(settled, want) {
				t.Fatalf("settled %v, want %v", settled, want)
			}
			if q.confirmed != confirmed {
				t.Fatalf("%d counts as confirmed, want %d", q.confirmed, confirmed)
			}
			q.checkCounts(t)
		}
		left := q.clear()
		if want := len(wanted) - int(confirmed); len(left) != want || q.bytes != 0 || q.waiting() != 0 {
			t.Fatalf("%d messages, want %d; %d bytes are left", len(left), want, q.bytes)
		}
		for i, p := range left {
			if got, want := p.message.Topic, wanted[int(confirmed)+i]; got != want || p.Receipt == nil {
				t.Fatalf("message %s, want %s", got, want)
			}
		}
	}
}

// checkCounts recounts what the queue counts.
func (q *queue) checkCounts(t *testing.T) {
	t.Helper()
	var bytes int64
	for _, r := range []*ring[messageFrame]{&q.unsent, &q.unconfirmed} {
		for i := range r.len() {
			bytes += r.at(i).size()
		}
	}
	if bytes != q.bytes || q.resendFrom > q.unconfirmed.len() {
		t.Fatalf("%d bytes, want %d; %d of %d were sent", q.bytes, bytes, q.resendFrom, q.unconfirmed.len())
	}
}

// TestQueueBounds accepts one message of any size, and no more than the bounds.
func TestQueueBounds(t *testing.T) {
	t.Parallel()
	large := messageFrame{message: &engine.Message{Payload: make([]byte, maxWaitingBytes+1)}}
	small := messageFrame{message: &engine.Message{Topic: "a"}}
	var q queue
	if q.full(&large) {
		t.Error("a single large message is refused")
	}
	q.push(large)
	if !q.full(&small) || !q.overHalf() {
		t.Error("a message is accepted after a large one")
	}
	q = queue{}
	for range maxWaiting {
		if q.full(&small) {
			t.Fatal("full too early")
		}
		q.push(small)
	}
	if !q.full(&small) {
		t.Error("a message beyond the bounds is accepted")
	}
	if q.nextBatch(nil, 1); q.full(&small) {
		t.Error("a message is refused although one was sent")
	}
}
