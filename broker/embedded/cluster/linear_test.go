package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"signalbox/scripts/suite"
)

// asked is one operation on a key of the register: a read, or a write where value
// is not "".
type asked struct{ key, value string }

// seen is the outcome of an operation: the value before, none for a write of unknown outcome.
type seen struct {
	value   string
	unknown bool
}

// registers is the model of the cluster: registers with atomic reads and writes.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(asked).key
			by[key] = append(by[key], o)
		}
		var all [][]porcupine.Operation
		for _, one := range by {
			all = append(all, one)
		}
		return all
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(asked), output.(seen)
		after := state
		if in.value != "" {
			after = in.value
		}
		return out.unknown || out.value == state, after
	},
}

// unknownPerKey is the number of writes of unknown outcome after which a key is not used any more. The
// time of the check grows exponentially with it, because each of them may happen at any later time.
const unknownPerKey = 5

// keys are the names of the registers in use.
type keys struct {
	mu      sync.Mutex
	unknown [3]int // writes of unknown outcome of each register, its earlier names included
}

// pick returns a register and its present name.
func (k *keys) pick() (register int, name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	register = rand.IntN(len(k.unknown))
	return register, fmt.Sprintf("k%d.%d", register, k.unknown[register]/unknownPerKey)
}

// countUnknown counts a write of unknown outcome.
func (k *keys) countUnknown(register int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unknown[register]++
}

// TestCampaignLinearizable writes and reads at all nodes concurrently while leaders are isolated,
// killed and replaced, and checks the history.
func TestCampaignLinearizable(t *testing.T) {
	t.Parallel()
	f := newFleet(t).form(1, 2, 3)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex // guards history
	var history []porcupine.Operation
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(history)
	}
	var used keys
	began := time.Now()
	for client := range 5 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				o := f.ask(&used, client, i, began)
				mu.Lock()
				history = append(history, o...)
				mu.Unlock()
			}
		})
	}
	f.disturb(func() { // lets some operations succeed
		from := count()
		eventually(t, func() error {
			if n := count() - from; n < 60 {
				return fmt.Errorf("there were only %d operations", n)
			}
			return nil
		})
	})
	stop()
	wg.Wait()
	f.settled(3)
	checked := time.Now()
	result, _ := porcupine.CheckOperationsVerbose(registers, history, suite.HangLimit)
	if result != porcupine.Ok {
		t.Errorf("the history of %d operations is %v", len(history), result)
	}
	t.Logf("%d operations, checked in %s", len(history), time.Since(checked))
}

// ask reads or writes at one of the nodes and returns the operation, none if nothing was done.
func (f *fleet) ask(used *keys, client, i int, began time.Time) []porcupine.Operation {
	register, name := used.pick()
	in := asked{key: name}
	request := []byte("read " + in.key)
	if rand.IntN(2) == 0 {
		in.value = fmt.Sprintf("%d/%d", client, i)
		request = write{in.key, in.value}.encode()
	}
	n := f.network.at(NodeID(1 + rand.IntN(3)))
	if n == nil {
		pause(context.Background(), time.Millisecond)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 700*time.Millisecond)
	defer cancel()
	call := time.Since(began)
	answer, err := n.Forward(ctx, request)
	o := porcupine.Operation{ClientId: client, Input: in, Call: int64(call), Output: seen{value: string(answer)}, Return: int64(time.Since(began))}
	switch {
	case err == nil:
	case errors.Is(err, ErrUnconfirmed) && in.value != "":
		used.countUnknown(register)
		o.Output, o.Return = seen{unknown: true}, int64(time.Hour) // it may still happen
	default:
		return nil
	}
	return []porcupine.Operation{o}
}

// disturb isolates, kills and replaces leaders, with pauses.
func (f *fleet) disturb(work func()) {
	for range 2 {
		work()
		old := f.leader()
		f.network.isolate(old.id)
		f.leader(f.others(old.id)...)
		work()
		f.network.mend(old.id)
		f.settled(3)
		killed := f.leader()
		killed.kill()
		work()
		f.start(killed.id)
		f.settled(3)
		next := f.follower()
		f.leader().node.SetLeader(within(f.t, suite.HangLimit), next.id) //nolint:errcheck // the test continues with either leader
	}
}

// others returns all nodes except one.
func (f *fleet) others(id NodeID) (all []NodeID) {
	for other := range f.nodes {
		if other != id {
			all = append(all, other)
		}
	}
	return all
}
