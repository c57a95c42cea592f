package dynsec

import "signalbox/broker"

// Document is a whole access-control configuration as it stands in a file. One
// that a parser of this package gave is sound: names are there and unique, and
// what refers to a role, client or group refers to one in the document; records
// are in order of their names, memberships in order of evaluation.
type Document struct {
	ChangeIndex    int64
	Defaults       *Defaults // nil: the file says nothing about them
	Clients        []DocumentClient
	Groups         []broker.Group // Clients hold the priorities of the groups
	AnonymousGroup string         // "" for none
	Roles          []broker.Role
}

// DocumentClient is a client's record in a file. Its groups are in the records
// of the groups.
type DocumentClient struct {
	Username        string
	ClientID        string // the only MQTT client id it may use; "" for any
	TextName        *string
	TextDescription *string
	Disabled        bool
	Roles           []broker.RoleRef
	EncodedPassword string // a hash that [VerifyPassword] takes; "" for none
}
