package systemtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"signalbox/scripts/suite"
)

// claim is the creation or the deletion of a client that others create and delete
// as well.
type claim struct {
	username string
	deletes  bool
}

// verdict is what came of it: whether the client was there before. Of one whose end
// is not known that is not known either.
type verdict struct {
	before  bool
	unknown bool
}

// contested is how many clients are fought for.
const contested = 4

func contestedName(i int) string { return fmt.Sprint("contested-", i) }

// oneTruth is what a cluster must look like from outside: whether a client is there
// is decided at one moment for each operation, whichever node it goes through.
var oneTruth = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		by := map[string][]porcupine.Operation{}
		for _, o := range history {
			name := o.Input.(claim).username
			by[name] = append(by[name], o)
		}
		for _, one := range by {
			parts = append(parts, one)
		}
		return parts
	},
	Init: func() any { return false },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(claim), output.(verdict)
		return out.unknown || out.before == state.(bool), !in.deletes
	},
}

// contest is the history of such operations, over all nodes.
type contest struct {
	began  time.Time
	random *rand.Rand

	mu      sync.Mutex // guards history
	history []porcupine.Operation
}

// enter creates or deletes one of a few clients through a machine.
func (c *contest) enter(t testing.TB, m *machine) {
	t.Helper()
	in := claim{username: contestedName(c.random.IntN(contested)), deletes: c.random.IntN(2) == 0}
	method, path, body := "POST", m.api.at("/clients"), any(object{"username": in.username})
	if in.deletes {
		method, path, body = "DELETE", m.api.at("/clients?username="+in.username), nil
	}
	call := time.Since(c.began)
	status, answer, err := m.api.do(t.Context(), method, path, body)
	o := porcupine.Operation{ClientId: m.id, Input: in, Call: int64(call), Return: int64(time.Since(c.began)), Output: verdict{before: in.deletes}}
	var refusal struct{ Code string }
	if err == nil && status != 204 {
		err = json.Unmarshal(answer, &refusal)
	}
	switch {
	case err != nil || refusal.Code == "BROKER_TIMEOUT": // it may still happen
		o.Output, o.Return = verdict{unknown: true}, int64(time.Hour)
	case refusal.Code == "ALREADY_EXISTS", refusal.Code == "NOT_FOUND":
		o.Output = verdict{before: !in.deletes}
	case refusal.Code == "BROKER_UNAVAILABLE": // it did not happen
		return
	case status != 204:
		t.Errorf("node %d: %s %s: %d %s", m.id, method, path, status, answer)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, o)
}

// judge has the history checked.
func (c *contest) judge(t testing.TB) {
	t.Helper()
	result, _ := porcupine.CheckOperationsVerbose(oneTruth, c.history, suite.HangLimit)
	if result != porcupine.Ok {
		t.Errorf("the history of %d contested operations is %v", len(c.history), result)
	}
	unknown := 0
	for _, o := range c.history {
		if o.Output.(verdict).unknown {
			unknown++
		}
	}
	t.Logf("%d contested creations and deletions, %d of unknown end: %v", len(c.history), unknown, result)
}
