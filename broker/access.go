package broker

import (
	"context"
	"io"
)

// Access is a broker's access control: who may connect, and what they may do.
// Its operations are those of Mosquitto's dynamic security and carry the names
// of its commands. Changes are in force and durable when a method returns nil.
type Access interface {
	GetDefaultACLAccess(ctx context.Context) ([]DefaultACL, error)
	SetDefaultACLAccess(ctx context.Context, acls []DefaultACL) error

	GetClient(ctx context.Context, username string) (Client, error)
	ListClients(ctx context.Context, o ListOptions[Client]) (Page[Client], error)
	CreateClient(ctx context.Context, c ClientSpec) error
	ModifyClient(ctx context.Context, c ClientSpec) error
	DeleteClient(ctx context.Context, username string) error
	EnableClient(ctx context.Context, username string) error
	DisableClient(ctx context.Context, username string) error

	ListGroups(ctx context.Context, o ListOptions[Group]) (Page[Group], error)
	CreateGroup(ctx context.Context, g GroupSpec) error
	ModifyGroup(ctx context.Context, g GroupSpec) error
	DeleteGroup(ctx context.Context, groupname string) error
	// GetAnonymousGroup returns the group whose roles apply to clients without a
	// username, "" if there is none.
	GetAnonymousGroup(ctx context.Context) (groupname string, err error)
	SetAnonymousGroup(ctx context.Context, groupname string) error

	ListRoles(ctx context.Context, o ListOptions[Role]) (Page[Role], error)
	CreateRole(ctx context.Context, r RoleSpec) error
	ModifyRole(ctx context.Context, r RoleSpec) error
	DeleteRole(ctx context.Context, rolename string) error
}

// AccessTransfer imports and exports a whole access-control configuration, as a
// document in the format of Mosquitto's dynamic-security.json (2.0 and 2.1 are read,
// 2.1 is written), password hashes included.
type AccessTransfer interface {
	// ImportAccess imports the document completely or not at all. With replace the
	// broker then has exactly the document; without, the document is merged with the
	// existing configuration, and a contradiction (two passwords, other rules of one
	// role) is an Exists error that lists all of them.
	ImportAccess(ctx context.Context, document io.Reader, replace bool) (ImportReport, error)
	ExportAccess(ctx context.Context) ([]byte, error)
}

// ImportReport counts what was imported. Warnings are sentences about parts of the
// document that the broker does not use.
type ImportReport struct {
	Clients  int      `json:"clients" doc:"Number of clients that were imported." example:"12"`
	Groups   int      `json:"groups" doc:"Number of groups that were imported." example:"3"`
	Roles    int      `json:"roles" doc:"Number of roles that were imported." example:"5"`
	Warnings []string `json:"warnings" doc:"Sentences about parts of the document that this broker does not use." example:"[]"`
}

// DefaultACL is the access to one type of event if no ACL matches. ACLType is
// publishClientSend, publishClientReceive, subscribe or unsubscribe; a full list has
// all four in this order.
type DefaultACL struct {
	ACLType string `json:"acltype" doc:"Type of access: publishClientSend, publishClientReceive, subscribe or unsubscribe." example:"publishClientSend"`
	Allow   bool   `json:"allow" doc:"True if the access is allowed where no ACL of a role matches." example:"false"`
}

// Priority orders roles within a client or group, and groups within a client: the
// highest comes first. NoPriority is the default and is omitted from JSON.
type Priority int

// NoPriority is the default priority of a membership.
const NoPriority Priority = -1

// IsZero makes the JSON tag omitzero omit NoPriority.
func (p Priority) IsZero() bool { return p == NoPriority }

// RoleRef is a role of a client or group.
type RoleRef struct {
	RoleName string   `json:"rolename" doc:"Name of the role." example:"sensors"`
	Priority Priority `json:"priority,omitzero" doc:"Priority of the role among the roles of the client or group, -100000 to 100000; the highest is evaluated first. Absent if it is the default, -1." example:"10"`
}

// GroupRef is a group of a client.
type GroupRef struct {
	GroupName string   `json:"groupname" doc:"Name of the group." example:"plant"`
	Priority  Priority `json:"priority,omitzero" doc:"Priority of the group among the groups of the client, -100000 to 100000; the highest is evaluated first. Absent if it is the default, -1." example:"5"`
}

// MemberRef is a client in a group. Responses omit the priority.
type MemberRef struct {
	Username string   `json:"username" doc:"Username of the client." example:"meter-7"`
	Priority Priority `json:"priority,omitzero" doc:"Priority of the group for this client; responses omit it." example:"-"`
}

// Connection is a live connection of a client.
type Connection struct {
	Address string `json:"address" doc:"IP address of the client." example:"10.0.0.7"`
}

// Client is a client's record. ClientID, if not empty, is the only MQTT client id it
// may use. Texts are nil if they were never set. Roles and Groups are in order of
// evaluation; lists are never nil.
type Client struct {
	Username        string       `json:"username" doc:"Username with which the client authenticates. It identifies the client." example:"meter-7"`
	ClientID        string       `json:"clientid,omitempty" doc:"The only MQTT client id that the client may use. Absent if it may use any." example:"meter-7"`
	TextName        *string      `json:"textname,omitempty" doc:"Display name. Absent if it was never set." example:"Meter 7"`
	TextDescription *string      `json:"textdescription,omitempty" doc:"Description. Absent if it was never set." example:"Power meter in hall 3"`
	Disabled        bool         `json:"disabled" doc:"True if the client is disabled and cannot connect." example:"false"`
	Roles           []RoleRef    `json:"roles" doc:"Roles of the client, in order of evaluation."`
	Groups          []GroupRef   `json:"groups" doc:"Groups of the client, in order of evaluation."`
	Connections     []Connection `json:"connections" doc:"Current connections of the client. A broker that does not report them returns an empty list."`
}

// ClientSpec is the wanted state of a client. On creation nil members are not set; on
// modification they stay unchanged, and a list that is not nil replaces the whole list.
// An empty ClientID clears it.
type ClientSpec struct {
	Username        string
	Password        *Secret
	ClientID        *string
	TextName        *string
	TextDescription *string
	Roles           []RoleRef
	Groups          []GroupRef
}

// Group is a group's record. Clients are ordered by name, Roles in order of evaluation;
// lists are never nil.
type Group struct {
	GroupName       string      `json:"groupname" doc:"Name of the group. It identifies the group." example:"plant"`
	TextName        *string     `json:"textname,omitempty" doc:"Display name. Absent if it was never set." example:"Plant"`
	TextDescription *string     `json:"textdescription,omitempty" doc:"Description. Absent if it was never set." example:"All meters of the plant"`
	Clients         []MemberRef `json:"clients" doc:"Clients in the group, in order of their usernames."`
	Roles           []RoleRef   `json:"roles" doc:"Roles of the group, in order of evaluation."`
}

// GroupSpec is the wanted state of a group; nil as in ClientSpec. Clients is ignored on
// creation.
type GroupSpec struct {
	GroupName       string
	TextName        *string
	TextDescription *string
	Clients         []MemberRef
	Roles           []RoleRef
}

// ACLType is the type of event that an ACL of a role applies to.
type ACLType string

// The ACL types, in the order in which a role's record shows them.
const (
	PublishClientSend    ACLType = "publishClientSend"
	PublishClientReceive ACLType = "publishClientReceive"
	SubscribeLiteral     ACLType = "subscribeLiteral"
	SubscribePattern     ACLType = "subscribePattern"
	UnsubscribeLiteral   ACLType = "unsubscribeLiteral"
	UnsubscribePattern   ACLType = "unsubscribePattern"
)

// ACL is one rule of a role. The default of Priority is 0; a higher one is evaluated
// first.
type ACL struct {
	ACLType  ACLType `json:"acltype" doc:"Type of access: publishClientSend, publishClientReceive, subscribeLiteral, subscribePattern, unsubscribeLiteral or unsubscribePattern." example:"publishClientSend"`
	Topic    string  `json:"topic" doc:"Topic filter that the ACL applies to. In all types but the Literal ones, %c and %u as whole levels stand for the client id and the username." example:"plant/%u/#"`
	Priority int     `json:"priority" doc:"Priority among the ACLs of the role with the same type; the highest is evaluated first." example:"0"`
	Allow    bool    `json:"allow" doc:"True if the ACL allows the access, false if it denies it." example:"true"`
}

// Role is a role's record. ACLs are ordered by type and then by priority;
// the list is never nil.
type Role struct {
	RoleName          string  `json:"rolename" doc:"Name of the role. It identifies the role." example:"sensors"`
	TextName          *string `json:"textname,omitempty" doc:"Display name. Absent if it was never set." example:"Sensors"`
	TextDescription   *string `json:"textdescription,omitempty" doc:"Description. Absent if it was never set." example:"May publish measurements"`
	AllowWildcardSubs bool    `json:"allowwildcardsubs" doc:"False if the role allows no subscription with a wildcard." example:"true"`
	ACLs              []ACL   `json:"acls" doc:"ACLs of the role, ordered by type and then by priority."`
}

// RoleSpec is the wanted state of a role; nil as in ClientSpec.
type RoleSpec struct {
	RoleName          string
	TextName          *string
	TextDescription   *string
	AllowWildcardSubs *bool
	ACLs              []ACL
}
