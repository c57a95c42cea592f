package remote

import (
	"context"
	"io"
	"slices"

	"signalbox/broker"
	"signalbox/broker/dynsec"
	"signalbox/broker/pages"
)

// perform sends a command of dynamic security and returns its response. Each command has a
// message of its own, so that an error concerns that command only.
func (b *Broker) perform(ctx context.Context, c dynsec.Command) (dynsec.Response, error) {
	if err := c.Check(); err != nil {
		return dynsec.Response{}, err
	}
	payload, correlation, err := b.do(ctx, dynsecRequest(c))
	if err != nil {
		return dynsec.Response{}, err
	}
	response, err := decodeDynsec(c.Name(), payload, correlation)
	return response, b.figures.countResponse(err)
}

// performOn is perform on a given session.
func (b *Broker) performOn(ctx context.Context, s *session, c dynsec.Command) (dynsec.Response, error) {
	payload, correlation, err := b.exchange(ctx, s, dynsecRequest(c))
	if err != nil {
		return dynsec.Response{}, err
	}
	response, err := decodeDynsec(c.Name(), payload, correlation)
	return response, b.figures.countResponse(err)
}

func dynsecRequest(c dynsec.Command) request {
	return request{
		op: c.Name(), object: c.Object(), topic: dynsec.Topic, feature: broker.CapDynamicSecurity,
		encode: func(correlation string) []byte {
			return dynsec.EncodeRequest([]dynsec.Command{c.WithCorrelation(correlation)})
		},
	}
}

// decodeDynsec returns the response with the correlation data.
func decodeDynsec(op string, payload []byte, correlation string) (dynsec.Response, error) {
	answers, err := dynsec.DecodeResponses(payload)
	i := slices.IndexFunc(answers, func(a dynsec.Response) bool {
		return a.CorrelationData != nil && *a.CorrelationData == correlation
	})
	if i < 0 {
		return dynsec.Response{}, invalidResponse(op, err)
	}
	return answers[i], answers[i].Err()
}

// change is perform for commands whose responses have no data.
func (b *Broker) change(ctx context.Context, c dynsec.Command) error {
	_, err := b.perform(ctx, c)
	return err
}

// GetDefaultACLAccess returns all four defaults.
func (b *Broker) GetDefaultACLAccess(ctx context.Context) ([]broker.DefaultACL, error) {
	a, err := b.perform(ctx, dynsec.GetDefaultACLAccess())
	if err != nil {
		return nil, err
	}
	return a.DefaultACLAccess()
}

// SetDefaultACLAccess changes the given defaults.
func (b *Broker) SetDefaultACLAccess(ctx context.Context, acls []broker.DefaultACL) error {
	return b.change(ctx, dynsec.SetDefaultACLAccess(acls))
}

// GetClient returns a client. Mosquitto 2.0 does not include its connections.
func (b *Broker) GetClient(ctx context.Context, username string) (broker.Client, error) {
	a, err := b.perform(ctx, dynsec.GetClient(username))
	if err != nil {
		return broker.Client{}, err
	}
	return a.Client()
}

// ListClients returns a page of the clients, fetched while it is read.
func (b *Broker) ListClients(ctx context.Context, o broker.ListOptions[broker.Client]) (broker.Page[broker.Client], error) {
	return pages.List(ctx, pages.Source[broker.Client]{
		Name: func(c broker.Client) string { return c.Username },
		Fetch: func(ctx context.Context, verbose bool, count, offset int) (int, []broker.Client, error) {
			a, err := b.perform(ctx, dynsec.ListClients(verbose, count, offset))
			if err != nil {
				return 0, nil, err
			}
			return a.Clients()
		},
	}, o)
}

// CreateClient creates a client.
func (b *Broker) CreateClient(ctx context.Context, c broker.ClientSpec) error {
	return b.changeWith(ctx, dynsec.CreateClient(c), references{groups: c.Groups, roles: c.Roles})
}

// ModifyClient changes the members of the specification that are set. The broker disconnects
// the client.
func (b *Broker) ModifyClient(ctx context.Context, c broker.ClientSpec) error {
	return b.changeWith(ctx, dynsec.ModifyClient(c), references{groups: c.Groups, roles: c.Roles})
}

// DeleteClient deletes a client.
func (b *Broker) DeleteClient(ctx context.Context, username string) error {
	return b.change(ctx, dynsec.DeleteClient(username))
}

// EnableClient enables a disabled client.
func (b *Broker) EnableClient(ctx context.Context, username string) error {
	return b.change(ctx, dynsec.EnableClient(username))
}

// DisableClient disables a client, which the broker disconnects.
func (b *Broker) DisableClient(ctx context.Context, username string) error {
	return b.change(ctx, dynsec.DisableClient(username))
}

// ListGroups returns a page of the groups, fetched while it is read.
func (b *Broker) ListGroups(ctx context.Context, o broker.ListOptions[broker.Group]) (broker.Page[broker.Group], error) {
	return pages.List(ctx, pages.Source[broker.Group]{
		Name: func(g broker.Group) string { return g.GroupName },
		Fetch: func(ctx context.Context, verbose bool, count, offset int) (int, []broker.Group, error) {
			a, err := b.perform(ctx, dynsec.ListGroups(verbose, count, offset))
			if err != nil {
				return 0, nil, err
			}
			return a.Groups()
		},
	}, o)
}

// CreateGroup creates a group.
func (b *Broker) CreateGroup(ctx context.Context, g broker.GroupSpec) error {
	return b.changeWith(ctx, dynsec.CreateGroup(g), references{roles: g.Roles})
}

// ModifyGroup changes the members of the specification that are set.
func (b *Broker) ModifyGroup(ctx context.Context, g broker.GroupSpec) error {
	return b.changeWith(ctx, dynsec.ModifyGroup(g), references{clients: g.Clients, roles: g.Roles})
}

// DeleteGroup deletes a group.
func (b *Broker) DeleteGroup(ctx context.Context, groupname string) error {
	return b.change(ctx, dynsec.DeleteGroup(groupname))
}

// GetAnonymousGroup returns the group of the clients without a username, "" for none.
func (b *Broker) GetAnonymousGroup(ctx context.Context) (string, error) {
	a, err := b.perform(ctx, dynsec.GetAnonymousGroup())
	if err != nil {
		return "", err
	}
	return a.AnonymousGroup()
}

// SetAnonymousGroup sets the group of the clients without a username.
func (b *Broker) SetAnonymousGroup(ctx context.Context, groupname string) error {
	return b.change(ctx, dynsec.SetAnonymousGroup(groupname))
}

// ListRoles returns a page of the roles, fetched while it is read.
func (b *Broker) ListRoles(ctx context.Context, o broker.ListOptions[broker.Role]) (broker.Page[broker.Role], error) {
	return pages.List(ctx, pages.Source[broker.Role]{
		Name: func(r broker.Role) string { return r.RoleName },
		Fetch: func(ctx context.Context, verbose bool, count, offset int) (int, []broker.Role, error) {
			a, err := b.perform(ctx, dynsec.ListRoles(verbose, count, offset))
			if err != nil {
				return 0, nil, err
			}
			return a.Roles()
		},
	}, o)
}

// CreateRole creates a role.
func (b *Broker) CreateRole(ctx context.Context, r broker.RoleSpec) error {
	c := dynsec.CreateRole(r)
	if err := b.checkWildcardSupport(ctx, c.Name(), r.AllowWildcardSubs); err != nil {
		return err
	}
	return b.change(ctx, c)
}

// ModifyRole changes the members of the specification that are set.
func (b *Broker) ModifyRole(ctx context.Context, r broker.RoleSpec) error {
	c := dynsec.ModifyRole(r)
	if err := b.checkWildcardSupport(ctx, c.Name(), r.AllowWildcardSubs); err != nil {
		return err
	}
	return b.change(ctx, c)
}

// DeleteRole removes a role from its holders and deletes it.
func (b *Broker) DeleteRole(ctx context.Context, rolename string) error {
	c := dynsec.DeleteRole(rolename)
	if err := c.Check(); err != nil {
		return err
	}
	if !b.isSignalbox() {
		if err := b.removeRoleFromHolders(ctx, c.Name(), rolename); err != nil {
			return err
		}
	}
	return b.change(ctx, c)
}

// ImportAccess is Unsupported: no command sets password hashes.
func (b *Broker) ImportAccess(context.Context, io.Reader, bool) (broker.ImportReport, error) {
	return broker.ImportReport{}, noTransfer("importAccess", "a remote broker takes no password hashes in")
}

// ExportAccess is Unsupported: no command returns password hashes.
func (b *Broker) ExportAccess(context.Context) ([]byte, error) {
	return nil, noTransfer("exportAccess", "a remote broker does not hand out its password hashes")
}

func noTransfer(op, why string) error {
	return &broker.Error{Kind: broker.Unsupported, Op: op, Feature: broker.CapDynamicSecurity,
		Msg: why + ": use its dynamic-security.json"}
}
