package systemtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
)

// arrival is a message that has reached a bridge's peer. N counts the messages of a
// topic, Attempt how often its sender has sent it: a sender repeats what was not
// acknowledged.
type arrival struct {
	Topic   string `json:"topic"`
	N       int    `json:"n"`
	Attempt int    `json:"attempt"`
	ID      string `json:"id,omitempty"` // of the bridge, "" if the peer does not receive one
}

// readArrival decodes the payload of a message of publishers. The zero value stands for any other.
func readArrival(payload []byte) (a arrival) {
	if json.Unmarshal(payload, &a) != nil {
		return arrival{}
	}
	return a
}

// arrivals are the messages that have reached a peer, in order. It is for peers that
// run within the test.
type arrivals struct {
	mu   sync.Mutex // guards list
	list []arrival
}

func (a *arrivals) take(more ...arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, more...)
}

// count returns how many have arrived.
func (a *arrivals) count(testing.TB) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.list)
}

// all returns them.
func (a *arrivals) all(testing.TB) []arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.list)
}

// drain returns them, and deletes them here.
func (a *arrivals) drain() (list []arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list, a.list = a.list, nil
	return list
}

// comparison is the difference between the arrivals and what was sent.
type comparison struct {
	resent     int      // the sender repeated them, and both arrived
	duplicates int      // the bridge delivered them again
	violations []string // must be empty
}

func (f *comparison) report(format string, values ...any) {
	if len(f.violations) < 20 {
		f.violations = append(f.violations, fmt.Sprintf(format, values...))
	}
}

// compare compares arrivals with the last number of each topic.
func compare(list []arrival, last map[string]int) comparison {
	var f comparison
	came := map[string]int{}       // last number that arrived of each topic
	copies := map[arrival]int{}    // by topic, number and attempt
	ids := map[arrival]string{}    // the same
	owners := map[string]arrival{} // by id
	for _, a := range list {
		message, next := arrival{Topic: a.Topic, N: a.N, Attempt: a.Attempt}, came[a.Topic]+1
		switch {
		case a.N == next:
			came[a.Topic] = next
		case a.N > next:
			f.report("%s: %d came before %d", a.Topic, a.N, next)
			came[a.Topic] = a.N
		case copies[message] > 0:
			f.duplicates++
		default:
			f.resent++
		}
		copies[message]++
		if a.ID != "" {
			if known, ok := ids[message]; ok && known != a.ID {
				f.report("%+v came with the id %s before", a, known)
			}
			if owner, ok := owners[a.ID]; ok && owner != message {
				f.report("%+v has the id of %+v", a, owner)
			}
			ids[message], owners[a.ID] = a.ID, message
		}
	}
	for topic, n := range last {
		if came[topic] != n {
			f.report("%s: the last that came is %d, the last that was acknowledged %d", topic, came[topic], n)
		}
	}
	for topic := range came {
		if _, known := last[topic]; !known {
			f.report("nothing was sent to %s", topic)
		}
	}
	return f
}

// complete reports whether the last message of each topic has arrived.
func complete(list []arrival, last map[string]int) bool {
	came := map[string]bool{}
	for _, a := range list {
		if a.N == last[a.Topic] {
			came[a.Topic] = true
		}
	}
	return len(came) == len(last)
}

// TestCompare covers the results of a comparison.
func TestCompare(t *testing.T) {
	t.Parallel()
	a := func(n, attempt int, id string) arrival { return arrival{Topic: "a", N: n, Attempt: attempt, ID: id} }
	for _, c := range []struct {
		name               string
		list               []arrival
		resent, duplicates int
		violations         int
	}{
		{"all in order", []arrival{a(1, 1, "x"), a(2, 1, "y"), a(3, 1, "z")}, 0, 0, 0},
		{"one sent again", []arrival{a(1, 1, "x"), a(2, 1, "y"), a(2, 2, "w"), a(3, 1, "z")}, 1, 0, 0},
		{"one delivered again", []arrival{a(1, 1, "x"), a(2, 1, "y"), a(1, 1, "x"), a(3, 1, "z")}, 0, 1, 0},
		{"one delivered again with another id", []arrival{a(1, 1, "x"), a(1, 1, "y"), a(2, 1, ""), a(3, 1, "")}, 0, 1, 1},
		{"an id of two", []arrival{a(1, 1, "x"), a(2, 1, "x"), a(3, 1, "")}, 0, 0, 1},
		{"one lost", []arrival{a(1, 1, ""), a(3, 1, "")}, 0, 0, 1},
		{"the last lost", []arrival{a(1, 1, ""), a(2, 1, "")}, 0, 0, 1},
		{"wrong order", []arrival{a(2, 1, ""), a(1, 1, ""), a(3, 1, "")}, 1, 0, 1},
		{"a strange one", []arrival{a(1, 1, ""), a(2, 1, ""), a(3, 1, ""), {Topic: "b", N: 1}}, 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := compare(c.list, map[string]int{"a": 3})
			if got.resent != c.resent || got.duplicates != c.duplicates || len(got.violations) != c.violations {
				t.Errorf("got %+v, want %d resent, %d duplicates and %d violations", got, c.resent, c.duplicates, c.violations)
			}
		})
	}
}
