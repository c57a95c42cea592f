package dynsec

import (
	"github.com/tidwall/btree"

	"signalbox/broker"
)

// operation is the implementation of one command.
type operation struct {
	name    string
	mutates bool
	do      func(*Tx, *Command, Connections) (payload, error)
}

// The names of the commands as in responses.
const (
	opSetDefaultACLAccess = "setDefaultACLAccess"
	opGetDefaultACLAccess = "getDefaultACLAccess"
	opGetDetails          = "getDetails"

	opCreateClient      = "createClient"
	opDeleteClient      = "deleteClient"
	opGetClient         = "getClient"
	opListClients       = "listClients"
	opModifyClient      = "modifyClient"
	opSetClientPassword = "setClientPassword"
	opSetClientID       = "setClientId"
	opAddClientRole     = "addClientRole"
	opRemoveClientRole  = "removeClientRole"
	opEnableClient      = "enableClient"
	opDisableClient     = "disableClient"

	opCreateGroup       = "createGroup"
	opDeleteGroup       = "deleteGroup"
	opGetGroup          = "getGroup"
	opListGroups        = "listGroups"
	opModifyGroup       = "modifyGroup"
	opAddGroupClient    = "addGroupClient"
	opRemoveGroupClient = "removeGroupClient"
	opAddGroupRole      = "addGroupRole"
	opRemoveGroupRole   = "removeGroupRole"
	opSetAnonymousGroup = "setAnonymousGroup"
	opGetAnonymousGroup = "getAnonymousGroup"

	opCreateRole    = "createRole"
	opDeleteRole    = "deleteRole"
	opGetRole       = "getRole"
	opListRoles     = "listRoles"
	opModifyRole    = "modifyRole"
	opAddRoleACL    = "addRoleACL"
	opRemoveRoleACL = "removeRoleACL"
)

// operations are all commands by their names in lower case.
var operations = byName([]operation{
	{opSetDefaultACLAccess, true, (*Tx).setDefaultACLAccess},
	{opGetDefaultACLAccess, false, (*Tx).getDefaultACLAccess},
	{opGetDetails, false, (*Tx).getDetails},

	{opCreateClient, true, (*Tx).createClient},
	{opDeleteClient, true, (*Tx).deleteClientCommand},
	{opGetClient, false, (*Tx).getClient},
	{opListClients, false, (*Tx).listClients},
	{opModifyClient, true, (*Tx).modifyClient},
	{opSetClientPassword, true, (*Tx).setClientPassword},
	{opSetClientID, true, (*Tx).setClientID},
	{opAddClientRole, true, (*Tx).addClientRole},
	{opRemoveClientRole, true, (*Tx).removeClientRole},
	{opEnableClient, true, (*Tx).enableClient},
	{opDisableClient, true, (*Tx).disableClient},

	{opCreateGroup, true, (*Tx).createGroup},
	{opDeleteGroup, true, (*Tx).deleteGroupCommand},
	{opGetGroup, false, (*Tx).getGroup},
	{opListGroups, false, (*Tx).listGroups},
	{opModifyGroup, true, (*Tx).modifyGroup},
	{opAddGroupClient, true, (*Tx).addGroupClient},
	{opRemoveGroupClient, true, (*Tx).removeGroupClient},
	{opAddGroupRole, true, (*Tx).addGroupRole},
	{opRemoveGroupRole, true, (*Tx).removeGroupRole},
	{opSetAnonymousGroup, true, (*Tx).setAnonymousGroup},
	{opGetAnonymousGroup, false, (*Tx).getAnonymousGroup},

	{opCreateRole, true, (*Tx).createRole},
	{opDeleteRole, true, (*Tx).deleteRoleCommand},
	{opGetRole, false, (*Tx).getRole},
	{opListRoles, false, (*Tx).listRoles},
	{opModifyRole, true, (*Tx).modifyRole},
	{opAddRoleACL, true, (*Tx).addRoleACL},
	{opRemoveRoleACL, true, (*Tx).removeRoleACL},
})

func byName(table []operation) map[string]*operation {
	m := make(map[string]*operation, len(table))
	for i := range table {
		m[lower(table[i].name)] = &table[i]
	}
	return m
}

// listed returns the page of a tree that a list command requests.
func listed[R, T any](of *recordType[T], m *btree.Map[string, R], c *Command, view func(string, R) T) payload {
	d := listing[T]{of: of, total: m.Len(), verbose: c.args.verbose.value}
	for name, r := range span(m, c.args.offset.value, c.args.count.or(-1)) {
		if d.verbose {
			d.records = append(d.records, view(name, r))
		} else {
			d.names = append(d.names, name)
		}
	}
	return d
}

// priority returns the priority of a membership.
func (c *Command) priority() broker.Priority {
	return broker.Priority(clamp(c.args.priority.or(int(broker.NoPriority))))
}

// replace sets a text if the argument is given.
func replace(to **string, a arg[string]) {
	if a.good {
		*to = a.ptr()
	}
}
