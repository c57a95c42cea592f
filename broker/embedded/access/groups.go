package access

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// ListGroups returns a page of the groups as they are at this moment.
func (c *Control) ListGroups(ctx context.Context, o broker.ListOptions[broker.Group]) (broker.Page[broker.Group], error) {
	return c.state.Load().ListGroups(ctx, o)
}

// CreateGroup creates a group.
func (c *Control) CreateGroup(ctx context.Context, spec broker.GroupSpec) error {
	return c.runOne(ctx, dynsec.CreateGroup(spec))
}

// ModifyGroup changes the fields that the spec sets and disconnects the members.
func (c *Control) ModifyGroup(ctx context.Context, spec broker.GroupSpec) error {
	return c.runOne(ctx, dynsec.ModifyGroup(spec))
}

// DeleteGroup deletes a group and disconnects its members.
func (c *Control) DeleteGroup(ctx context.Context, groupname string) error {
	return c.runOne(ctx, dynsec.DeleteGroup(groupname))
}

// GetAnonymousGroup returns the group whose roles apply to clients without a username, ""
// if there is none.
func (c *Control) GetAnonymousGroup(context.Context) (string, error) {
	return c.state.Load().AnonymousGroup(), nil
}

// SetAnonymousGroup sets the group whose roles apply to clients without a username. These
// clients are disconnected.
func (c *Control) SetAnonymousGroup(ctx context.Context, groupname string) error {
	return c.runOne(ctx, dynsec.SetAnonymousGroup(groupname))
}
