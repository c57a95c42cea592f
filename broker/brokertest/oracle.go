package brokertest

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
)

// event is one of the four that access control decides about.
type event int

const (
	sending event = iota
	receiving
	subscribing
	unsubscribing
	events
)

func (e event) String() string {
	return [...]string{"publish", "receive", "subscribe to", "unsubscribe from"}[e]
}

// question is what a broker is asked: whether a client may do that with this
// topic or filter.
type question struct {
	event event
	topic string
}

// Agree loads the same generated roles, groups and clients into both brokers,
// asks both the same questions over the wire, and fails where their verdicts
// differ. The seed decides about everything that is generated. It keeps to what
// every Mosquitto understands: no %c and %u, no role that refuses wildcards, no
// subscriptions with a leading $.
func Agree(t *testing.T, seed uint64, oracle, subject Subject) {
	t.Helper()
	t.Logf("seed %d", seed)
	w := newWorld(rand.New(rand.NewPCG(seed, 0)))
	w.load(t, oracle.Broker)
	w.load(t, subject.Broker)
	for _, allow := range []bool{false, true} {
		name := fmt.Sprintf("where no ACL matches, allow is %t", allow)
		t.Run(name, func(t *testing.T) {
			want, got := w.judge(t, oracle, allow), w.judge(t, subject, allow)
			w.compare(t, want, got)
		})
	}
}

// The size of a world: large enough that every rule of the order of evaluation
// meets every other, small enough for seconds.
const (
	worldRoles     = 80
	worldGroups    = 25
	worldClients   = 80
	worldQuestions = 60 // of each event
)

// world is a generated access control and the questions about it.
type world struct {
	rng       *rand.Rand
	roles     []broker.RoleSpec
	groups    []broker.GroupSpec
	clients   []broker.ClientSpec
	questions [events][]string
}

func newWorld(rng *rand.Rand) *world {
	w := &world{rng: rng}
	for i := range worldRoles {
		w.roles = append(w.roles, broker.RoleSpec{RoleName: fmt.Sprintf("role-%02d", i), ACLs: w.acls()})
	}
	for i := range worldGroups {
		w.groups = append(w.groups, broker.GroupSpec{GroupName: fmt.Sprintf("group-%02d", i), Roles: w.someRoles(3)})
	}
	for i := range worldClients {
		name := fmt.Sprintf("client-%02d", i)
		w.clients = append(w.clients, broker.ClientSpec{Username: name, Password: new(password(name)),
			Roles: append(w.someRoles(3), broker.RoleRef{RoleName: listening, Priority: 1000}), Groups: w.someGroups(3)})
	}
	for e := range events {
		for len(w.questions[e]) < worldQuestions {
			w.ask(e)
		}
	}
	return w
}

// ask adds a question that is not there yet.
func (w *world) ask(e event) {
	topic := w.filter(e == subscribing || e == unsubscribing)
	if e == sending && w.rng.IntN(5) == 0 {
		topic = "$other/" + topic
	}
	if !slices.Contains(w.questions[e], topic) {
		w.questions[e] = append(w.questions[e], topic)
	}
}

// filter makes a topic or, with wildcards, a topic filter of few and short
// levels, some of them empty, so that many match one another.
func (w *world) filter(wildcards bool) string {
	levels := make([]string, 1+w.rng.IntN(3))
	for i := range levels {
		levels[i] = []string{"a", "b", "A", ""}[w.rng.IntN(4)]
		if wildcards && w.rng.IntN(4) == 0 {
			levels[i] = "+"
		}
	}
	if wildcards && w.rng.IntN(3) == 0 {
		levels[len(levels)-1] = "#"
	}
	if f := strings.Join(levels, "/"); f != "" {
		return f
	}
	return "a" // no topic is empty [MQTT-4.7.3-1]
}

// acls makes the ACLs of a role, no two of one type and topic.
func (w *world) acls() (acls []broker.ACL) {
	types := []broker.ACLType{broker.PublishClientSend, broker.PublishClientReceive, broker.SubscribeLiteral,
		broker.SubscribePattern, broker.UnsubscribeLiteral, broker.UnsubscribePattern}
	for range w.rng.IntN(20) {
		acl := broker.ACL{ACLType: types[w.rng.IntN(len(types))], Topic: w.filter(true),
			Priority: w.rng.IntN(5) - 2, Allow: w.rng.IntN(2) == 0}
		if acl.ACLType == broker.PublishClientSend && w.rng.IntN(5) == 0 {
			acl.Topic = "$other/" + acl.Topic
		}
		if !slices.ContainsFunc(acls, func(a broker.ACL) bool { return a.ACLType == acl.ACLType && a.Topic == acl.Topic }) {
			acls = append(acls, acl)
		}
	}
	return acls
}

// priority is one of few, so that many are equal.
func (w *world) priority() broker.Priority { return broker.Priority(w.rng.IntN(4) - 1) }

func (w *world) someRoles(most int) (refs []broker.RoleRef) {
	for _, i := range w.rng.Perm(worldRoles)[:w.rng.IntN(most+1)] {
		refs = append(refs, broker.RoleRef{RoleName: w.roles[i].RoleName, Priority: w.priority()})
	}
	return refs
}

func (w *world) someGroups(most int) (refs []broker.GroupRef) {
	for _, i := range w.rng.Perm(worldGroups)[:w.rng.IntN(most+1)] {
		refs = append(refs, broker.GroupRef{GroupName: w.groups[i].GroupName, Priority: w.priority()})
	}
	return refs
}

// Every client holds the role listening, before all others. It lets them
// subscribe to everything and back, and receive the message that ends a round.
const (
	listening  = "listening"
	everything = "#"
	roundOver  = "round/over"
)

func (w *world) load(t *testing.T, b broker.Broker) {
	t.Helper()
	must(t, b.CreateRole(t.Context(), broker.RoleSpec{RoleName: listening, ACLs: []broker.ACL{
		allow(broker.SubscribeLiteral, everything), allow(broker.UnsubscribeLiteral, everything),
		allow(broker.PublishClientReceive, roundOver),
	}}))
	for _, r := range w.roles {
		must(t, b.CreateRole(t.Context(), r))
	}
	for _, g := range w.groups {
		must(t, b.CreateGroup(t.Context(), g))
	}
	for _, c := range w.clients {
		must(t, b.CreateClient(t.Context(), c))
	}
}

// judgement is a broker's answers about each client.
type judgement map[string]map[question]bool

// judge asks a broker everything.
func (w *world) judge(t *testing.T, s Subject, byDefault bool) judgement {
	t.Helper()
	must(t, s.Broker.SetDefaultACLAccess(t.Context(), defaults(byDefault, byDefault, byDefault, byDefault)))
	u, err := url.Parse(s.URL)
	must(t, err)
	v := judgement{}
	wires := map[string]*wire{}
	for _, c := range w.clients {
		v[c.Username] = map[question]bool{}
		wires[c.Username] = dialWire(t, u.Host, c.Username, *c.Password)
	}
	w.judgeReceiving(t, s, u.Host, wires, v)
	for _, c := range w.clients {
		w.judgeRequests(t, wires[c.Username], v[c.Username])
	}
	return v
}

// judgeReceiving has the admin publish to every topic in question, to clients
// that are all subscribed to everything.
func (w *world) judgeReceiving(t *testing.T, s Subject, addr string, wires map[string]*wire, v judgement) {
	t.Helper()
	for name, c := range wires {
		if !c.subscribe(t, everything)[0] {
			t.Fatalf("%s may not subscribe to everything", name)
		}
	}
	admin := dialWire(t, addr, s.AdminUsername, s.AdminPassword)
	if slices.Contains(admin.publish(t, append(w.questions[receiving], roundOver)...), false) {
		t.Fatal("the admin may not publish everywhere")
	}
	for name, c := range wires {
		for _, topic := range w.questions[receiving] {
			v[name][question{receiving, topic}] = false
		}
		for topic := c.receive(t); topic != roundOver; topic = c.receive(t) {
			v[name][question{receiving, topic}] = true
		}
		if !c.unsubscribe(t, everything)[0] {
			t.Fatalf("%s may not unsubscribe from everything", name)
		}
	}
}

func (w *world) judgeRequests(t *testing.T, c *wire, v map[question]bool) {
	t.Helper()
	for i, granted := range c.publish(t, w.questions[sending]...) {
		v[question{sending, w.questions[sending][i]}] = granted
	}
	for i, granted := range c.subscribe(t, w.questions[subscribing]...) {
		v[question{subscribing, w.questions[subscribing][i]}] = granted
	}
	for i, granted := range c.unsubscribe(t, w.questions[unsubscribing]...) {
		v[question{unsubscribing, w.questions[unsubscribing][i]}] = granted
	}
	c.conn.Close() // so that what the others publish goes to nobody
}

// compare reports where the verdicts differ, and makes sure that there were
// enough of both.
func (w *world) compare(t *testing.T, want, got judgement) {
	t.Helper()
	var allowed, asked [events]int
	differ := 0
	for _, c := range w.clients {
		for q, granted := range want[c.Username] {
			asked[q.event]++
			if granted {
				allowed[q.event]++
			}
			if got[c.Username][q] == granted {
				continue
			}
			if differ++; differ <= 5 {
				t.Errorf("%s may %s %q: got %t, want %t\n%s", c.Username, q.event, q.topic, !granted, granted, w.describe(c))
			}
		}
	}
	if differ > 0 {
		t.Errorf("%d verdicts differ, of which at most 5 are shown", differ)
	}
	for e := range events {
		const rare = 50 // among hundreds of seeds, one verdict in 23 is the least of either kind
		if allowed[e]*rare < asked[e] || (asked[e]-allowed[e])*rare < asked[e] {
			t.Errorf("%s: %d of %d allowed, which tells too little", e, allowed[e], asked[e])
		}
		t.Logf("%s: the same verdict %d times, %d allowed", e, asked[e], allowed[e])
	}
}

// describe shows everything that decides about a client.
func (w *world) describe(c broker.ClientSpec) string {
	var b strings.Builder
	roles := func(refs []broker.RoleRef) {
		for _, ref := range refs {
			i := slices.IndexFunc(w.roles, func(r broker.RoleSpec) bool { return r.RoleName == ref.RoleName })
			if i >= 0 {
				fmt.Fprintf(&b, "  %s, priority %d: %v\n", ref.RoleName, ref.Priority, w.roles[i].ACLs)
			}
		}
	}
	roles(c.Roles)
	for _, ref := range c.Groups {
		fmt.Fprintf(&b, " in %s, priority %d:\n", ref.GroupName, ref.Priority)
		i := slices.IndexFunc(w.groups, func(g broker.GroupSpec) bool { return g.GroupName == ref.GroupName })
		roles(w.groups[i].Roles)
	}
	return b.String()
}
