package broker

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// away returns the error of an unreachable node.
func away(kind Kind) error { return &Error{Kind: kind, Op: "dial", Msg: "cannot be reached"} }

func TestAskNodes(t *testing.T) {
	t.Parallel()
	nodes := []int{1, 2, 5}
	got, err := AskNodes("op", nodes, func(id int) (int, error) { return 10 * id, nil })
	if err != nil || !slices.Equal(got, []int{10, 20, 50}) {
		t.Errorf("got %v, %v", got, err)
	}
	for name, tt := range map[string]struct {
		fail map[int]error
		kind Kind
		msg  string
	}{
		"one is away":     {map[int]error{5: away(Unavailable)}, Unavailable, "node 5: cannot be reached; the other nodes can be asked one by one, by nodeid"},
		"two are away":    {map[int]error{2: away(Unconfirmed), 5: away(Unavailable)}, Unconfirmed, "node 2: cannot be reached; node 5: cannot be reached; the other nodes can be asked one by one, by nodeid"},
		"all are away":    {map[int]error{1: away(Denied), 2: away(Denied), 5: away(Denied)}, Denied, "node 1: cannot be reached; node 2: cannot be reached; node 5: cannot be reached"},
		"one has a fault": {map[int]error{1: errors.New("secret cause")}, Internal, "node 1: it could not be asked; the other nodes can be asked one by one, by nodeid"},
	} {
		got, err := AskNodes("op", nodes, func(id int) (int, error) { return id, tt.fail[id] })
		e, ok := errors.AsType[*Error](err)
		if !ok || got != nil || e.Kind != tt.kind || e.Op != "op" || e.Msg != tt.msg {
			t.Errorf("%s: got %v, %#v", name, got, err)
		}
		for _, cause := range tt.fail {
			if !errors.Is(err, cause) {
				t.Errorf("%s: the error does not wrap %v", name, cause)
			}
		}
	}
}

func TestSetNodes(t *testing.T) {
	t.Parallel()
	nodes := []int{1, 2, 5}
	for name, tt := range map[string]struct {
		ready, set map[int]error
		kind       Kind
		msg        string
		tried      int32
	}{
		"all take it":         {nil, nil, 0, "", 3},
		"one is away":         {map[int]error{2: away(Unavailable)}, nil, Unavailable, "node 2: cannot be reached; nothing was changed", 0},
		"one goes away":       {nil, map[int]error{2: away(Unavailable)}, Unconfirmed, "node 2: cannot be reached; it was changed at node 1, node 5 only: repeat it", 3},
		"all go away":         {nil, map[int]error{1: away(Unavailable), 2: away(Unavailable), 5: away(Unavailable)}, Unavailable, "node 1: cannot be reached; ", 3},
		"one may not have it": {nil, map[int]error{1: away(Unconfirmed)}, Unconfirmed, "node 1: cannot be reached; it was changed at node 2, node 5 only", 3},
	} {
		var tried atomic.Int32
		err := SetNodes("op", nodes, func(id int) error { return tt.ready[id] }, func(id int) error {
			tried.Add(1)
			return tt.set[id]
		})
		if tried.Load() != tt.tried {
			t.Errorf("%s: %d were changed, want %d", name, tried.Load(), tt.tried)
		}
		if tt.msg == "" && err == nil {
			continue
		}
		if e, ok := errors.AsType[*Error](err); !ok || tt.msg == "" || e.Kind != tt.kind || !strings.HasPrefix(e.Msg, tt.msg) {
			t.Errorf("%s: got %#v", name, err)
		}
	}
}

func TestOneNode(t *testing.T) {
	t.Parallel()
	ask := func(id int) (int, error) {
		if id == 5 {
			return 0, away(Unavailable)
		}
		return 10 * id, nil
	}
	if got, err := OneNode("op", []int{1, 5}, 1, ask); got != 10 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	for msg, tt := range map[string]struct {
		nodes []int
		id    int
		kind  Kind
	}{
		"the broker is no node of an HP cluster; leave nodeid out": {nil, 1, NotFound},
		"the cluster has no node 2":                                {[]int{1, 5}, 2, NotFound},
		"node 5: cannot be reached":                                {[]int{1, 5}, 5, Unavailable},
	} {
		_, err := OneNode("op", tt.nodes, tt.id, ask)
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != tt.kind || e.Msg != msg {
			t.Errorf("got %#v, want %s", err, msg)
		}
	}
}
