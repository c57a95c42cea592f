package handlers

import (
	"context"
	"errors"
	"strings"

	"signalbox/broker"
)

// RoleMember is a role of a client or group.
type RoleMember struct {
	RoleName string `json:"rolename" required:"true" minlen:"1" doc:"Name of an existing role." example:"sensors"`
	Priority *int   `json:"priority" min:"-100000" max:"100000" doc:"Roles are evaluated in descending order of priority; default -1." example:"10"`
}

// GroupMember is a group of a client.
type GroupMember struct {
	GroupName string `json:"groupname" required:"true" minlen:"1" doc:"Name of an existing group." example:"plant"`
	Priority  *int   `json:"priority" min:"-100000" max:"100000" doc:"Groups are evaluated in descending order of priority; default -1." example:"5"`
}

func priority(p *int) broker.Priority {
	if p == nil {
		return broker.NoPriority
	}
	return broker.Priority(*p)
}

// roleRefs converts a list of roles; an absent one stays nil.
func roleRefs(list Opt[[]RoleMember]) []broker.RoleRef {
	if !list.Set || list.Null {
		return nil
	}
	refs := make([]broker.RoleRef, 0, len(list.Value))
	for _, r := range list.Value {
		refs = append(refs, broker.RoleRef{RoleName: r.RoleName, Priority: priority(r.Priority)})
	}
	return refs
}

func groupRefs(list Opt[[]GroupMember]) []broker.GroupRef {
	if !list.Set || list.Null {
		return nil
	}
	refs := make([]broker.GroupRef, 0, len(list.Value))
	for _, g := range list.Value {
		refs = append(refs, broker.GroupRef{GroupName: g.GroupName, Priority: priority(g.Priority)})
	}
	return refs
}

// Listing is the common query of the lists of access control, without the filter's
// target.
type Listing struct {
	Paging
	Verbose     bool   `query:"verbose" default:"true" doc:"False returns only the names of the entries."`
	FilterValue string `query:"filterValue" doc:"Only entries that match this value; empty returns all."`
	FilterMode  string `query:"filterMode" default:"contains" enum:"contains|equals|startsWith|endsWith|regex" doc:"How filterValue is compared. All modes but equals and regex ignore case. A regular expression (RE2) has at most 1000 bytes and 1000 instructions once compiled, and 5 seconds for the list."`
}

// options compiles the query; compile compiles the filter of the listed type.
func options[T any](l Listing, target string, compile func(target, mode, value string) (broker.Match[T], error)) (broker.ListOptions[T], error) {
	o := broker.ListOptions[T]{Offset: l.Offset, Count: l.Count, NamesOnly: !l.Verbose}
	if l.FilterValue == "" {
		return o, nil
	}
	match, err := compile(target, l.FilterMode, l.FilterValue)
	if err != nil {
		return o, badFilter(err)
	}
	o.Match = func(ctx context.Context, entry T) (bool, error) {
		wanted, err := match(ctx, entry)
		if errors.Is(err, broker.ErrFilterTime) {
			err = badFilter(err)
		}
		return wanted, err
	}
	return o, nil
}

func badFilter(err error) error {
	return Invalid(FieldError{Field: "query.filterValue", Message: err.Error()})
}

// listed converts the page of a list operation.
func listed[T any](page broker.Page[T], verbose bool, name func(T) string) List[T] {
	if verbose {
		return List[T]{page: page}
	}
	return List[T]{page: page, names: name}
}

// ListClientsRequest requests clients, or with Username one of them.
type ListClientsRequest struct {
	BrokerPath
	Listing
	Username     string `query:"username" alone:"true" doc:"Return only this client; the other parameters are then ignored."`
	FilterTarget string `query:"filterTarget" default:"username" enum:"username|clientid|textname|textdescription|rolename|groupname" doc:"Field that filterValue is compared with."`
}

// ListClients lists the clients of a broker, ordered by name.
func (a *API) ListClients(ctx context.Context, r *ListClientsRequest) (List[broker.Client], error) {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return List[broker.Client]{}, err
	}
	if r.Username != "" {
		c, err := b.GetClient(ctx, r.Username)
		return listOf([]broker.Client{c}), err
	}
	o, err := options(r.Listing, r.FilterTarget, broker.ClientFilter)
	if err != nil {
		return List[broker.Client]{}, err
	}
	if r.FilterMode == "contains" && r.FilterTarget == "username" {
		o.NameContains = strings.ToLower(r.FilterValue)
	}
	page, err := b.ListClients(ctx, o)
	return listed(page, r.Verbose, func(c broker.Client) string { return c.Username }), err
}

// ClientBody describes a client. Null leaves a member unchanged.
type ClientBody struct {
	Username        string             `json:"username" required:"true" minlen:"1" doc:"Username of the client. It identifies the client and cannot be changed." example:"meter-7"`
	Password        Opt[broker.Secret] `json:"password" nullable:"true" doc:"Password. Null or absent leaves it unchanged; a client that never had one cannot connect with a password." example:"correct-horse-battery"`
	ClientID        Opt[string]        `json:"clientid" nullable:"true" doc:"The only MQTT client id that the client may use; empty allows any. Null or absent leaves it unchanged." example:"meter-7"`
	TextName        Opt[string]        `json:"textname" nullable:"true" doc:"Display name. Null or absent leaves it unchanged." example:"Meter 7"`
	TextDescription Opt[string]        `json:"textdescription" nullable:"true" doc:"Description. Null or absent leaves it unchanged." example:"Power meter in hall 3"`
	Groups          Opt[[]GroupMember] `json:"groups" nullable:"true" doc:"Groups of the client. A list replaces the whole list; null or absent leaves it unchanged."`
	Roles           Opt[[]RoleMember]  `json:"roles" doc:"Roles of the client. A list replaces the whole list; absent leaves it unchanged."`
}

func (b ClientBody) spec() broker.ClientSpec {
	return broker.ClientSpec{
		Username: b.Username, Password: b.Password.Ptr(), ClientID: b.ClientID.Ptr(),
		TextName: b.TextName.Ptr(), TextDescription: b.TextDescription.Ptr(),
		Roles: roleRefs(b.Roles), Groups: groupRefs(b.Groups),
	}
}

// CreateClientRequest describes a new client.
type CreateClientRequest struct {
	BrokerPath
	Body ClientBody
}

// CreateClient creates a client.
func (a *API) CreateClient(ctx context.Context, r *CreateClientRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.CreateClient(ctx, r.Body.spec())
}

// ModifyClientRequest describes the changes of a client.
type ModifyClientRequest struct {
	BrokerPath
	Body ClientBody
}

// ModifyClient changes the given members of a client; a list replaces the whole list.
// The client is disconnected.
func (a *API) ModifyClient(ctx context.Context, r *ModifyClientRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.ModifyClient(ctx, r.Body.spec())
}

// DeleteClientRequest names a client.
type DeleteClientRequest struct {
	BrokerPath
	Username string `query:"username" required:"true" minlen:"1" doc:"Username of the client."`
}

// DeleteClient deletes a client and disconnects it.
func (a *API) DeleteClient(ctx context.Context, r *DeleteClientRequest) error {
	if err := r.protectOwn(r.Username); err != nil {
		return err
	}
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	return b.DeleteClient(ctx, r.Username)
}

// EnableClientRequest enables or disables a client.
type EnableClientRequest struct {
	BrokerPath
	Body struct {
		Username string `json:"username" required:"true" minlen:"1" doc:"Username of the client." example:"meter-7"`
		Enable   bool   `json:"enable" required:"true" doc:"True enables the client, false disables it." example:"true"`
	}
}

// EnableClient enables a client, or disables and disconnects it.
func (a *API) EnableClient(ctx context.Context, r *EnableClientRequest) error {
	b, err := a.live(&r.BrokerPath)
	if err != nil {
		return err
	}
	if r.Body.Enable {
		return b.EnableClient(ctx, r.Body.Username)
	}
	if err := r.protectOwn(r.Body.Username); err != nil {
		return err
	}
	return b.DisableClient(ctx, r.Body.Username)
}

// protectOwn refuses to disable or delete the client as which the service manages the
// broker.
func (p *BrokerPath) protectOwn(username string) error {
	if p.row.Type == typeSelfHosted && p.row.Username == username {
		return conflict("this is the client as which signalbox manages the broker; give the connection another username first")
	}
	return nil
}
