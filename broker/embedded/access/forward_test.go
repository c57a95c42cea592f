package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// followerReplicator is the Replicator of a broker that does not decide changes.
type followerReplicator struct {
	leader      *Control
	disconnects []dynsec.Disconnect // that Serve returned to its caller
}

func (*followerReplicator) Leads() bool { return false }

func (*followerReplicator) Replicate(context.Context, []byte) error {
	return &broker.Error{Kind: broker.Unavailable, Msg: "not the leader"}
}

func (f *followerReplicator) Forward(ctx context.Context, request []byte) ([]byte, error) {
	answer, disconnects := f.leader.Serve(ctx, request)
	f.disconnects = append(f.disconnects, disconnects...)
	return answer, nil
}

// leaderAndFollower returns a broker that decides and one that forwards to it.
func leaderAndFollower(t testing.TB) (l *changeLog, leader, node *Control, f *followerReplicator) {
	t.Helper()
	l, nodes := sharedNodes(t, 2)
	f = &followerReplicator{leader: nodes[0]}
	nodes[1].SetReplicator(f)
	return l, nodes[0], nodes[1], f
}

// TestForwardedHistories sends random requests to a follower, and expects the responses of
// a broker without others.
func TestForwardedHistories(t *testing.T) {
	t.Parallel()
	_, leader, node, _ := leaderAndFollower(t)
	d, alone := generator{rand.New(rand.NewPCG(1, 8))}, fresh(t)
	requests := [][]byte{
		[]byte(`{"commands":[{"command":"createClient","username":"odd","clientid":5}]}`), // of a wrong type
		[]byte(`{"commands":[{"command":"createRole","rolename":"r"},17,{"command":"createRole","rolename":"s"}]}`),
		[]byte(`{"commands":[{"command":"createGroup","groupname":"g","correlationData":"7"},{"command":"listGroups"}]}`),
	}
	for range 60 {
		requests = append(requests, d.request(t))
	}
	for _, request := range requests {
		got, disconnects := node.Handle(t.Context(), request)
		want, _ := alone.Handle(t.Context(), request)
		if string(got) != string(want) || len(disconnects) > 0 {
			t.Fatalf("%s:\n got %s and %v\nwant %s", request, got, disconnects, want)
		}
		wantSame(t, string(request), leader, node)
	}
}

// TestForwardedAPI expects the same effects and errors of the Go API on a follower as on a
// broker without others.
func TestForwardedAPI(t *testing.T) {
	t.Parallel()
	_, leader, node, f := leaderAndFollower(t)
	alone, text := fresh(t), "text"
	ctx := t.Context()
	for i, op := range []func(c *Control) error{
		func(c *Control) error { return c.CreateRole(ctx, role("r", "a/#")) },
		func(c *Control) error { return c.CreateRole(ctx, role("r")) },
		func(c *Control) error { return c.CreateGroup(ctx, broker.GroupSpec{GroupName: "g", TextName: &text}) },
		func(c *Control) error { return c.CreateClient(ctx, client("u", "r")) },
		func(c *Control) error { return c.CreateClient(ctx, client("v", "none")) },
		func(c *Control) error { return c.CreateClient(ctx, client("")) },
		func(c *Control) error {
			return c.ModifyGroup(ctx, broker.GroupSpec{GroupName: "g", Clients: []broker.MemberRef{{Username: "u", Priority: 4}}})
		},
		func(c *Control) error { return c.ModifyRole(ctx, broker.RoleSpec{RoleName: "r", TextName: &text}) },
		func(c *Control) error { return c.ModifyClient(ctx, broker.ClientSpec{Username: "u", ClientID: &text}) },
		func(c *Control) error { return c.DisableClient(ctx, "u") },
		func(c *Control) error { return c.EnableClient(ctx, "none") },
		func(c *Control) error {
			return c.SetDefaultACLAccess(ctx, []broker.DefaultACL{{ACLType: "subscribe", Allow: true}})
		},
		func(c *Control) error { return second(c.ImportAccess(ctx, strings.NewReader(`{`), false)) },
		func(c *Control) error {
			return second(c.ImportAccess(ctx, strings.NewReader(`{"roles":[{"rolename":"r"}]}`), false))
		},
		func(c *Control) error {
			return second(c.ImportAccess(ctx, strings.NewReader(`{"roles":[{"rolename":"imported"}]}`), false))
		},
		func(c *Control) error { return c.DeleteClient(ctx, "u") },
		func(c *Control) error { return c.DeleteGroup(ctx, "g") },
		func(c *Control) error { return c.DeleteRole(ctx, "r") },
	} {
		want, got := asError(op(alone)), asError(op(node))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("operation %d, by itself (-) and forwarded (+):\n%s", i, diff)
		}
		wantSame(t, fmt.Sprint("operation ", i), leader, node)
	}
	if export(t, alone) != export(t, node) {
		t.Errorf("by itself (-) and forwarded (+):\n%s", cmp.Diff(export(t, alone), export(t, node)))
	}
	if !slices.Contains(f.disconnects, dynsec.Disconnect{Username: "u"}) {
		t.Errorf("disconnects %v at the caller of Serve, want u among them", f.disconnects)
	}
}

// asError returns what a user sees of an error.
func asError(err error) broker.Error {
	e, ok := errors.AsType[*broker.Error](err)
	if !ok {
		return broker.Error{}
	}
	return broker.Error{Kind: e.Kind, Op: e.Op, Msg: e.Msg}
}

func TestForwardedImportReports(t *testing.T) {
	t.Parallel()
	_, _, node, _ := leaderAndFollower(t)
	report, err := node.ImportAccess(t.Context(), strings.NewReader(`{"clients":[{"username":"u"}],"odd":1}`), true)
	must(t, err)
	if report.Clients != 1 || len(report.Warnings) == 0 {
		t.Errorf("got %+v", report)
	}
}

// TestForwardWaitsForTheChange delays a change on the follower. Its caller must not receive
// the response before the change is in force there.
func TestForwardWaitsForTheChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, leader, node, _ := leaderAndFollower(t)
		l.nodes = []*Control{leader}
		var wg sync.WaitGroup
		answered := make(chan error, 1)
		wg.Go(func() { answered <- node.CreateRole(t.Context(), role("r")) })
		synctest.Wait()
		select {
		case err := <-answered:
			t.Errorf("answered %v before it was in force", err)
		default:
		}
		l.catchUp(t, node)
		must(t, <-answered)
		wg.Wait()
		wantKind(t, node.CreateRole(t.Context(), role("late")), broker.Unconfirmed)
	})
}

// TestForwardFails expects the kind of error to show whether the change may have happened.
func TestForwardFails(t *testing.T) {
	t.Parallel()
	_, leader, node, _ := leaderAndFollower(t)
	for _, tc := range []struct {
		name  string
		reply func(ctx context.Context, request []byte) ([]byte, error)
		want  broker.Kind
	}{
		{"no broker decides", func(context.Context, []byte) ([]byte, error) {
			return nil, &broker.Error{Kind: broker.Unavailable, Msg: "no leader"}
		}, broker.Unavailable},
		{"the connection breaks", func(context.Context, []byte) ([]byte, error) { return nil, errors.New("broken") }, broker.Unconfirmed},
		{"a reply of a newer release", func(context.Context, []byte) ([]byte, error) { return []byte{format + 1}, nil }, broker.Unconfirmed},
		{"a request of a newer release", func(ctx context.Context, request []byte) ([]byte, error) {
			request[0]++
			answer, _ := leader.Serve(ctx, request)
			return answer, nil
		}, broker.Internal},
		{"the other one does not decide either", func(ctx context.Context, request []byte) ([]byte, error) {
			leader.SetReplicator(&followerReplicator{})
			answer, _ := leader.Serve(ctx, request)
			return answer, nil
		}, broker.Unavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			node.SetReplicator(&forwardFunc{forward: tc.reply})
			wantKind(t, node.CreateRole(t.Context(), role("r")), tc.want)
			answer := command(t, node, `{"command":"createRole","rolename":"r"}`)
			outcome := map[broker.Kind]string{broker.Unavailable: "Nothing was changed, try again", broker.Unconfirmed: "look before you try again"}
			if !strings.Contains(answer, outcome[tc.want]) || answer == "" {
				t.Errorf("answer %q to a request over MQTT, want %q in it", answer, outcome[tc.want])
			}
			if got := command(t, node, `{"command":"listRoles"}`); got != `{"responses":[{"command":"listRoles","data":{"totalCount":0,"roles":[]}}]}` {
				t.Errorf("reading is answered %s", got)
			}
		})
	}
}

type forwardFunc struct {
	followerReplicator
	forward func(ctx context.Context, request []byte) ([]byte, error)
}

func (f *forwardFunc) Forward(ctx context.Context, request []byte) ([]byte, error) {
	return f.forward(ctx, request)
}

// FuzzForward reads arbitrary input of another broker, as a request and as a reply.
func FuzzForward(f *testing.F) {
	c := fresh(f)
	f.Add(appendString([]byte{format, requestCommands}, `{"commands":[{"command":"createRole","rolename":"r"}]}`))
	f.Add(appendString([]byte{format, requestReplace}, `{"roles":[]}`))
	f.Add(c.encodeReply([]byte("payload"), nil))
	f.Add(c.encodeReply(nil, &broker.Error{Kind: broker.Exists, Op: "o", Msg: "m"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		answer, _ := c.Serve(t.Context(), b)
		if _, _, _, err := decodeReply(answer); err != nil {
			t.Errorf("the answer to %q cannot be read: %v", b, err)
		}
		_, payload, failure, err := decodeReply(b)
		if err == nil && failure == nil && !bytes.Contains(b, payload) {
			t.Errorf("%q is not in %q", payload, b)
		}
	})
}
