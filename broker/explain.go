package broker

import "context"

// AccessChecker explains what a client may do.
type AccessChecker interface {
	CheckAccess(ctx context.Context, q AccessCheck) (Verdict, error)
}

// AccessCheck describes the access to check. An empty Username stands for the clients
// without one. ClientID is the value of %c; if empty, it is the one that the client is
// bound to. Topic is a filter, with $share/name/ if shared, if the action is about
// subscriptions.
type AccessCheck struct {
	Username string
	ClientID string
	Action   Action
	Topic    string
}

// Action is an action by or for a client.
type Action string

// The actions.
const (
	ActionPublish     Action = "publish"
	ActionReceive     Action = "receive"
	ActionSubscribe   Action = "subscribe"
	ActionUnsubscribe Action = "unsubscribe"
	ActionConnect     Action = "connect" // in denials only
)

// DecidedBy is the reason of a verdict.
type DecidedBy string

// The reasons of verdicts. All but the first two and DecidedByDefault deny.
const (
	DecidedByACL       DecidedBy = "role"           // an ACL of a role
	DecidedByDefault   DecidedBy = "default"        // no ACL matches
	DecidedByWildcards DecidedBy = "wildcards"      // a role that allows no subscription with a wildcard
	DecidedByControl   DecidedBy = "control"        // no ACL matches, and no default applies to $CONTROL
	DecidedBySystem    DecidedBy = "system"         // no client may publish to $SYS or $share
	DecidedByUnknown   DecidedBy = "unknown-client" // there is no such client
	DecidedByDisabled  DecidedBy = "disabled"       // the client is disabled and cannot connect
	DecidedByClientID  DecidedBy = "client-id"      // the client is bound to another client id
	DecidedByTopic     DecidedBy = "invalid-topic"  // the given text is not a topic, or not a filter
)

// Via is how a client has a role.
type Via string

// The ways to have a role.
const (
	ViaClient    Via = "client"
	ViaGroup     Via = "group"
	ViaAnonymous Via = "anonymous" // the group of clients without a username
)

// Verdict is the result of an AccessCheck. Reason is a sentence. ACLType is the type of
// the checked access, by the names of the defaults. ACL is set if one decided; the role
// and how the client has it are set if a role did. Priorities are those of the role in
// the client or group, and of the group in the client.
type Verdict struct {
	Allowed       bool      `json:"allowed" doc:"True if the client may do it." example:"true"`
	ACLType       string    `json:"acltype" doc:"Type of access that was checked: publishClientSend, publishClientReceive, subscribe or unsubscribe." example:"publishClientSend"`
	Reason        string    `json:"reason" doc:"The decision and its cause, as a sentence." example:"the ACL publishClientSend \"plant/%u/#\" of the role \"sensors\", held through the group \"plant\", allows it"`
	Source        DecidedBy `json:"source" doc:"What decided: role (an ACL), default, wildcards (a role without wildcard subscriptions), control (no default opens $CONTROL), system ($SYS and $share are closed), unknown-client, disabled, client-id (bound to another one) or invalid-topic." example:"role"`
	ACL           *ACL      `json:"acl,omitempty" doc:"The ACL that decided; absent if none did."`
	RoleName      string    `json:"rolename,omitempty" doc:"Role that decided; absent if none did." example:"sensors"`
	RolePriority  *Priority `json:"rolepriority,omitempty" doc:"Priority of the role in the client or group; absent if no role decided." example:"10"`
	Via           Via       `json:"via,omitempty" doc:"How the client has the role: client, group, or anonymous (the group of clients without a username)." example:"group"`
	GroupName     string    `json:"groupname,omitempty" doc:"Group through which the client has the role; absent if it has the role itself." example:"plant"`
	GroupPriority *Priority `json:"grouppriority,omitempty" doc:"Priority of the group for the client; absent if no group is involved." example:"5"`
}
