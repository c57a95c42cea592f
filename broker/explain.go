package broker

import "context"

// AccessChecker explains what a client may do.
type AccessChecker interface {
	CheckAccess(ctx context.Context, q AccessCheck) (Verdict, error)
}

// AccessCheck asks whether a client may do something. An empty Username stands
// for the clients without one. ClientID is what %c stands for; empty, it is the
// one that the client is bound to. Topic is a filter, $share/name/ included,
// where the action is about subscriptions.
type AccessCheck struct {
	Username string
	ClientID string
	Action   Action
	Topic    string
}

// Action is what a client does, or what is done for it.
type Action string

// The actions.
const (
	ActionPublish     Action = "publish"
	ActionReceive     Action = "receive"
	ActionSubscribe   Action = "subscribe"
	ActionUnsubscribe Action = "unsubscribe"
	ActionConnect     Action = "connect" // in denials only
)

// DecidedBy is what a verdict rests on.
type DecidedBy string

// What verdicts rest on. All but the first two and DecidedByDefault deny.
const (
	DecidedByACL       DecidedBy = "role"           // an ACL of a role
	DecidedByDefault   DecidedBy = "default"        // no ACL matches
	DecidedByWildcards DecidedBy = "wildcards"      // a role that allows no subscription with a wildcard
	DecidedByControl   DecidedBy = "control"        // no ACL matches, and no default opens $CONTROL
	DecidedBySystem    DecidedBy = "system"         // clients publish neither to $SYS nor to $share
	DecidedByUnknown   DecidedBy = "unknown-client" // there is no such client
	DecidedByDisabled  DecidedBy = "disabled"       // the client is disabled and cannot connect
	DecidedByClientID  DecidedBy = "client-id"      // the client is bound to another client id
	DecidedByTopic     DecidedBy = "invalid-topic"  // what was asked about is no topic, or no filter
)

// Via is how a client came to a role.
type Via string

// The ways to a role.
const (
	ViaClient    Via = "client"
	ViaGroup     Via = "group"
	ViaAnonymous Via = "anonymous" // the group of clients without a username
)

// Verdict is the answer to an AccessCheck. Reason is a sentence. ACLType is the
// kind of access that was asked for, by the names of the defaults. ACL is set
// where one decided; the role and how the client has it are set where a role
// did. Priorities are those of the role in the client or group, and of the
// group in the client.
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
