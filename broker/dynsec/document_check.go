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
func (d *Document) check() error {
	var c checker
	roles := nameSet(&c, "role", d.Roles, func(r broker.Role) string { return r.RoleName })
	groups := nameSet(&c, "group", d.Groups, func(g broker.Group) string { return g.GroupName })
	clients := nameSet(&c, "client", d.Clients, func(m DocumentClient) string { return m.Username })
	for _, m := range d.Clients {
		c.holds("client", m.Username, m.Roles, roles)
	}
	for _, g := range d.Groups {
		c.holds("group", g.GroupName, g.Roles, roles)
		for _, m := range g.Clients {
			if !clients[m.Username] {
				c.add("group %q has the member %q, which is no client here", g.GroupName, m.Username)
			}
		}
	}
	if d.AnonymousGroup != "" && !groups[d.AnonymousGroup] {
		c.add("the anonymous group %q is no group here", d.AnonymousGroup)
	}
	if len(c.problems) > 0 {
		return invalidFile(c.problems)
	}
	return nil
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
