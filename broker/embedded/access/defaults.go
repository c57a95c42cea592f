package access

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// GetDefaultACLAccess returns the access that applies if no ACL matches.
func (c *Control) GetDefaultACLAccess(context.Context) ([]broker.DefaultACL, error) {
	d := c.state.Load().Defaults()
	return []broker.DefaultACL{
		{ACLType: "publishClientSend", Allow: d.PublishClientSend},
		{ACLType: "publishClientReceive", Allow: d.PublishClientReceive},
		{ACLType: "subscribe", Allow: d.Subscribe},
		{ACLType: "unsubscribe", Allow: d.Unsubscribe},
	}, nil
}

// SetDefaultACLAccess sets the access of the given types. It is in force for connected
// clients at once.
func (c *Control) SetDefaultACLAccess(ctx context.Context, acls []broker.DefaultACL) error {
	return c.runOne(ctx, dynsec.SetDefaultACLAccess(acls))
}
