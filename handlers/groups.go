package handlers

import (
	"context"

	"signalbox/broker"
)

// ListGroupsRequest asks for groups.
type ListGroupsRequest struct {
	BrokerPath
	Listing
	FilterTarget string `query:"filterTarget" default:"groupname" enum:"groupname|textname|textdescription|username|rolename" doc:"Field that filterValue is compared with."`
}

// ListGroups lists the groups of a broker, ordered by name.
func (a *API) ListGroups(ctx context.Context, r *ListGroupsRequest) (List[broker.Group], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.Group]{}, err
	}
	o, err := options(r.Listing, r.FilterTarget, broker.GroupFilter)
	if err != nil {
		return List[broker.Group]{}, err
	}
	page, err := b.ListGroups(ctx, o)
	return listed(page, r.Verbose, func(g broker.Group) string { return g.GroupName }), err
}

// CreateGroupRequest asks for a new group.
type CreateGroupRequest struct {
	BrokerPath
	Body struct {
		GroupName       string            `json:"groupname" required:"true" minlen:"1" doc:"Name of the group. It identifies the group and cannot be changed." example:"plant"`
		TextName        Opt[string]       `json:"textname" nullable:"true" doc:"Display name; default none." example:"Plant"`
		TextDescription Opt[string]       `json:"textdescription" nullable:"true" doc:"Description; default none." example:"All meters of the plant"`
		Roles           Opt[[]RoleMember] `json:"roles" nullable:"true" doc:"Roles of the group; default none."`
	}
}

// CreateGroup creates a group.
func (a *API) CreateGroup(ctx context.Context, r *CreateGroupRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.CreateGroup(ctx, broker.GroupSpec{
		GroupName: r.Body.GroupName, TextName: r.Body.TextName.Ptr(),
		TextDescription: r.Body.TextDescription.Ptr(), Roles: roleRefs(r.Body.Roles),
	})
}

// ClientMember is a client in a group.
type ClientMember struct {
	Username string `json:"username" required:"true" minlen:"1" doc:"Username of an existing client." example:"meter-7"`
	Priority *int   `json:"priority" min:"-100000" max:"100000" doc:"Priority of the group for this client; default -1." example:"5"`
}

// ModifyGroupRequest asks for a change of a group.
type ModifyGroupRequest struct {
	BrokerPath
	Body struct {
		GroupName       string              `json:"groupname" required:"true" minlen:"1" doc:"Name of the group." example:"plant"`
		TextName        Opt[string]         `json:"textname" nullable:"true" doc:"Display name. Null or absent leaves it unchanged." example:"Plant"`
		TextDescription Opt[string]         `json:"textdescription" nullable:"true" doc:"Description. Null or absent leaves it unchanged." example:"All meters of the plant"`
		Clients         Opt[[]ClientMember] `json:"clients" nullable:"true" doc:"Clients in the group. A list replaces the whole list; null or absent leaves it unchanged."`
		Roles           Opt[[]RoleMember]   `json:"roles" nullable:"true" doc:"Roles of the group. A list replaces the whole list; null or absent leaves it unchanged."`
	}
}

// ModifyGroup changes the given members of a group; a list replaces the whole list. Old
// and new members are disconnected.
func (a *API) ModifyGroup(ctx context.Context, r *ModifyGroupRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	spec := broker.GroupSpec{
		GroupName: r.Body.GroupName, TextName: r.Body.TextName.Ptr(),
		TextDescription: r.Body.TextDescription.Ptr(), Roles: roleRefs(r.Body.Roles),
	}
	if members := r.Body.Clients.Ptr(); members != nil {
		spec.Clients = make([]broker.MemberRef, 0, len(*members))
		for _, m := range *members {
			spec.Clients = append(spec.Clients, broker.MemberRef{Username: m.Username, Priority: priority(m.Priority)})
		}
	}
	return b.ModifyGroup(ctx, spec)
}

// GetAnonymousGroupRequest names a broker.
type GetAnonymousGroupRequest struct{ BrokerPath }

// AnonymousGroup is the group of the clients without a username.
type AnonymousGroup struct {
	GroupName string `json:"groupname" doc:"Name of the group whose roles apply to clients without a username; empty if there is none." example:"visitors"`
}

// GetAnonymousGroup returns the group of the clients without a username.
func (a *API) GetAnonymousGroup(ctx context.Context, r *GetAnonymousGroupRequest) (AnonymousGroup, error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return AnonymousGroup{}, err
	}
	name, err := b.GetAnonymousGroup(ctx)
	return AnonymousGroup{GroupName: name}, err
}

// SetAnonymousGroupRequest names the new group of the clients without a username.
type SetAnonymousGroupRequest struct {
	BrokerPath
	Body struct {
		GroupName string `json:"groupname" required:"true" minlen:"1" doc:"Name of an existing group, whose roles apply to clients without a username." example:"visitors"`
	}
}

// SetAnonymousGroup sets the group of the clients without a username, and disconnects
// these clients.
func (a *API) SetAnonymousGroup(ctx context.Context, r *SetAnonymousGroupRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.SetAnonymousGroup(ctx, r.Body.GroupName)
}

// DeleteGroupRequest names a group.
type DeleteGroupRequest struct {
	BrokerPath
	GroupName string `query:"groupname" required:"true" minlen:"1" doc:"Name of the group."`
}

// DeleteGroup deletes a group and disconnects its members.
func (a *API) DeleteGroup(ctx context.Context, r *DeleteGroupRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.DeleteGroup(ctx, r.GroupName)
}
