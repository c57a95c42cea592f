package site

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// model is access control in memory, changed by the calls of a plan.
type model struct {
	t *testing.T
	access
	left int  // the calls until one is interrupted, negative for none
	old  bool // it does not know that a role denies wildcards, like Mosquitto 2.0
}

var errInterrupted = errors.New("interrupted")

// Call changes the model as the service does.
func (m *model) Call(_ context.Context, method, path string, query url.Values, body, _ any) error {
	if m.left--; m.left == -1 {
		return errInterrupted
	}
	text := must(json.Marshal(body))
	var names struct{ RoleName, GroupName, Username string }
	if method != "DELETE" && path != "/acldefault" {
		m.decode(text, &names)
	}
	switch what := method + " " + path; what {
	case "PUT /acldefault":
		var list []broker.DefaultACL
		m.decode(text, &list)
		for _, d := range list {
			m.defaults[d.ACLType] = d.Allow
		}
	case "PUT /groups/anonymous":
		m.anonymous = names.GroupName
	case "POST /roles", "PUT /roles":
		r := m.roles[names.RoleName]
		if method == "POST" {
			r.AllowWildcardSubs = true
		}
		patch := struct{ ACLs *[]broker.ACL }{}
		m.decode(text, &patch)
		m.decode(text, &r)
		if m.old && !r.AllowWildcardSubs {
			m.t.Fatal("the broker cannot store a role that denies wildcards of subscriptions")
		}
		if patch.ACLs != nil {
			r.ACLs = *patch.ACLs
		}
		m.roles[names.RoleName] = r
	case "POST /groups", "PUT /groups":
		g := groupRecord{Group: m.groups[names.GroupName]}
		m.decode(text, &g)
		if g.Roles != nil {
			g.Group.Roles = roleRefs(g.Roles)
		}
		m.groups[names.GroupName] = g.Group
	case "POST /clients", "PUT /clients":
		c := clientRecord{Client: m.clients[names.Username]}
		m.decode(text, &c)
		if c.Roles != nil {
			c.Client.Roles = roleRefs(c.Roles)
		}
		if c.Groups != nil {
			c.Client.Groups = groupRefs(c.Groups)
		}
		m.clients[names.Username] = c.Client
	case "PUT /clients/enable":
		var e struct{ Enable bool }
		m.decode(text, &e)
		c := m.clients[names.Username]
		c.Disabled = !e.Enable
		m.clients[names.Username] = c
	case "DELETE /roles":
		delete(m.roles, query.Get("rolename"))
		m.dropDangling()
	case "DELETE /groups":
		delete(m.groups, query.Get("groupname"))
		m.dropDangling()
	case "DELETE /clients":
		delete(m.clients, query.Get("username"))
	default:
		m.t.Fatalf("unknown call %s", what)
	}
	return nil
}

func (m *model) decode(text []byte, v any) {
	if err := json.Unmarshal(text, v); err != nil {
		m.t.Fatalf("%s: %v", text, err)
	}
}

var (
	testTopics   = []string{"a", "a/b", "a/b/c", "b", "$a/b"}
	testFilters  = []string{"a", "a/b", "a/#", "#", "a/+", "+", "b", "$a/+"}
	testACLTypes = []broker.ACLType{"publishClientSend", "publishClientReceive", "subscribeLiteral", "subscribePattern", "unsubscribePattern"}
	testUsers    = []string{"", "u1", "u2", "u3"}
)

// randomAccess returns some access control.
func randomAccess(r *rand.Rand) access {
	a := access{defaults: map[string]bool{}, roles: map[string]broker.Role{}, groups: map[string]broker.Group{}, clients: map[string]broker.Client{}}
	for _, t := range defaultTypes {
		a.defaults[t] = r.IntN(3) == 0
	}
	for i := range 4 {
		if role := (broker.Role{RoleName: fmt.Sprintf("r%d", i), AllowWildcardSubs: r.IntN(6) > 0}); r.IntN(5) > 0 {
			for range r.IntN(4) {
				acl := broker.ACL{ACLType: testACLTypes[r.IntN(len(testACLTypes))], Topic: testFilters[r.IntN(len(testFilters))], Priority: r.IntN(3), Allow: r.IntN(3) > 0}
				if !slices.ContainsFunc(role.ACLs, func(o broker.ACL) bool { return o.ACLType == acl.ACLType && o.Topic == acl.Topic }) {
					role.ACLs = append(role.ACLs, acl)
				}
			}
			a.roles[role.RoleName] = role
		}
	}
	for i := range 3 {
		if name := fmt.Sprintf("g%d", i); r.IntN(4) > 0 {
			a.groups[name] = broker.Group{GroupName: name, Roles: someRoles(r, a)}
		}
	}
	for _, name := range testUsers[1:] {
		if r.IntN(5) == 0 {
			continue
		}
		c := broker.Client{Username: name, Disabled: r.IntN(4) == 0, Roles: someRoles(r, a), ClientID: []string{"", "one"}[r.IntN(2)]}
		for _, g := range sorted(a.groups) {
			if r.IntN(3) == 0 {
				c.Groups = append(c.Groups, broker.GroupRef{GroupName: g, Priority: broker.Priority(r.IntN(3) - 1)})
			}
		}
		a.clients[name] = c
	}
	if _, ok := a.groups["g0"]; ok && r.IntN(2) == 0 {
		a.anonymous = "g0"
	}
	return a
}

// allowWildcards makes it access control that Mosquitto 2.0 can have.
func (a *access) allowWildcards() {
	for name, r := range a.roles {
		r.AllowWildcardSubs = true
		a.roles[name] = r
	}
}

func someRoles(r *rand.Rand, a access) (refs []broker.RoleRef) {
	for _, name := range sorted(a.roles) {
		if r.IntN(3) == 0 {
			refs = append(refs, broker.RoleRef{RoleName: name, Priority: broker.Priority(r.IntN(3) - 1)})
		}
	}
	return refs
}

// allowed returns what each client may do.
func (a *access) allowed() map[broker.AccessCheck]bool {
	all := map[broker.AccessCheck]bool{}
	for _, username := range testUsers {
		rec := a.records(username)
		if rec.Client != nil { // as the broker orders them
			c := *rec.Client
			c.Roles, c.Groups = orderedRoles(c.Roles), slices.Clone(c.Groups)
			slices.SortFunc(c.Groups, func(x, y broker.GroupRef) int {
				return 2*int(y.Priority-x.Priority) + strings.Compare(x.GroupName, y.GroupName)
			})
			rec.Client = &c
		}
		rec.Groups, rec.Roles = maps.Clone(rec.Groups), maps.Clone(rec.Roles)
		for name, g := range rec.Groups {
			g.Roles = orderedRoles(g.Roles)
			rec.Groups[name] = g
		}
		for name, role := range rec.Roles {
			role.ACLs = slices.Clone(role.ACLs)
			slices.SortFunc(role.ACLs, func(x, y broker.ACL) int {
				return 4*strings.Compare(string(x.ACLType), string(y.ACLType)) + 2*min(1, max(-1, y.Priority-x.Priority)) + strings.Compare(x.Topic, y.Topic)
			})
			rec.Roles[name] = role
		}
		for _, action := range []broker.Action{broker.ActionPublish, broker.ActionReceive, broker.ActionSubscribe, broker.ActionUnsubscribe} {
			topics := testTopics
			if action == broker.ActionSubscribe || action == broker.ActionUnsubscribe {
				topics = slices.Concat(testTopics, testFilters)
			}
			for _, topic := range topics {
				q := broker.AccessCheck{Username: username, Action: action, Topic: topic}
				all[q] = dynsec.Explain(q, rec).Allowed && !strings.HasPrefix(a.clients[username].ClientID, unfinished) // it cannot connect
			}
		}
	}
	return all
}

func orderedRoles(list []broker.RoleRef) []broker.RoleRef {
	list = slices.Clone(list)
	slices.SortFunc(list, func(x, y broker.RoleRef) int {
		return 2*int(y.Priority-x.Priority) + strings.Compare(x.RoleName, y.RoleName)
	})
	return list
}

// document returns what declares the state.
func (a *access) document() *Broker {
	b := &Broker{}
	b.setAccess(a)
	return b
}

// partial returns a document that leaves out lists and members. What refers to an object that
// would not exist is left out as well.
func (a *access) partial(r *rand.Rand, old *access) *Broker {
	b := a.document()
	for i := range b.Roles {
		omit(r, &b.Roles[i].AllowWildcardSubs)
		omitList(r, &b.Roles[i].ACLs)
	}
	for i := range b.Groups {
		omitList(r, &b.Groups[i].Roles)
	}
	for i := range b.Clients {
		c := &b.Clients[i]
		omit(r, &c.Disabled)
		omit(r, &c.ClientID)
		omitList(r, &c.Roles)
		omitList(r, &c.Groups)
	}
	omitList(r, &b.Roles)
	omitList(r, &b.Groups)
	omitList(r, &b.Clients)
	omitList(r, &b.DefaultACL)
	omit(r, &b.AnonymousGroup)
	want := old.wanted(b, everyObject)
	if want.check(b) != nil || want.anonymous == "" && hasKey(want.groups, old.anonymous) {
		return nil
	}
	return b
}

func omit[T any](r *rand.Rand, p **T) {
	if r.IntN(4) == 0 {
		*p = nil
	}
}

func omitList[T any](r *rand.Rand, list *[]T) {
	if r.IntN(4) == 0 {
		*list = nil
	}
}

func everyObject(string, string) bool { return true }

// TestOrderOfSteps checks that no client may do between the first and the last step of a plan
// what neither the state before nor the state after allows, and that a plan that is interrupted
// anywhere and made again ends in the same state, also where the file declares a part only.
func TestOrderOfSteps(t *testing.T) {
	t.Parallel()
	runs := 400
	if testing.Short() {
		runs = 100
	}
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		old, next := randomAccess(r), randomAccess(r)
		if seed%5 == 0 {
			old.allowWildcards()
			next.allowWildcards()
		}
		d := next.document()
		if seed%4 != 0 {
			d = next.partial(r, &old)
		} else if hasKey(next.groups, old.anonymous) && next.anonymous == "" {
			d.AnonymousGroup = nil // a broker cannot be without one again
		}
		if d == nil {
			continue
		}
		m := &model{t: t, access: old, old: seed%5 == 0}
		m.applyInterrupted(seed, r, d)
	}
}

// applyInterrupted applies a document that is interrupted at most once.
func (m *model) applyInterrupted(seed int, r *rand.Rand, d *Broker) {
	t := m.t
	t.Helper()
	present := m.clone()
	end := present.wanted(d, everyObject)
	wanted, before := end.allowed(), present.allowed()
	steps := ordered(r, (&accessPlan{api: m, have: present, want: end, declared: map[string]Client{}}).plan())
	calls := 0
	for _, s := range steps {
		calls++
		if s.Action == Create && s.Kind == "client" {
			calls += 2
		}
	}
	m.left = r.IntN(2*calls + 1)
	if !m.steps(seed, steps, before, wanted) { // interrupted, and made again
		present, m.left = m.clone(), -1
		m.steps(seed, ordered(r, (&accessPlan{api: m, have: present, want: present.wanted(d, everyObject)}).plan()), before, wanted)
	}
	if rest := (&accessPlan{api: m, have: &m.access, want: end}).plan(); len(rest) > 0 {
		t.Fatalf("seed %d: the end differs from what is declared: %v", seed, rest)
	}
	if rest := (&accessPlan{api: m, have: &m.access, want: m.wanted(d, everyObject)}).plan(); len(rest) > 0 {
		t.Fatalf("seed %d: a second plan has steps: %v", seed, rest)
	}
	if after := m.allowed(); !maps.Equal(after, wanted) {
		t.Fatalf("seed %d: clients may do something else than what is declared", seed)
	}
}

// ordered returns the steps by phase, those of a phase in some order.
func ordered(r *rand.Rand, steps []Step) []Step {
	r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
	slices.SortStableFunc(steps, func(a, b Step) int { return int(a.phase) - int(b.phase) })
	return steps
}

// steps reports whether all steps were done. After each one it checks what the clients may do.
func (m *model) steps(seed int, steps []Step, before, wanted map[broker.AccessCheck]bool) bool {
	m.t.Helper()
	for _, s := range steps {
		err := s.do(context.Background())
		if err != nil && !errors.Is(err, errInterrupted) {
			m.t.Fatal(err)
		}
		for q, allowed := range m.allowed() {
			if allowed && !before[q] && !wanted[q] {
				m.t.Fatalf("seed %d: after %q a client may do what neither state allows: %+v", seed, s, q)
			}
		}
		if err != nil {
			return false
		}
	}
	return true
}
