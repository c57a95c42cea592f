package remote

import (
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
)

func TestCheckAccess(t *testing.T) {
	t.Parallel()
	b := connected(t, brokertest.Mosquitto(t).Target())
	ctx := t.Context()
	must(t, b.CreateRole(ctx, broker.RoleSpec{RoleName: "sensor", ACLs: []broker.ACL{
		{ACLType: broker.PublishClientSend, Topic: "plant/#", Allow: true},
		{ACLType: broker.PublishClientSend, Topic: "plant/no", Priority: 4},
	}}))
	must(t, b.CreateGroup(ctx, broker.GroupSpec{GroupName: "pumps", Roles: []broker.RoleRef{{RoleName: "sensor", Priority: 2}}}))
	must(t, b.CreateClient(ctx, broker.ClientSpec{Username: "pump", Groups: []broker.GroupRef{{GroupName: "pumps", Priority: broker.NoPriority}}}))
	must(t, b.CreateClient(ctx, broker.ClientSpec{Username: "off"}))
	must(t, b.DisableClient(ctx, "off"))

	for _, c := range []struct {
		username, topic string
		action          broker.Action
		allowed         bool
		source          broker.DecidedBy
		acl, role       string
	}{
		{"pump", "plant/1", broker.ActionPublish, true, broker.DecidedByACL, "plant/#", "sensor"},
		{"pump", "plant/no", broker.ActionPublish, false, broker.DecidedByACL, "plant/no", "sensor"},
		{"pump", "else", broker.ActionPublish, false, broker.DecidedByDefault, "", ""},
		{"pump", "else", broker.ActionReceive, true, broker.DecidedByDefault, "", ""},
		{"off", "else", broker.ActionReceive, false, broker.DecidedByDisabled, "", ""},
		{"nobody", "else", broker.ActionReceive, false, broker.DecidedByUnknown, "", ""},
		{"", "plant/1", broker.ActionPublish, false, broker.DecidedByDefault, "", ""},
		{"", "plant/1", broker.ActionUnsubscribe, true, broker.DecidedByDefault, "", ""},
	} {
		v, err := b.CheckAccess(ctx, broker.AccessCheck{Username: c.username, Action: c.action, Topic: c.topic})
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		acl := ""
		if v.ACL != nil {
			acl = v.ACL.Topic
		}
		if v.Allowed != c.allowed || v.Source != c.source || acl != c.acl || v.RoleName != c.role {
			t.Errorf("%q, %s %q: got %+v", c.username, c.action, c.topic, v)
		}
	}
	v, err := b.CheckAccess(ctx, broker.AccessCheck{Username: "pump", Action: broker.ActionPublish, Topic: "plant/1"})
	if err != nil || v.Via != broker.ViaGroup || v.GroupName != "pumps" || v.GroupPriority != nil || v.RolePriority == nil || *v.RolePriority != 2 {
		t.Errorf("how the client has the role: %+v, %v", v, err)
	}
}

// TestCheckAccess_is_what_Mosquitto_does asks about a connection's own client
// and then tries, where trying shows it: a subscription.
func TestCheckAccess_is_what_Mosquitto_does(t *testing.T) {
	t.Parallel()
	admin, b := restricted(t,
		broker.ACL{ACLType: broker.SubscribePattern, Topic: "a/#"},
		broker.ACL{ACLType: broker.SubscribePattern, Topic: "a/+/b", Priority: 3, Allow: true},
		broker.ACL{ACLType: broker.SubscribeLiteral, Topic: "c/+"},
		broker.ACL{ACLType: broker.SubscribeLiteral, Topic: "a/+/+", Allow: true})
	verdicts := map[bool]int{}
	for _, filter := range []string{"a", "a/b", "a/x/b", "a/+/b", "a/+/+", "a/x/+", "a/#", "c/x", "c/+", "c/#", "#", "+", "+/b"} {
		v, err := admin.CheckAccess(t.Context(), broker.AccessCheck{Username: "u", Action: broker.ActionSubscribe, Topic: filter})
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.ListRetained(t.Context(), filter, 0, -1)
		if granted := err == nil; granted != v.Allowed {
			t.Errorf("%q: Mosquitto grants it: %v (%v); we say %+v", filter, granted, err, v)
		}
		verdicts[v.Allowed]++
	}
	if verdicts[true] < 4 || verdicts[false] < 4 {
		t.Errorf("the questions are lopsided: %v", verdicts)
	}
}
