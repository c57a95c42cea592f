package site

import (
	"errors"
	"testing"

	"signalbox/broker"
)

// TestManagerKeepsRights checks that a plan is refused that would take the control topics from
// the account with which the service manages the broker, at the end or between two steps.
func TestManagerKeepsRights(t *testing.T) {
	t.Parallel()
	allow := broker.Role{ACLs: []broker.ACL{{ACLType: "publishClientSend", Topic: "$CONTROL/#", Allow: true}, {ACLType: "publishClientReceive", Topic: "$CONTROL/#", Allow: true}, {ACLType: "subscribePattern", Topic: "$CONTROL/#", Allow: true}}}
	deny := broker.Role{ACLs: []broker.ACL{{ACLType: "subscribeLiteral", Topic: "x"}}}
	state := func(a, b broker.Role, own, group []broker.RoleRef) *access {
		a.RoleName, a.AllowWildcardSubs, b.RoleName, b.AllowWildcardSubs = "a", true, "b", true
		return &access{defaults: map[string]bool{}, anonymous: "g", roles: map[string]broker.Role{"a": a, "b": b},
			groups:  map[string]broker.Group{"g": {GroupName: "g", Roles: group}},
			clients: map[string]broker.Client{"m": {Username: "m", Roles: own, Groups: []broker.GroupRef{{GroupName: "g", Priority: broker.NoPriority}}}}}
	}
	refs := func(names ...string) (list []broker.RoleRef) {
		for _, name := range names {
			list = append(list, broker.RoleRef{RoleName: name, Priority: broker.NoPriority})
		}
		return list
	}
	for name, c := range map[string]struct {
		have, want *access
		username   string
		refused    bool
	}{
		"nothing changes":             {state(allow, deny, refs("a"), nil), state(allow, deny, refs("a"), nil), "m", false},
		"it loses its role":           {state(allow, deny, refs("a"), nil), state(allow, deny, nil, nil), "m", true},
		"another role allows it":      {state(allow, broker.Role{}, refs("a", "b"), nil), state(broker.Role{}, allow, refs("a", "b"), nil), "m", true},
		"its group is locked":         {state(allow, deny, nil, refs("a", "b")), state(allow, deny, refs("b"), refs("a")), "m", true},
		"it has a role of its own":    {state(allow, deny, refs("a"), refs("b")), state(allow, deny, refs("a", "b"), nil), "m", false},
		"anonymous, a role is lost":   {state(allow, deny, nil, refs("a")), state(allow, deny, nil, nil), "", true},
		"anonymous, nothing is lost":  {state(allow, deny, nil, refs("a")), state(allow, deny, refs("b"), refs("a")), "", false},
		"it could not manage it ever": {state(deny, deny, refs("a"), nil), state(deny, deny, nil, nil), "m", false},
	} {
		plan := &accessPlan{have: c.have, want: c.want}
		plan.plan()
		if err := plan.checkManager(c.username); errors.Is(err, ErrLockOut) != c.refused {
			t.Errorf("%s: got %v, want refused: %t", name, err, c.refused)
		}
	}
}

// TestDisabledClientIsFinished interrupts the creation of a disabled client after each of its
// calls. The second run must not leave it bound to the client id that kept it from connecting.
func TestDisabledClientIsFinished(t *testing.T) {
	t.Parallel()
	disabled := true
	d := &Broker{Clients: []Client{{Username: "u", Disabled: &disabled}}}
	for calls := 1; calls <= 3; calls++ {
		m := &model{t: t, access: access{clients: map[string]broker.Client{}}, left: calls}
		for range 2 {
			have := m.clone()
			for _, s := range (&accessPlan{api: m, have: have, want: have.wanted(d, everyObject)}).plan() {
				if err := s.do(t.Context()); err != nil && !errors.Is(err, errInterrupted) {
					t.Fatal(err)
				}
			}
			m.left = -1
		}
		if got := m.clients["u"]; !got.Disabled || got.ClientID != "" {
			t.Errorf("interrupted after %d calls: %+v", calls, got)
		}
	}
}
