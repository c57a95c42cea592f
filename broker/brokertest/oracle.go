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

// event is one of the four actions that access control decides about.
type event int

const (
	eventPublish event = iota
	eventReceive
	eventSubscribe
	eventUnsubscribe
	events
)

func (e event) String() string {
	return [...]string{"publish", "receive", "subscribe to", "unsubscribe from"}[e]
}

// question asks a broker whether a client may do that with this topic or filter.
type question struct {
	event event
	topic string
}

// Agree loads the same generated roles, groups and clients into both brokers, asks both the same
// questions over MQTT, and fails where their verdicts differ. The seed determines everything that
// is generated. Only features of every Mosquitto are used: no %c and %u, no role that refuses
// wildcards, no subscriptions with a leading $.
func Agree(t *testing.T, seed uint64, oracle, subject Subject) {
	t.Helper()
	t.Logf("seed %d", seed)
	w := newWorld(rand.New(rand.NewPCG(seed, 0)))
	w.load(t, oracle.Broker)
	w.load(t, subject.Broker)
	for _, allow := range []bool{false, true} {
		name := fmt.Sprintf("where no ACL matches, allow is %t", allow)
		t.Run(name, func(t *testing.T) {
			want, got := w.askAll(t, oracle, allow), w.askAll(t, subject, allow)
			w.compare(t, want, got)
		})
	}
}

// Size of a world: large enough that every pair of rules of evaluation occurs, small enough for
// seconds.
const (
	worldRoles     = 80
	worldGroups    = 25
	worldClients   = 80
	worldQuestions = 60 // of each event
)

// world is a generated configuration of access control, and questions about it.
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
			w.addQuestion(e)
		}
	}
	return w
}

// addQuestion adds a new question.
func (w *world) addQuestion(e event) {
	topic := w.filter(e == eventSubscribe || e == eventUnsubscribe)
	if e == eventPublish && w.rng.IntN(5) == 0 {
		topic = "$other/" + topic
	}
	if !slices.Contains(w.questions[e], topic) {
		w.questions[e] = append(w.questions[e], topic)
	}
}

// filter returns a topic or, with wildcards, a topic filter of few and short levels, some of them
// empty, so that many match one another.
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

// acls returns the ACLs of a role, no two with the same type and topic.
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

// priority returns one of few priorities, so that many are equal.
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

// Every client has the role listening with the highest priority. It permits to subscribe to
// everything, to unsubscribe, and to receive the message that ends a round.
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

// brokerVerdicts is a broker's verdicts about each client.
type brokerVerdicts map[string]map[question]bool

// askAll asks a broker all questions.
func (w *world) askAll(t *testing.T, s Subject, byDefault bool) brokerVerdicts {
	t.Helper()
	must(t, s.Broker.SetDefaultACLAccess(t.Context(), defaults(byDefault, byDefault, byDefault, byDefault)))
	u, err := url.Parse(s.URL)
	must(t, err)
	v := brokerVerdicts{}
	wires := map[string]*rawClient{}
	for _, c := range w.clients {
		v[c.Username] = map[question]bool{}
		wires[c.Username] = dialRaw(t, u.Host, c.Username, *c.Password)
	}
	w.askReceiving(t, s, u.Host, wires, v)
	for _, c := range w.clients {
		w.askRequests(t, wires[c.Username], v[c.Username])
	}
	return v
}

// askReceiving has the admin publish to every topic in question, while all clients are
// subscribed to everything.
func (w *world) askReceiving(t *testing.T, s Subject, addr string, wires map[string]*rawClient, v brokerVerdicts) {
	t.Helper()
	for name, c := range wires {
		if !c.subscribe(t, everything)[0] {
			t.Fatalf("%s may not subscribe to everything", name)
		}
	}
	admin := dialRaw(t, addr, s.AdminUsername, s.AdminPassword)
	if slices.Contains(admin.publish(t, append(w.questions[eventReceive], roundOver)...), false) {
		t.Fatal("the admin may not publish everywhere")
	}
	for name, c := range wires {
		for _, topic := range w.questions[eventReceive] {
			v[name][question{eventReceive, topic}] = false
		}
		for topic := c.receive(t); topic != roundOver; topic = c.receive(t) {
			v[name][question{eventReceive, topic}] = true
		}
		if !c.unsubscribe(t, everything)[0] {
			t.Fatalf("%s may not unsubscribe from everything", name)
		}
	}
}

func (w *world) askRequests(t *testing.T, c *rawClient, v map[question]bool) {
	t.Helper()
	for i, granted := range c.publish(t, w.questions[eventPublish]...) {
		v[question{eventPublish, w.questions[eventPublish][i]}] = granted
	}
	for i, granted := range c.subscribe(t, w.questions[eventSubscribe]...) {
		v[question{eventSubscribe, w.questions[eventSubscribe][i]}] = granted
	}
	for i, granted := range c.unsubscribe(t, w.questions[eventUnsubscribe]...) {
		v[question{eventUnsubscribe, w.questions[eventUnsubscribe][i]}] = granted
	}
	c.Drop() // so that it does not receive messages of the others
}

// compare reports different verdicts, and checks that both verdicts are frequent enough.
func (w *world) compare(t *testing.T, want, got brokerVerdicts) {
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

// describe returns everything that determines the verdicts about a client.
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
