package dynsec

import "signalbox/broker"

// CreateClient returns the command that creates a client. Of duplicate groups and roles
// the first counts.
func CreateClient(s broker.ClientSpec) Command {
	seen := map[string]bool{}
	groups := make([]broker.GroupRef, 0, len(s.Groups))
	for _, g := range s.Groups {
		if !seen[g.GroupName] {
			seen[g.GroupName] = true
			groups = append(groups, g)
		}
	}
	if s.Groups != nil {
		s.Groups = groups
	}
	return command(opCreateClient, clientArguments(s))
}

// ModifyClient returns the command that brings a client to the wanted state.
func ModifyClient(s broker.ClientSpec) Command { return command(opModifyClient, clientArguments(s)) }

// DeleteClient returns the command of this name.
func DeleteClient(username string) Command { return ofClient(opDeleteClient, username) }

// EnableClient returns the command of this name.
func EnableClient(username string) Command { return ofClient(opEnableClient, username) }

// DisableClient returns the command of this name.
func DisableClient(username string) Command { return ofClient(opDisableClient, username) }

// GetClient returns the command of this name.
func GetClient(username string) Command { return ofClient(opGetClient, username) }

// ListClients returns the command for count clients from offset on, as records if
// verbose and otherwise as names; a count of -1 means all.
func ListClients(verbose bool, count, offset int) Command {
	return listCommand(opListClients, verbose, count, offset)
}

// CreateGroup returns the command that creates a group. Its clients are ignored.
func CreateGroup(s broker.GroupSpec) Command {
	s.Clients = nil
	return command(opCreateGroup, groupArguments(s))
}

// ModifyGroup returns the command that brings a group to the wanted state.
func ModifyGroup(s broker.GroupSpec) Command { return command(opModifyGroup, groupArguments(s)) }

// DeleteGroup returns the command of this name.
func DeleteGroup(groupname string) Command { return ofGroup(opDeleteGroup, groupname) }

// ListGroups makes the command of this name; see ListClients.
func ListGroups(verbose bool, count, offset int) Command {
	return listCommand(opListGroups, verbose, count, offset)
}

// SetAnonymousGroup returns the command of this name.
func SetAnonymousGroup(groupname string) Command { return ofGroup(opSetAnonymousGroup, groupname) }

// CreateRole returns the command that creates a role.
func CreateRole(s broker.RoleSpec) Command { return command(opCreateRole, roleArguments(s)) }

// ModifyRole returns the command that brings a role to the wanted state.
func ModifyRole(s broker.RoleSpec) Command { return command(opModifyRole, roleArguments(s)) }

// DeleteRole returns the command of this name.
func DeleteRole(rolename string) Command { return ofRole(opDeleteRole, rolename) }

// ListRoles makes the command of this name; see ListClients.
func ListRoles(verbose bool, count, offset int) Command {
	return listCommand(opListRoles, verbose, count, offset)
}

// SetDefaultACLAccess returns the command that changes the given defaults.
func SetDefaultACLAccess(acls []broker.DefaultACL) Command {
	l := make([]aclArg, len(acls))
	for i, a := range acls {
		l[i] = aclArg{aclType: given(a.ACLType), allow: given(a.Allow)}
	}
	return command(opSetDefaultACLAccess, arguments{acls: given(l)})
}

// GetDefaultACLAccess returns the command of this name.
func GetDefaultACLAccess() Command { return command(opGetDefaultACLAccess, arguments{}) }

func command(name string, a arguments) Command {
	return Command{op: operations[lower(name)], name: name, args: a}
}

func ofClient(name, username string) Command {
	return command(name, arguments{username: given(username)})
}

func ofGroup(name, groupname string) Command {
	return command(name, arguments{groupname: given(groupname)})
}

func ofRole(name, rolename string) Command {
	return command(name, arguments{rolename: given(rolename)})
}

func listCommand(name string, verbose bool, count, offset int) Command {
	return command(name, arguments{verbose: given(verbose), count: given(count), offset: given(offset)})
}

func clientArguments(s broker.ClientSpec) arguments {
	return arguments{
		username:        given(s.Username),
		password:        optional((*string)(s.Password)),
		clientID:        optional(s.ClientID),
		textName:        optional(s.TextName),
		textDescription: optional(s.TextDescription),
		roles:           refs(s.Roles, func(r broker.RoleRef) ref { return ref{given(r.RoleName), r.Priority} }),
		groups:          refs(s.Groups, func(g broker.GroupRef) ref { return ref{given(g.GroupName), g.Priority} }),
	}
}

func groupArguments(s broker.GroupSpec) arguments {
	return arguments{
		groupname:       given(s.GroupName),
		textName:        optional(s.TextName),
		textDescription: optional(s.TextDescription),
		clients:         refs(s.Clients, func(m broker.MemberRef) ref { return ref{given(m.Username), m.Priority} }),
		roles:           refs(s.Roles, func(r broker.RoleRef) ref { return ref{given(r.RoleName), r.Priority} }),
	}
}

func roleArguments(s broker.RoleSpec) arguments {
	return arguments{
		rolename:        given(s.RoleName),
		textName:        optional(s.TextName),
		textDescription: optional(s.TextDescription),
		wildcardSubs:    optional(s.AllowWildcardSubs),
		acls: refs(s.ACLs, func(a broker.ACL) aclArg {
			return aclArg{given(string(a.ACLType)), given(a.Topic), clamp(a.Priority), given(a.Allow)}
		}),
	}
}

func optional[T any](p *T) arg[T] {
	if p == nil {
		return arg[T]{}
	}
	return given(*p)
}

// refs returns the argument for a list; a nil one is absent.
func refs[T, R any](l []T, one func(T) R) arg[[]R] {
	if l == nil {
		return arg[[]R]{}
	}
	out := make([]R, len(l))
	for i, v := range l {
		out[i] = one(v)
	}
	return given(out)
}
