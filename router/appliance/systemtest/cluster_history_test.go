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

// operation is the creation or the deletion of a client that other workers create and
// delete as well.
type operation struct {
	username string
	deletes  bool
}

// operationResult is its result: whether the client existed before, which may be
// unknown.
type operationResult struct {
	existed bool
	unknown bool
}

// sharedClients is the number of such clients.
const sharedClients = 4

func sharedClientName(i int) string { return fmt.Sprint("shared-", i) }

// clientModel is the model of a cluster from outside: operations are linearizable,
// whichever node they go through.
var clientModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		by := map[string][]porcupine.Operation{}
		for _, o := range history {
			name := o.Input.(operation).username
			by[name] = append(by[name], o)
		}
		for _, one := range by {
			parts = append(parts, one)
		}
		return parts
	},
	Init: func() any { return false },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(operation), output.(operationResult)
		return out.unknown || out.existed == state.(bool), !in.deletes
	},
}

// history is the history of such operations, over all nodes.
type history struct {
	began  time.Time
	random *rand.Rand

	mu         sync.Mutex // guards history
	operations []porcupine.Operation
}

// operate creates or deletes one of a few clients through a machine.
func (c *history) operate(t testing.TB, m *machine) {
	t.Helper()
	in := operation{username: sharedClientName(c.random.IntN(sharedClients)), deletes: c.random.IntN(2) == 0}
	method, path, body := "POST", m.api.at("/clients"), any(object{"username": in.username})
	if in.deletes {
		method, path, body = "DELETE", m.api.at("/clients?username="+in.username), nil
	}
	call := time.Since(c.began)
	status, answer, err := m.api.do(t.Context(), method, path, body)
	o := porcupine.Operation{ClientId: m.id, Input: in, Call: int64(call), Return: int64(time.Since(c.began)), Output: operationResult{existed: in.deletes}}
	var refusal struct{ Code string }
	if err == nil && status != 204 {
		err = json.Unmarshal(answer, &refusal)
	}
	switch {
	case err != nil || refusal.Code == "BROKER_TIMEOUT": // it may still happen
		o.Output, o.Return = operationResult{unknown: true}, int64(time.Hour)
	case refusal.Code == "ALREADY_EXISTS", refusal.Code == "NOT_FOUND":
		o.Output = operationResult{existed: !in.deletes}
	case refusal.Code == "BROKER_UNAVAILABLE": // it did not happen
		return
	case status != 204:
		t.Errorf("node %d: %s %s: %d %s", m.id, method, path, status, answer)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.operations = append(c.operations, o)
}

// check checks the history.
func (c *history) check(t testing.TB) {
	t.Helper()
	result, _ := porcupine.CheckOperationsVerbose(clientModel, c.operations, suite.HangLimit)
	if result != porcupine.Ok {
		t.Errorf("the history of %d concurrent operations is %v", len(c.operations), result)
	}
	unknown := 0
	for _, o := range c.operations {
		if o.Output.(operationResult).unknown {
			unknown++
		}
	}
	t.Logf("%d concurrent creations and deletions, %d of unknown outcome: %v", len(c.operations), unknown, result)
}
