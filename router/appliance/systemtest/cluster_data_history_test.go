package systemtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"signalbox/scripts/suite"
)

// dataOperation is an operation on a register: a value of the platform's data that all nodes of a cluster set
// and return. A token is a register that is set to tokenValid once, and then to "".
type dataOperation struct {
	register string
	sets     bool
	value    string
}

// dataResult is its result: the value before, if that was returned.
type dataResult struct {
	returned bool
	value    string
	unknown  bool // it may have happened, or may still happen
}

const tokenValid = "valid"

// dataModel is the model of the platform's data from outside: operations are linearizable, whichever node they
// go through.
var dataModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		by := map[string][]porcupine.Operation{}
		for _, o := range history {
			name := o.Input.(dataOperation).register
			by[name] = append(by[name], o)
		}
		for _, one := range by {
			parts = append(parts, one)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(dataOperation), output.(dataResult)
		if out.returned && out.value != state.(string) {
			return false, state
		}
		if in.sets {
			return true, in.value
		}
		return true, state
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// verdict is what a response to a change states.
type verdict int

const (
	unconfirmed verdict = iota // it may have happened, or may still happen
	acknowledged
	refusedChange // nothing was changed, because of what is stored
	unchanged     // nothing was changed
)

// dataRequest is a request that changes something.
type dataRequest struct {
	what    string // for a failure of the test
	verdict verdict
}

// dataHistory is what the clients of all nodes have asked for and were answered.
type dataHistory struct {
	began  time.Time
	random *rand.Rand

	mu         sync.Mutex // guards the fields below
	operations []porcupine.Operation
	requests   map[string]dataRequest // by X-Request-Id
	values     int                    // so far, each another one
	current    int                    // responses to reads
	stale      int                    // responses to reads that may be old, which are not in the history
}

// change sends a request that changes something, and returns what the response states. The id of the request is
// that of its row in the audit log.
func (h *dataHistory) change(t testing.TB, m *machine, method, path string, body any) (v verdict, id string, answer []byte) {
	t.Helper()
	h.mu.Lock()
	id = fmt.Sprint("change-", len(h.requests))
	h.requests[id] = dataRequest{}
	h.mu.Unlock()
	status, _, answer, err := m.api.request(t.Context(), id, method, path, body)
	v = verdictOf(status, answer, err)
	if err == nil && (status == http.StatusUnauthorized || status >= 500 && status != http.StatusServiceUnavailable) {
		t.Errorf("node %d: %s %s: %d %s", m.id, method, path, status, answer)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests[id] = dataRequest{fmt.Sprintf("%s %s at node %d: %d %v", method, path, m.id, status, err), v}
	return v, id, answer
}

// verdictOf returns what a response, or the error instead of one, states.
func verdictOf(status int, answer []byte, err error) verdict {
	var refusal struct{ Code string }
	failed, dialled := errors.AsType[*net.OpError](err)
	switch {
	case dialled && failed.Op == "dial":
		return unchanged // no process accepts connections there
	case err != nil:
		return unconfirmed
	case status < 300:
		return acknowledged
	case status < 500:
		return refusedChange
	case json.Unmarshal(answer, &refusal) == nil && refusal.Code == "BROKER_UNAVAILABLE":
		return unchanged
	}
	return unconfirmed
}

// read sends a request that reads, as the bearer of a credential. ok is false if there is no response, or one that
// may be old.
func (h *dataHistory) read(t testing.TB, m *machine, credential, path string) (status int, answer []byte, stale, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*answerTime)
	defer cancel()
	c := *m.api
	c.token = credential
	status, header, answer, err := c.request(ctx, "", "GET", path, nil)
	if err != nil {
		return 0, nil, false, false
	}
	if status != http.StatusOK && status != http.StatusUnauthorized && status != http.StatusServiceUnavailable {
		t.Errorf("node %d: GET %s: %d %s", m.id, path, status, answer)
	}
	stale = header.Get("Signalbox-Stale") != ""
	h.mu.Lock()
	defer h.mu.Unlock()
	if stale {
		h.stale++
	} else {
		h.current++
	}
	return status, answer, stale, status != http.StatusServiceUnavailable
}

// since returns the time of an event of the history.
func (h *dataHistory) since() int64 { return int64(time.Since(h.began)) }

// add adds an operation that began at a time and has ended now.
func (h *dataHistory) add(m *machine, call int64, in dataOperation, out dataResult) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := porcupine.Operation{ClientId: m.id, Input: in, Call: call, Output: out, Return: h.since()}
	if out.unknown {
		o.Return = math.MaxInt64
	}
	h.operations = append(h.operations, o)
}

// value returns a value that no register has had.
func (h *dataHistory) value() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.values++
	return fmt.Sprint("v", h.values)
}

// bounded returns the history with a bound for the time of each operation of unknown outcome that set a register to
// a value which no other operation sets: until the value was first returned. One whose value never was is left out,
// as no result depends on it. Otherwise the search would have to try each of them everywhere.
func bounded(history []porcupine.Operation) (all []porcupine.Operation) {
	type value struct{ register, value string }
	returned := map[value]int64{}
	for _, o := range history {
		if out := o.Output.(dataResult); out.returned {
			v := value{o.Input.(dataOperation).register, out.value}
			if first, ok := returned[v]; !ok || o.Return < first {
				returned[v] = o.Return
			}
		}
	}
	for _, o := range history {
		if in := o.Input.(dataOperation); o.Output.(dataResult).unknown && in.value != "" {
			first, ok := returned[value{in.register, in.value}]
			if !ok {
				continue
			}
			o.Return = max(first, o.Call)
		}
		all = append(all, o)
	}
	return all
}

// check checks the history.
func (h *dataHistory) check(t testing.TB) {
	t.Helper()
	unknown, reads := 0, 0
	for _, o := range h.operations {
		switch out := o.Output.(dataResult); {
		case out.unknown:
			unknown++
		case out.returned:
			reads++
		}
	}
	for _, part := range dataModel.Partition(bounded(h.operations)) {
		if result, _ := porcupine.CheckOperationsVerbose(dataModel, part, suite.HangLimit); result != porcupine.Ok {
			name := part[0].Input.(dataOperation).register
			t.Errorf("the history of %d operations on the %s is %v%s", len(part), name, result, explain(part))
		}
	}
	if reads == 0 || h.current == 0 {
		t.Error("no register was read")
	}
	t.Logf("%d operations on the data of the platform, %d of which returned a value, and %d of unknown outcome; %d responses to reads were current, %d may have been old",
		len(h.operations), reads, unknown, h.current, h.stale)
}

// explain returns the operations before the first result that contradicts a history which is not linearizable.
func explain(part []porcupine.Operation) (text string) {
	slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	first := sort.Search(len(part), func(n int) bool { return !porcupine.CheckOperations(dataModel, until(part, part[n].Return)) })
	for _, o := range part[max(0, first-10):min(len(part), first+1)] {
		text += fmt.Sprintf("\n%v to %v, node %d: %s", time.Duration(o.Call), time.Duration(o.Return), o.ClientId, dataModel.DescribeOperation(o.Input, o.Output))
	}
	return text
}

// until returns what was known of a history at a time.
func until(history []porcupine.Operation, end int64) (known []porcupine.Operation) {
	for _, o := range history {
		switch {
		case o.Return <= end:
			known = append(known, o)
		case o.Call <= end && o.Input.(dataOperation).sets:
			o.Output, o.Return = dataResult{unknown: true}, math.MaxInt64
			known = append(known, o)
		}
	}
	return known
}
