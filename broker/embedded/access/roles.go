package access

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// ListRoles returns a page of the roles as they are at this moment.
func (c *Control) ListRoles(ctx context.Context, o broker.ListOptions[broker.Role]) (broker.Page[broker.Role], error) {
	return c.state.Load().ListRoles(ctx, o)
}

// CreateRole creates a role.
func (c *Control) CreateRole(ctx context.Context, spec broker.RoleSpec) error {
	return c.runOne(ctx, dynsec.CreateRole(spec))
}

// ModifyRole changes the fields that the spec sets and disconnects the holders if that
// changes their rights.
func (c *Control) ModifyRole(ctx context.Context, spec broker.RoleSpec) error {
	return c.runOne(ctx, dynsec.ModifyRole(spec))
}

// DeleteRole deletes a role and disconnects its holders.
func (c *Control) DeleteRole(ctx context.Context, rolename string) error {
	return c.runOne(ctx, dynsec.DeleteRole(rolename))
}
