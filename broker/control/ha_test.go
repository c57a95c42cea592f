package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// fakeNode is a node that records its calls, and fails on request.
type fakeNode struct {
	log  []string
	fail error
}

func (c *fakeNode) note(format string, args ...any) error {
	if c.fail == nil {
		c.log = append(c.log, fmt.Sprintf(format, args...))
	}
	return c.fail
}

// letter is the content of the fakeNode's invitations.
type letter struct {
	CACert string `json:"ca_cert"`
	Key    string `json:"key"`
}

func (c *fakeNode) CreateCluster(_ context.Context, s HASpec) (HACreated, error) {
	i, err := NewInvitation(2, letter{"CA <1>", "hush-hush"})
	return HACreated{Invitations: []Invitation{i}, Info: "few nodes"}, errors.Join(err, c.note("create %+v", s))
}
func (c *fakeNode) JoinCluster(_ context.Context, s HASpec) error {
	var l letter
	if s.Invitation != nil {
		if err := s.Invitation.Open(&l); err != nil {
			return err
		}
	}
	return c.note("join %s %s %+v %+v", s.ClusterName, s.SyncMode, s.Nodes, l)
}
func (c *fakeNode) AddNode(_ context.Context, name string, n HANode) (HAAdded, error) {
	i, err := NewInvitation(n.NodeID, letter{"CA", "hush-hush"})
	return HAAdded{&i}, errors.Join(err, c.note("add %s %+v", name, n))
}
func (c *fakeNode) RemoveNode(_ context.Context, name string, n HANode) error {
	return c.note("remove %s %+v", name, n)
}
func (c *fakeNode) LeaveCluster(_ context.Context, name string, n HANode) error {
	return c.note("leave %s %+v", name, n)
}
func (c *fakeNode) DeleteCluster(_ context.Context, name string) error {
	return c.note("delete %s", name)
}
func (c *fakeNode) SetLeader(_ context.Context, name string, id int) error {
	return c.note("lead %s %d", name, id)
}
func (c *fakeNode) DrainNode(_ context.Context, name string) error { return c.note("drain %s", name) }
func (c *fakeNode) UndrainNode(_ context.Context, name string) error {
	return c.note("undrain %s", name)
}
func (c *fakeNode) UndoJoin(_ context.Context, name string) error { return c.note("undo %s", name) }
func (c *fakeNode) GetCluster(context.Context) (HACluster, error) {
	return HACluster{ClusterName: "c", UUID: "u", Version: 1, SyncMode: "dynsec", Nodes: []HANode{{NodeID: 1, Address: "a", Port: 7000}}, Leader: 1}, c.fail
}
func (c *fakeNode) GetRaftStatus(context.Context) (broker.RaftStatus, error) {
	return broker.RaftStatus{Nodes: []broker.RaftNode{{ID: 1, Address: "a", Role: 1}}, State: 3, CommitIndex: 1 << 40, LastApplied: 2, LastStored: 3,
		CurrentTerm: 4, SyncMode: "dynsec"}, c.fail
}
func (c *fakeNode) IsLeader(context.Context) (bool, error) { return true, c.fail }

// asker sends a command to the fakeNode and decodes the response.
type asker func(t *testing.T, c *fakeNode, what HACommand, into any) error

// inBothWays runs a test with commands that are encoded and with commands that are not.
func inBothWays(t *testing.T, test func(t *testing.T, ask asker)) {
	t.Parallel()
	t.Run("encoded", func(t *testing.T) {
		t.Parallel()
		test(t, func(t *testing.T, c *fakeNode, what HACommand, into any) error {
			return ReadHA(what, HA(t.Context(), c, what.Encode("x")), "x", into)
		})
	})
	t.Run("direct", func(t *testing.T) {
		t.Parallel()
		test(t, func(t *testing.T, c *fakeNode, what HACommand, into any) error {
			return RunHA(t.Context(), c, what, into)
		})
	})
}

func TestHA_what_is_asked_is_what_is_done(t *testing.T) { inBothWays(t, whatIsAskedIsDone) }

func whatIsAskedIsDone(t *testing.T, ask asker) {
	nodes := []HANode{{NodeID: 1, Address: "a", Port: 7000}, {NodeID: 2, Address: "b", Port: 7001, Mine: true}}
	var created HACreated
	var added HAAdded
	c := &fakeNode{}
	for _, e := range []struct {
		ask  HACommand
		into any
		want string
	}{
		{CreateCluster(HASpec{ClusterName: "c", SyncMode: "hp", Nodes: nodes}), &created, "create {ClusterName:c SyncMode:hp Nodes:[{NodeID:1 Address:a Port:7000 Mine:false} {NodeID:2 Address:b Port:7001 Mine:true}] Invitation:<nil>}"},
		{AddNode("c", nodes[1]), &added, "add c {NodeID:2 Address:b Port:7001 Mine:false}"},
		{RemoveNode("c", nodes[0]), nil, "remove c {NodeID:1 Address:a Port:7000 Mine:false}"},
		{LeaveCluster("c", nodes[0]), nil, "leave c {NodeID:1 Address:a Port:7000 Mine:false}"},
		{DeleteCluster("c"), nil, "delete c"},
		{SetLeader("c", 2), nil, "lead c 2"},
		{DrainNode("c"), nil, "drain c"},
		{UndrainNode("c"), nil, "undrain c"},
	} {
		c.log = nil
		if err := ask(t, c, e.ask, e.into); err != nil {
			t.Fatalf("%s: %v", e.ask.Name(), err)
		}
		if got := strings.Join(c.log, ";"); got != e.want {
			t.Errorf("%s:\ngot  %s\nwant %s", e.ask.Name(), got, e.want)
		}
	}
	if created.Info != "few nodes" || len(created.Invitations) != 1 || added.Invitation.NodeID != 2 {
		t.Fatalf("got %+v, %+v", created, added)
	}
	c.log = nil
	if err := ask(t, c, JoinCluster(HASpec{ClusterName: "c", Nodes: nodes, Invitation: &created.Invitations[0]}), nil); err != nil {
		t.Fatal(err)
	}
	want := "join c  [{NodeID:1 Address:a Port:7000 Mine:false} {NodeID:2 Address:b Port:7001 Mine:true}] {CACert:CA <1> Key:hush-hush}"
	if got := strings.Join(c.log, ";"); got != want {
		t.Errorf("join:\ngot  %s\nwant %s", got, want)
	}
	if got := fmt.Sprintf("%v %+v %#v %s", created, added, created.Invitations[0], created.Invitations[0].LogValue()); strings.Contains(got, "hush") {
		t.Errorf("an invitation shows its key: %s", got)
	}
}

func TestHA_what_is_told_is_what_is_read(t *testing.T) { inBothWays(t, whatIsToldIsRead) }

func whatIsToldIsRead(t *testing.T, ask asker) {
	c := &fakeNode{}
	var cluster HACluster
	var status HAStatus
	var leads haLeader
	for command, into := range map[*HACommand]any{new(GetCluster()): &cluster, new(GetRaftStatus()): &status, {name: opIsLeader}: &leads} {
		if err := ask(t, c, *command, into); err != nil {
			t.Fatal(err)
		}
	}
	wantCluster, _ := c.GetCluster(t.Context())
	wantStatus, _ := c.GetRaftStatus(t.Context())
	if diff := cmp.Diff(wantCluster, cluster); diff != "" {
		t.Errorf("cluster (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(wantStatus, status.RaftStatus); diff != "" || !leads.IsLeader {
		t.Errorf("status, leader %v (-want +got):\n%s", leads.IsLeader, diff)
	}
}

func TestHA_refuses_bad_arguments(t *testing.T) {
	t.Parallel()
	const one, two = `{"nodeid":1,"address":"a","port":7000}`, `{"nodeid":2,"address":"a","port":7001,"mynode":true}`
	for args, want := range map[string]string{
		`"command":"createCluster"`:                                                                     "Invalid/missing clustername",
		`"command":"createCluster","clustername":"c"`:                                                   "Invalid/missing nodes",
		`"command":"createCluster","clustername":"c","nodes":[]`:                                        "Invalid/missing nodes",
		`"command":"createCluster","clustername":"c","nodes":[5]`:                                       "Invalid/missing nodes",
		`"command":"createCluster","clustername":"c","nodes":[{"nodeid":0,"address":"a","port":1}]`:     "Invalid/missing nodeid",
		`"command":"createCluster","clustername":"c","nodes":[{"nodeid":1,"port":1}]`:                   "Invalid/missing address",
		`"command":"createCluster","clustername":"c","nodes":[{"nodeid":1,"address":"a","port":65536}]`: "Invalid/missing port",
		`"command":"createCluster","clustername":"c","nodes":[` + one + `,` + one + `]`:                 "Invalid nodes: nodeid or address used twice",
		`"command":"createCluster","clustername":"c","syncmode":"x","nodes":[` + one + `]`:              "Invalid syncmode",
		`"command":"joinCluster","clustername":"c","nodes":[` + one + `]`:                               "Invalid/missing mynode",
		`"command":"joinCluster","clustername":"c","nodes":[` + two + `],"invitation":{"key":"k"}`:      "Invalid invitation",
		`"command":"addNode","clustername":"c"`:                                                         "Invalid/missing nodeid",
		`"command":"setLeader","clustername":"c","nodeid":"1"`:                                          "Invalid/missing nodeid",
		`"command":"deleteCluster"`:                                                                     "Invalid/missing clustername",
		`"command":"splitCluster"`:                                                                      "Unknown command",
	} {
		c := &fakeNode{}
		got := string(HA(t.Context(), c, []byte(`{"commands":[{`+args+`}]}`)))
		if !strings.Contains(got, `"error":"`+want+`"`) || len(c.log) > 0 {
			t.Errorf("%s: got %s (%v done), want %s", args, got, c.log, want)
		}
	}
	c := &fakeNode{}
	HA(t.Context(), c, []byte(`{"commands":[{"command":"CREATECLUSTER","ClusterName":"c","nodes":[`+one+`]}]}`))
	if want := "create {ClusterName:c SyncMode: Nodes:[{NodeID:1 Address:a Port:7000 Mine:true}] Invitation:<nil>}"; strings.Join(c.log, "") != want {
		t.Errorf("the first node is the receiver: got %v", c.log)
	}
}

// TestHA_refuses_bad_commands sends commands with arguments that are not valid. Both ways
// refuse them with the same error, and do nothing.
func TestHA_refuses_bad_commands(t *testing.T) { inBothWays(t, badCommandsAreRefused) }

func badCommandsAreRefused(t *testing.T, ask asker) {
	one, two := HANode{NodeID: 1, Address: "a", Port: 7000}, HANode{NodeID: 2, Address: "a", Port: 7001}
	spec := func(mode string, nodes ...HANode) HASpec {
		return HASpec{ClusterName: "c", SyncMode: mode, Nodes: nodes}
	}
	for _, e := range []struct {
		command HACommand
		want    refusal
	}{
		{CreateCluster(HASpec{Nodes: []HANode{one}}), errClusterName},
		{CreateCluster(spec("")), errNodes},
		{CreateCluster(spec("", make([]HANode, MaxNodes+1)...)), errNodes},
		{CreateCluster(spec("", HANode{Address: "a", Port: 1})), errNodeID},
		{CreateCluster(spec("", HANode{NodeID: 1 << 31, Address: "a", Port: 1})), errNodeID},
		{CreateCluster(spec("", HANode{NodeID: 1, Port: 1})), errAddress},
		{CreateCluster(spec("", HANode{NodeID: 1, Address: "a", Port: 1 << 16})), errPort},
		{CreateCluster(spec("", one, one)), errSameNode},
		{CreateCluster(spec("x", one)), errSyncMode},
		{JoinCluster(spec("", one, two)), errMyNode},
		{AddNode("", one), errClusterName},
		{AddNode("c", HANode{NodeID: 1, Address: "a"}), errPort},
		{RemoveNode("c", HANode{}), errNodeID},
		{SetLeader("c", 0), errNodeID},
		{SetLeader("", 1), errClusterName},
		{DeleteCluster(""), errClusterName},
		{HACommand{name: "splitCluster"}, errUnknownCommand},
	} {
		c := &fakeNode{}
		err := ask(t, c, e.command, nil)
		want := Refusal(e.want).ClassifyHA(e.command.name)
		if fmt.Sprint(err) != fmt.Sprint(want) || broker.KindOf(err) != broker.KindOf(want) || len(c.log) > 0 {
			t.Errorf("%s: got %v (%v done), want %v", e.command.name, err, c.log, want)
		}
	}
	c, nodes := &fakeNode{}, []HANode{one, two}
	if err := ask(t, c, CreateCluster(spec("", nodes...)), nil); err != nil || !strings.Contains(c.log[0], "Port:7000 Mine:true") || nodes[0].Mine {
		t.Errorf("the first node is the receiver: got %v, %v, and %+v", c.log, err, nodes)
	}
}

func TestHA_refusals_keep_their_kind(t *testing.T) { inBothWays(t, refusalsKeepTheirKind) }

func refusalsKeepTheirKind(t *testing.T, ask asker) {
	for _, e := range []struct {
		fail error
		kind broker.Kind
		is   error
	}{
		{fmt.Errorf("create: %w", ErrInCluster), broker.Conflict, ErrInCluster},
		{ErrNotLeader, broker.Conflict, ErrNotLeader},
		{ErrNoCluster, broker.Conflict, ErrNoCluster},
		{ErrMember, broker.Exists, ErrMember},
		{ErrNoLeader, broker.Unavailable, ErrNoLeader},
		{&broker.Error{Kind: broker.Unavailable, Msg: "quorum lost"}, broker.Unavailable, ErrNoLeader},
		{&broker.Error{Kind: broker.Unconfirmed, Msg: "leader lost"}, broker.Unconfirmed, ErrUnconfirmed},
		{&broker.Error{Kind: broker.NotFound, Msg: "nobody"}, broker.NotFound, ErrNoNode},
		{&broker.Error{Kind: broker.Unavailable, Msg: "said", Err: ErrNotLeader}, broker.Conflict, ErrNotLeader},
		{&broker.Error{Kind: broker.Conflict, Msg: "the mode hp is not offered"}, broker.Conflict, nil},
		{&broker.Error{Kind: broker.Unsupported, Msg: "no clusters"}, broker.Unsupported, nil},
		{errors.New("disk full"), broker.Internal, errInternal},
	} {
		err := ask(t, &fakeNode{fail: e.fail}, GetCluster(), &HACluster{})
		if broker.KindOf(err) != e.kind || e.is != nil && !errors.Is(err, e.is) || strings.Contains(fmt.Sprint(err), "disk") {
			t.Errorf("%v came over as %v of kind %d, want kind %d and %v", e.fail, err, broker.KindOf(err), e.kind, e.is)
		}
	}
	if e, ok := errors.AsType[*broker.Error](Refusal(ErrSyncMode).ClassifyHA("op")); !ok || e.Kind != broker.Unsupported || e.Feature != broker.CapCluster {
		t.Errorf("a syncmode that is not offered: %+v", e)
	}
	for text, want := range map[Refusal]broker.Kind{"This broker is already part of a cluster": broker.Conflict,
		"Invalid/missing nodes": broker.Invalid, "Node not found": broker.NotFound, "Too few nodes": broker.Conflict, "Unknown command": broker.Unsupported} {
		if got := broker.KindOf(text.ClassifyHA("op")); got != want {
			t.Errorf("%s: kind %d, want %d", text, got, want)
		}
	}
}

func TestReadHA_takes_what_other_brokers_write(t *testing.T) {
	t.Parallel()
	const nodes = `[{"address":"b","port":7e3,"nodeid":2},{"address":5}]`
	want := HACluster{ClusterName: "c", UUID: "U", SyncMode: "full", Nodes: []HANode{{NodeID: 2, Address: "b", Port: 7000}, {}}}
	for _, data := range []string{
		`{"clustername":"c","uuid":"U","syncmode":"full","version":"1","nodes":` + nodes + `}`,
		`{"cluster":{"clustername":"c","uuid":"U","syncmode":"full","nodes":` + nodes + `}}`,
		`{"ha":{"clustername":"c","uuid":"U","syncmode":"full","nodes":` + nodes + `}}`,
	} {
		var got HACluster
		if err := ReadHA(GetCluster(), responseWith(data), "x", &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", data, diff)
		}
	}
	var status HAStatus
	if err := ReadHA(GetRaftStatus(), responseWith(`{"state":3,"commit_index":1e2,"client":4,"errmsg":null}`), "x", &status); err != nil {
		t.Fatal(err)
	}
	if status.State != 3 || status.CommitIndex != 100 || status.Nodes == nil {
		t.Errorf("status: got %+v", status)
	}
	for _, into := range []any{&HACreated{}, &HAAdded{}} {
		if err := ReadHA(AddNode("c", HANode{}), []byte(`{"responses":[{"command":"c","correlationData":"x"}]}`), "x", into); err != nil {
			t.Errorf("an answer without data: %v", err)
		}
	}
	if err := ReadHA(GetCluster(), []byte(`{"responses":[{"command":"c","correlationData":"x"}]}`), "x", &HACluster{}); broker.KindOf(err) != broker.Internal || err == nil {
		t.Errorf("getCluster without data: %v", err)
	}
	var created HACreated
	if err := ReadHA(CreateCluster(HASpec{}), responseWith(`{"invitations":[5,{"nodeid":0},{"nodeid":3,"cert":"C"}]}`), "x", &created); err != nil || len(created.Invitations) != 1 {
		t.Errorf("invitations: %v, %v", created, err)
	}
}

func TestNewInvitation_is_of_an_object(t *testing.T) {
	t.Parallel()
	for _, document := range []any{5, "text", []int{1}, make(chan int)} {
		if _, err := NewInvitation(1, document); err == nil {
			t.Errorf("an invitation of %T was made", document)
		}
	}
	i, err := NewInvitation(3, letter{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	var again Invitation
	var l letter
	raw, err := json.Marshal(i)
	if err := errors.Join(err, json.Unmarshal(raw, &again), again.Open(&l)); err != nil || again.NodeID != 3 || l.Key != "k" {
		t.Errorf("got %v with %+v, %v", again, l, err)
	}
	if err := again.Open(&[]int{}); err == nil {
		t.Error("opened as something else")
	}
}

func FuzzHA(f *testing.F) {
	spec := HASpec{ClusterName: "c", SyncMode: "full", Nodes: []HANode{{NodeID: 1, Address: "a", Port: 7000, Mine: true}}}
	i, err := NewInvitation(1, letter{})
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range []HACommand{CreateCluster(spec), JoinCluster(HASpec{ClusterName: "c", Nodes: spec.Nodes, Invitation: &i}),
		AddNode("c", spec.Nodes[0]), DeleteCluster("c"), SetLeader("c", 1), GetCluster()} {
		f.Add(c.Encode("x"))
	}
	f.Add([]byte(`{"commands":[{"command":"joinCluster","clustername":"\ud800","nodes":[null],"invitation":null},{"command":"addNode","nodeid":1e9}]}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		got := HA(t.Context(), &fakeNode{}, payload)
		var m struct{ Responses []map[string]any }
		if err := json.Unmarshal(got, &m); err != nil || m.Responses == nil {
			t.Fatalf("%q is answered with %q", payload, got)
		}
	})
}

func FuzzReadHA(f *testing.F) {
	f.Add(responseWith(`{"clustername":"c","nodes":[{"nodeid":1}],"ha":{"uuid":5}}`))
	f.Add(responseWith(`{"state":3.5,"nodes":[{"id":"1"}],"invitations":[{"nodeid":1}],"invitation":{"nodeid":2},"isLeader":1}`))
	f.Add([]byte(`{"responses":[{"correlationData":"x","error":"This broker is already part of a cluster."}]}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		status := &HAStatus{}
		for _, into := range []any{nil, &HACreated{}, &HAAdded{}, &HACluster{}, status, &haLeader{}} {
			err := ReadHA(GetCluster(), payload, "x", into)
			if _, ok := errors.AsType[*broker.Error](err); err != nil && !ok {
				t.Errorf("%v has no kind", err)
			}
			if err == nil && into == status && status.Nodes == nil {
				t.Error("the list is nil")
			}
		}
	})
}
