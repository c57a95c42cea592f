package dynsec

import (
	"fmt"
	"strings"

	"signalbox/broker"
)

// maxNamed bounds how many faults an error lists.
const maxNamed = 20

// invalidFile returns one error for all faults of a file.
func invalidFile(problems []string) error { return fileError(broker.Invalid, problems) }

func fileError(kind broker.Kind, problems []string) error {
	more := ""
	if n := len(problems) - maxNamed; n > 0 {
		problems, more = problems[:maxNamed], fmt.Sprintf("; and %d more", n)
	}
	return &broker.Error{Kind: kind, Msg: strings.Join(problems, "; ") + more}
}

// check finds duplicate names and dangling references.
func (b *builder) check() {
	roles := nameSet(&b.checker, "role", b.roles, func(r broker.Role) string { return r.RoleName })
	groups := nameSet(&b.checker, "group", b.groups, func(g broker.Group) string { return g.GroupName })
	var last newClient
	for i, c := range b.clients.list {
		if i > 0 && c.username == last.username {
			b.add("client %q is there twice", c.username)
		}
		last = c
	}
	for _, c := range b.clients.list {
		b.holds("client", c.username, c.record.Roles, roles)
	}
	for _, g := range b.groups {
		b.holds("group", g.GroupName, g.Roles, roles)
	}
	b.problems = append(b.problems, b.unknown...)
	if b.anonymous != "" && !groups[b.anonymous] {
		b.add("the anonymous group %q is no group here", b.anonymous)
	}
}

func noMember(group, member string) string {
	return fmt.Sprintf("group %q has the member %q, which is no client here", group, member)
}

// checker collects faults.
type checker struct{ problems []string }

func (c *checker) add(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *checker) holds(kind, name string, refs []broker.RoleRef, roles map[string]bool) {
	for _, ref := range refs {
		if !roles[ref.RoleName] {
			c.add("%s %q has the role %q, which is no role here", kind, name, ref.RoleName)
		}
	}
}

// nameSet returns the set of the records' names.
func nameSet[T any](c *checker, kind string, records []T, name func(T) string) map[string]bool {
	set := make(map[string]bool, len(records))
	for _, r := range records {
		n := name(r)
		if set[n] {
			c.add("%s %q is there twice", kind, n)
		}
		set[n] = true
	}
	return set
}
