package dynsec

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
)

// dice makes commands over few names, so that they affect the same records.
type dice struct{ *rand.Rand }

func (d dice) pick(s ...any) any       { return s[d.IntN(len(s))] }
func (d dice) name(kind string) string { return fmt.Sprintf("%s%d", kind, d.IntN(5)) }

// list returns up to three references, sometimes dangling or duplicate.
func (d dice) list(key, kind string) any {
	if d.IntN(20) == 0 {
		return d.pick("no list", nil, []any{map[string]any{key: 5}})
	}
	l := []any{}
	for range d.IntN(4) {
		l = append(l, map[string]any{key: d.name(kind), "priority": d.pick(-1, 0, 3, 7, "x", 1e9)})
	}
	return l
}

func (d dice) acls() any {
	l := []any{}
	for range d.IntN(4) {
		l = append(l, d.acl(map[string]any{}))
	}
	return l
}

func (d dice) acl(m map[string]any) map[string]any {
	m["acltype"] = d.pick("publishClientSend", "subscribeLiteral", "SUBSCRIBEPATTERN", "nonsense", 5)
	m["topic"] = d.pick("a", "b/#", "c/+", "bad/#/x", "", "x\x00")
	m["allow"] = d.pick(true, false, "true")
	m["priority"] = d.pick(-2, 0, 5, "5")
	return m
}

// anyCommand is every command, and those that create several times.
var anyCommand = func() []string {
	names := slices.Collect(maps.Keys(operations))
	for range 4 {
		names = append(names, opCreateClient, opCreateGroup, opCreateRole)
	}
	slices.Sort(names)
	return names
}()

// command returns any command with any of the arguments of all commands.
func (d dice) command() map[string]any {
	m := d.acl(map[string]any{"command": anyCommand[d.IntN(len(anyCommand))], "correlationData": "x"})
	m["username"], m["groupname"], m["rolename"] = d.name("c"), d.name("g"), d.name("r")
	if d.IntN(20) == 0 {
		delete(m, fmt.Sprint(d.pick("username", "groupname", "rolename")))
	}
	optional := []struct {
		key   string
		value func() any
	}{
		{"roles", func() any { return d.list("rolename", "r") }},
		{"groups", func() any { return d.list("groupname", "g") }},
		{"clients", func() any { return d.list("username", "c") }},
		{"acls", d.acls},
		{"password", func() any { return d.pick("pw", "", 5) }},
		{"clientid", func() any { return d.pick("id", "", 5) }},
		{"textname", func() any { return d.pick("text", "", 5) }},
		{"allowwildcardsubs", func() any { return d.pick(true, false, "x") }},
		{"verbose", func() any { return d.pick(true, false) }},
		{"count", func() any { return d.pick(-1, 0, 1, 3) }},
	}
	for _, o := range optional {
		if d.IntN(3) == 0 {
			m[o.key] = o.value()
		}
	}
	return m
}

// TestRandomCommands runs random batches and checks after each: the version before is
// unchanged; a command that failed changed nothing; the changes produce the new
// version; the reverse indexes agree with the records; clients with changed rights or
// credentials are disconnected.
func TestRandomCommands(t *testing.T) {
	t.Parallel()
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			d := dice{rand.New(rand.NewPCG(seed, 1))}
			s := freshBroker(t)
			for range 100 {
				s = randomBatch(t, d, s)
			}
			if s.ChangeIndex() < 20 {
				t.Errorf("only %d commands changed something", s.ChangeIndex())
			}
		})
	}
}

func randomBatch(t *testing.T, d dice, s *State) *State {
	t.Helper()
	var commands []map[string]any
	for range 1 + d.IntN(3) {
		commands = append(commands, d.command())
	}
	payload := request(t, commands...)
	before := dumpOf(s)
	oneByOne(t, s, payload)
	_, next, changes, disconnects := run(s, payload, nil)
	sameDump(t, string(payload)+": the version before", before, dumpOf(s))
	checkChanges(t, string(payload), s, next, changes)
	checkIndexes(t, next)
	checkDisconnects(t, string(payload), s, next, changes, disconnects)
	return next
}

// oneByOne runs each command in a transaction of its own and checks that those that
// fail, or only read, change nothing.
func oneByOne(t *testing.T, s *State, payload []byte) {
	t.Helper()
	for _, c := range DecodeRequest(payload).Commands {
		if _, ok := c.PasswordToHash(); ok {
			c.SetPasswordHash("hash")
		}
		tx := s.Begin()
		a := tx.Do(c, nil)
		next, changes, disconnects := tx.End()
		if (a.Error != "" || !c.Mutates()) && len(changes)+len(disconnects) > 0 {
			t.Fatalf("%s: %s answered %q and made %v, %v", payload, c, a.Error, changes, disconnects)
		}
		if len(changes) == 0 {
			sameState(t, string(payload), s, next)
		}
		s = next
	}
}

func checkDisconnects(t *testing.T, what string, s, next *State, changes []Change, disconnects []Disconnect) {
	t.Helper()
	if slices.ContainsFunc(changes, func(c Change) bool { _, ok := c.(PutDefaults); return ok }) {
		return
	}
	for username := range each(s.clients, "") {
		if access(s, username) != access(next, username) && !slices.Contains(disconnects, Disconnect{Username: username}) {
			t.Fatalf("%s: %q has other rights and is not cut off\nbefore %s\nafter  %s", what, username, access(s, username), access(next, username))
		}
	}
	if anonymous(s) != anonymous(next) && !slices.Contains(disconnects, Disconnect{Anonymous: true}) {
		t.Fatalf("%s: anonymous clients have other rights and are not cut off", what)
	}
}

// access returns everything that decides what a connected client may do.
func access(s *State, username string) string {
	c, ok := s.clients.Get(username)
	if !ok {
		return "gone"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q %t", c.ClientID, c.HasPassword)
	writeRoles(&b, s, c.Roles)
	for _, ref := range c.Groups {
		g, _ := s.groups.Get(ref.GroupName)
		writeRoles(&b, s, g.Roles)
	}
	return b.String()
}

func anonymous(s *State) string {
	var b strings.Builder
	if g, ok := s.groups.Get(s.anonymous); ok {
		writeRoles(&b, s, g.Roles)
	}
	return b.String()
}

func writeRoles(b *strings.Builder, s *State, refs []broker.RoleRef) {
	for _, ref := range refs {
		r, _ := s.roles.Get(ref.RoleName)
		fmt.Fprintf(b, " %t %v", r.AllowWildcardSubs, r.ACLs)
	}
}
