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

// ListRoles lists the roles of a broker, in order of their names.
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
	ACLType  string `json:"acltype" required:"true" enum:"publishClientSend|publishClientReceive|subscribeLiteral|subscribePattern|unsubscribeLiteral|unsubscribePattern"`
	Topic    string `json:"topic" required:"true" minlen:"1" doc:"Topic filter; %c and %u as whole levels stand for the client id and the username, but not in the Literal types."`
	Priority int    `json:"priority" required:"true" min:"-100000" max:"100000"`
	Allow    bool   `json:"allow" required:"true"`
}

// RoleBody describes a role. Null leaves a member as it is.
type RoleBody struct {
	RoleName          string         `json:"rolename" required:"true" minlen:"1"`
	TextName          Opt[string]    `json:"textname" nullable:"true"`
	TextDescription   Opt[string]    `json:"textdescription" nullable:"true"`
	AllowWildcardSubs Opt[bool]      `json:"allowwildcardsubs" nullable:"true"`
	ACLs              Opt[[]ACLBody] `json:"acls" nullable:"true"`
}

// validate refuses rules that no topic could match, and the same rule twice.
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

// Validate looks at the rules.
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

// Validate looks at the rules.
func (r *ModifyRoleRequest) Validate() []FieldError { return r.Body.validate() }

// ModifyRole changes what is given of a role; acls given replace all rules,
// and whoever has the role is cut off.
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
	RoleName string `query:"rolename" required:"true" minlen:"1"`
}

// DeleteRole deletes a role and takes it from whoever has it.
func (a *API) DeleteRole(ctx context.Context, r *DeleteRoleRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.DeleteRole(ctx, r.RoleName)
}
