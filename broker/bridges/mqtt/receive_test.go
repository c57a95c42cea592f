package mqtt_test

import (
	"testing"

	"signalbox/broker"
)

// TestTwoTopics has a message arrive at two topics of a broker over two paths: there it is two
// messages.
func TestTwoTopics(t *testing.T) {
	t.Parallel()
	a, b, x := signalbox(t, "A"), signalbox(t, "B"), signalbox(t, "X")
	x.bridge(t, all(b, "out"))
	a.bridge(t, all(x, "out"), link{to: b, mappings: []map[string]any{{"mqttTopics": []string{"#"}, "remotePrefix": "from-a/"}}})
	c := join(t, b, "#")
	join(t, a).send("t", "x", 2, false)
	c.want("at B", "from-a/t=x/2", "t=x/2")
}

// TestRefusedSubscription checks that a message that another broker sends is accepted if this
// broker may not subscribe to it there.
func TestRefusedSubscription(t *testing.T) {
	t.Parallel()
	a, b := signalbox(t, "A"), signalbox(t, "B")
	password := broker.Secret("sender-password")
	acls := []broker.ACL{{ACLType: broker.PublishClientSend, Topic: "#", Allow: true}, {ACLType: broker.PublishClientSend, Topic: "$SYS/#", Allow: true},
		{ACLType: broker.PublishClientReceive, Topic: "#", Allow: true}, {ACLType: broker.SubscribePattern, Topic: "t/b", Allow: true}}
	if err := a.embedded.CreateRole(t.Context(), broker.RoleSpec{RoleName: "sender", ACLs: acls}); err != nil {
		t.Fatal(err)
	}
	if err := a.embedded.CreateClient(t.Context(), broker.ClientSpec{Username: "sender", Password: &password,
		Roles: []broker.RoleRef{{RoleName: "sender", Priority: broker.NoPriority}}}); err != nil {
		t.Fatal(err)
	}
	l := link{to: a, mappings: []map[string]any{{"mqttTopics": []string{"t/#", "t/b"}, "direction": "both"}},
		connection: map[string]any{"credentials": map[string]any{"username": "sender", "password": string(password)}}}
	b.bridge(t, l)
	c := join(t, b, "#")
	p := join(t, a)
	p.send("t/b", "taken", 1, false)
	c.want("by the filter that is granted", "t/b=taken/1")
	a.bridge(t, all(b, "out"))
	p.send("t/a", "sent", 1, false)
	p.send("t/b", "both", 1, false)
	c.want("on either way", "t/a=sent/1", "t/b=both/1", "t/b=taken/1")
}

// TestCleanPull checks that a message that another broker sends is accepted while the connection
// that would receive it is down and its session keeps nothing.
func TestCleanPull(t *testing.T) {
	t.Parallel()
	a, b := signalbox(t, "A"), signalbox(t, "B")
	l, proxy := cuttableLink(t, a, "in")
	l.connection = map[string]any{"cleanStart": true}
	b.bridge(t, l)
	a.bridge(t, all(b, "out"))
	c, p := join(t, b, "#"), join(t, a)
	p.send("t", "before", 1, false)
	c.want("both stand", "t=before/1")
	disconnectLink(t, b, proxy)
	p.send("t", "down", 1, false)
	p.send("t", "loose", 0, false)
	c.want("one is down", "t=before/1", "t=down/1", "t=loose/0")
	proxy.Pass()
	b.connected(t)
	p.send("t", "after", 1, false)
	c.want("both stand again", "t=after/1", "t=before/1", "t=down/1", "t=loose/0")
}
