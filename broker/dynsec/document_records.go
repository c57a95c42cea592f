package dynsec

import (
	"strconv"

	"signalbox/broker"
)

// client reads one client. Mosquitto 2.0 stores the password in three members, 2.1 in
// one, which takes precedence.
func (r *docReader) client() DocumentClient {
	var c DocumentClient
	var old tripleHash
	r.object(func(member string) {
		switch member {
		case "username":
			c.Username = r.name()
		case "clientid":
			c.ClientID = r.clientID()
		case "textname":
			c.TextName = r.text()
		case "textdescription":
			c.TextDescription = r.text()
		case "disabled":
			c.Disabled = r.flag(false)
		case "roles":
			c.Roles = r.roleRefs()
		case "encoded_password":
			c.EncodedPassword = r.textOr()
		default:
			r.tripleHash(&old, member)
		}
	})
	r.need(c.Username, "username")
	if c.EncodedPassword == "" {
		c.EncodedPassword = old.encode()
	}
	if c.EncodedPassword != "" {
		if err := checkPasswordHash(c.EncodedPassword); err != nil {
			r.fail("client %q: password: %v", c.Username, err)
		}
	}
	return c
}

// clientID reads the client id that a client is bound to; "" is none.
func (r *docReader) clientID() string {
	s := r.textOr()
	if s != "" && badName(s) != "" {
		r.fail("%s", badName(s))
	}
	return s
}

// tripleHash is a password as Mosquitto 2.0 stores it: PBKDF2 with SHA-512, the texts
// in base64.
type tripleHash struct {
	hash, salt string
	iterations int64
}

func (r *docReader) tripleHash(h *tripleHash, member string) {
	switch member {
	case "password":
		h.hash = r.textOr()
	case "salt":
		h.salt = r.textOr()
	case "iterations":
		h.iterations = r.number(0)
	default:
		r.skip()
	}
}

// encode returns the one-member form, or "" without a password.
func (h tripleHash) encode() string {
	if h == (tripleHash{}) {
		return ""
	}
	return "$7$" + strconv.FormatInt(h.iterations, 10) + "$" + h.salt + "$" + h.hash
}

// group reads one group.
func (r *docReader) group() broker.Group {
	var g broker.Group
	r.object(func(member string) {
		switch member {
		case "groupname":
			g.GroupName = r.name()
		case "textname":
			g.TextName = r.text()
		case "textdescription":
			g.TextDescription = r.text()
		case "roles":
			g.Roles = orderRoles(r.roleRefs())
		case "clients":
			g.Clients = r.memberRefs()
		default:
			r.skip()
		}
	})
	r.need(g.GroupName, "groupname")
	return g
}

// role reads one role.
func (r *docReader) role() broker.Role {
	role := broker.Role{AllowWildcardSubs: true}
	r.object(func(member string) {
		switch member {
		case "rolename":
			role.RoleName = r.name()
		case "textname":
			role.TextName = r.text()
		case "textdescription":
			role.TextDescription = r.text()
		case "allowwildcardsubs":
			role.AllowWildcardSubs = r.flag(true)
		case "acls":
			role.ACLs = r.acls()
		default:
			r.skip()
		}
	})
	r.need(role.RoleName, "rolename")
	return role
}

// acls reads the ACLs of a role. Of duplicates the first counts, as in Mosquitto.
func (r *docReader) acls() []broker.ACL {
	var acls []broker.ACL
	seen := make(map[aclKey]bool)
	r.array(func() {
		a := r.acl()
		k := aclKey{a.ACLType, a.Topic}
		if seen[k] {
			r.warn("an ACL of type %s with topic %q stands before this one, which is passed over", a.ACLType, a.Topic)
			return
		}
		seen[k] = true
		acls = append(acls, a)
	})
	return acls
}

func (r *docReader) acl() broker.ACL {
	var a broker.ACL
	r.object(func(member string) {
		switch member {
		case "acltype":
			a.ACLType = r.aclType()
		case "topic":
			a.Topic = r.name()
		case "priority":
			a.Priority = r.priority(0)
		case "allow":
			a.Allow = r.flag(false)
		default:
			r.skip()
		}
	})
	r.need(string(a.ACLType), "acltype")
	r.need(a.Topic, "topic")
	r.warnFlawed(a)
	return a
}

// warnFlawed warns of an ACL whose topic is not a filter, and states its effect.
func (r *docReader) warnFlawed(a broker.ACL) {
	switch {
	case broker.ValidFilter(a.Topic):
	case a.ACLType == broker.SubscribeLiteral, a.ACLType == broker.UnsubscribeLiteral:
		r.warn("%q is no topic filter: the ACL is without effect", a.Topic)
	default:
		r.warn("%q is no topic filter: the ACL denies what agrees with it up to the misplaced wildcard", a.Topic)
	}
}

func (r *docReader) aclType() broker.ACLType {
	s := r.textOr()
	t, ok := parseACLType(s)
	if !ok {
		r.fail("no ACL is of type %q", s)
	}
	return t
}

// roleRefs reads the roles of a client or group, into a list that is valid until the next one. Of
// duplicates the first counts, as in Mosquitto.
func (r *docReader) roleRefs() []broker.RoleRef {
	r.roles = r.roles[:0]
	var held repetitions
	r.array(func() {
		ref := broker.RoleRef{}
		ref.RoleName, ref.Priority = r.ref("rolename", r.sharedName)
		if held.add(ref.RoleName, len(r.roles), func(i int) string { return r.roles[i].RoleName }) {
			r.warn("role %q is held already, this one is passed over", ref.RoleName)
			return
		}
		r.roles = append(r.roles, ref)
	})
	return r.roles
}

// memberRefs reads the clients of a group.
func (r *docReader) memberRefs() []broker.MemberRef {
	var refs []broker.MemberRef
	var seen repetitions
	r.array(func() {
		ref := broker.MemberRef{}
		ref.Username, ref.Priority = r.ref("username", r.name)
		if seen.add(ref.Username, len(refs), func(i int) string { return refs[i].Username }) {
			r.warn("client %q is a member already, this one is passed over", ref.Username)
			return
		}
		refs = append(refs, ref)
	})
	return refs
}

// repetitions finds names of a list that were in it before. It needs memory only for many that are not in order.
type repetitions struct {
	unordered bool
	seen      map[string]bool
}

// add reports whether a name is among the n names before it, which at returns.
func (s *repetitions) add(name string, n int, at func(int) string) bool {
	const few = 16
	s.unordered = s.unordered || n > 0 && name <= at(n-1)
	if !s.unordered {
		return false
	}
	if n < few {
		for i := range n {
			if at(i) == name {
				return true
			}
		}
		return false
	}
	if s.seen == nil {
		s.seen = make(map[string]bool, n)
		for i := range n {
			s.seen[at(i)] = true
		}
	}
	twice := s.seen[name]
	s.seen[name] = true
	return twice
}

// ref reads one membership; key is the member with the name, which read reads.
func (r *docReader) ref(key string, read func() string) (name string, p broker.Priority) {
	p = broker.NoPriority
	r.object(func(member string) {
		switch member {
		case key:
			name = read()
		case "priority":
			p = broker.Priority(r.priority(int64(broker.NoPriority)))
		default:
			r.skip()
		}
	})
	r.need(name, key)
	return name, p
}

func (r *docReader) priority(otherwise int64) int {
	n := r.number(otherwise)
	return int(min(max(n, -maxPriority), maxPriority))
}

// need fails if a required member is absent.
func (r *docReader) need(v, member string) {
	if v == "" {
		r.fail("%s is missing", member)
	}
}
