package handlers

import (
	"context"
	"fmt"

	"signalbox/broker"
)

// ListRolesRequest asks for roles.
type ListRolesRequest struct {
	BrokerPath
	Listing
	FilterTarget string `query:"filterTarget" default:"rolename" enum:"rolename|textname|textdescription|topic|acltype" doc:"Field that filterValue is compared with."`
}

// ListRoles lists the roles of a broker, ordered by name.
func (a *API) ListRoles(ctx context.Context, r *ListRolesRequest) (List[broker.Role], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.Role]{}, err
	}
	o, err := options(r.Listing, r.FilterTarget, broker.RoleFilter)
	if err != nil {
		return List[broker.Role]{}, err
	}
	page, err := b.ListRoles(ctx, o)
	return listed(page, r.Verbose, func(r broker.Role) string { return r.RoleName }), err
}

// ACLBody is one rule of a role.
type ACLBody struct {
	ACLType  string `json:"acltype" required:"true" enum:"publishClientSend|publishClientReceive|subscribeLiteral|subscribePattern|unsubscribeLiteral|unsubscribePattern" doc:"Type of access. The Literal types match a subscription with exactly this topic filter, the Pattern types any subscription that the filter covers." example:"publishClientSend"`
	Topic    string `json:"topic" required:"true" minlen:"1" doc:"Topic filter. In all types but the Literal ones, %c and %u as whole levels stand for the client id and the username." example:"plant/%u/#"`
	Priority int    `json:"priority" required:"true" min:"-100000" max:"100000" doc:"ACLs of a type are evaluated in descending order of priority." example:"0"`
	Allow    bool   `json:"allow" required:"true" doc:"True allows the access, false denies it." example:"true"`
}

// RoleBody describes a role. Null leaves a member unchanged.
type RoleBody struct {
	RoleName          string         `json:"rolename" required:"true" minlen:"1" doc:"Name of the role. It identifies the role and cannot be changed." example:"sensors"`
	TextName          Opt[string]    `json:"textname" nullable:"true" doc:"Display name. Null or absent leaves it unchanged." example:"Sensors"`
	TextDescription   Opt[string]    `json:"textdescription" nullable:"true" doc:"Description. Null or absent leaves it unchanged." example:"May publish measurements"`
	AllowWildcardSubs Opt[bool]      `json:"allowwildcardsubs" nullable:"true" doc:"False allows no subscription with a wildcard. Default true; null or absent leaves it unchanged." example:"true"`
	ACLs              Opt[[]ACLBody] `json:"acls" nullable:"true" doc:"ACLs of the role, at most one for each type and topic. A list replaces the whole list; null or absent leaves it unchanged."`
}

// validate refuses rules that no topic could match, and duplicates.
func (b RoleBody) validate() []FieldError {
	var bad []FieldError
	seen := map[[2]string]int{}
	for i, acl := range b.ACLs.Value {
		field := fmt.Sprintf("body.acls[%d].topic", i)
		if acl.Topic != "" && !broker.ValidFilter(acl.Topic) {
			bad = append(bad, FieldError{field, "is not a topic filter: # may only be the last level, + and # must fill a level"})
		}
		key := [2]string{acl.ACLType, acl.Topic}
		if first, ok := seen[key]; ok {
			bad = append(bad, FieldError{field, fmt.Sprintf("repeats acls[%d]: a role holds one ACL per acltype and topic", first)})
			continue
		}
		seen[key] = i
	}
	return bad
}

func (b RoleBody) spec() broker.RoleSpec {
	spec := broker.RoleSpec{
		RoleName: b.RoleName, TextName: b.TextName.Ptr(), TextDescription: b.TextDescription.Ptr(),
		AllowWildcardSubs: b.AllowWildcardSubs.Ptr(),
	}
	if acls := b.ACLs.Ptr(); acls != nil {
		spec.ACLs = make([]broker.ACL, 0, len(*acls))
		for _, acl := range *acls {
			spec.ACLs = append(spec.ACLs, broker.ACL{ACLType: broker.ACLType(acl.ACLType),
				Topic: acl.Topic, Priority: acl.Priority, Allow: acl.Allow})
		}
	}
	return spec
}

// CreateRoleRequest asks for a new role.
type CreateRoleRequest struct {
	BrokerPath
	Body RoleBody
}

// Validate checks the rules.
func (r *CreateRoleRequest) Validate() []FieldError { return r.Body.validate() }

// CreateRole creates a role.
func (a *API) CreateRole(ctx context.Context, r *CreateRoleRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.CreateRole(ctx, r.Body.spec())
}

// ModifyRoleRequest asks for a change of a role.
type ModifyRoleRequest struct {
	BrokerPath
	Body RoleBody
}

// Validate checks the rules.
func (r *ModifyRoleRequest) Validate() []FieldError { return r.Body.validate() }

// ModifyRole changes the given members of a role; acls replace all rules, and clients
// with the role are disconnected.
func (a *API) ModifyRole(ctx context.Context, r *ModifyRoleRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.ModifyRole(ctx, r.Body.spec())
}

// DeleteRoleRequest names a role.
type DeleteRoleRequest struct {
	BrokerPath
	RoleName string `query:"rolename" required:"true" minlen:"1" doc:"Name of the role."`
}

// DeleteRole deletes a role and removes it from clients and groups.
func (a *API) DeleteRole(ctx context.Context, r *DeleteRoleRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.DeleteRole(ctx, r.RoleName)
}
