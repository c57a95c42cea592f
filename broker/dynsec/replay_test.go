package dynsec

import (
	"math/rand/v2"
	"slices"
	"testing"

	"signalbox/broker"
)

// TestReplay repeats the changes of random commands on a second state, which must stay
// equal to the first, and compares the disconnects of both.
func TestReplay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		d := dice{rand.New(rand.NewPCG(seed, 2))}
		s, twin := freshBroker(t), freshBroker(t)
		for range 150 {
			payload := request(t, d.command(), d.command())
			_, next, changes, disconnects := run(s, payload, nil)
			followed, err := twin.Replay(changes)
			if err != nil {
				t.Fatalf("%s: %v", payload, err)
			}
			sameState(t, string(payload), next, followed)
			checkReplaced(t, string(payload), s, next, disconnects)
			s, twin = next, followed
		}
	}
}

// checkReplaced checks that a replacement disconnects the clients whose rights differ,
// and only clients that the commands disconnected.
func checkReplaced(t *testing.T, what string, s, next *State, disconnects []Disconnect) {
	t.Helper()
	replaced := s.Replaced(next, func(string) bool { return false })
	for _, c := range replaced {
		if !slices.Contains(disconnects, c) {
			t.Fatalf("%s: a replacement throws %+v out, the commands only %v", what, c, disconnects)
		}
	}
	checkDisconnects(t, what+": replaced", s, next, nil, replaced)
}

func TestReplayKeepsNothingOfWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	s := freshBroker(t)
	before := dumpOf(s)
	role, group := []broker.RoleRef{{RoleName: "none"}}, []broker.GroupRef{{GroupName: "none"}}
	for _, c := range []Change{
		PutClient{ClientRecord: ClientRecord{Username: "u", Roles: role}},
		PutClient{ClientRecord: ClientRecord{Username: "u", Groups: group}},
		PutGroup{GroupRecord{GroupName: "g", Roles: role}}, PutAnonymousGroup{GroupName: "none"},
		DropClient{Username: "none"}, DropGroup{GroupName: "none"}, DropRole{RoleName: "none"}, nil,
	} {
		if _, err := s.Replay([]Change{PutRole{RoleRecord{RoleName: "new"}}, c}); err == nil {
			t.Errorf("%#v was taken", c)
		}
	}
	sameDump(t, "after what does not fit", before, dumpOf(s))
	anonymous, err := s.Replay([]Change{PutGroup{GroupRecord{GroupName: "g"}}, PutAnonymousGroup{GroupName: "g"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := anonymous.Replay([]Change{DropGroup{GroupName: "g"}}); err == nil {
		t.Error("the anonymous group was dropped")
	}
}

func TestReplacedPassword(t *testing.T) {
	t.Parallel()
	s := fleet(t, 3)
	got := s.Replaced(s, func(username string) bool { return username == "c000001" })
	if want := []Disconnect{{Username: "c000001"}}; !slices.Equal(got, want) {
		t.Errorf("disconnects %v, want %v", got, want)
	}
}
