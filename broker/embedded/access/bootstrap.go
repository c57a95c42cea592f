package access

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// adminRole is the role of the client that Bootstrap creates.
const adminRole = "admin"

// Bootstrap initialises a broker without any configuration: one client with the password,
// and its role with every right on $CONTROL/#, $SYS/# and #. Default access is Mosquitto's,
// and there is no anonymous group. On a broker that was initialised before it changes
// nothing and returns Exists.
func (c *Control) Bootstrap(ctx context.Context, adminUsername string, adminPassword broker.Secret) error {
	const op = "bootstrap"
	if adminPassword == "" {
		return &broker.Error{Kind: broker.Invalid, Op: op, Msg: "the administrator's password must not be empty"}
	}
	commands := []dynsec.Command{
		dynsec.CreateRole(broker.RoleSpec{RoleName: adminRole, ACLs: adminACLs()}),
		dynsec.CreateClient(broker.ClientSpec{
			Username: adminUsername, Password: &adminPassword,
			Roles: []broker.RoleRef{{RoleName: adminRole, Priority: broker.NoPriority}},
		}),
	}
	if err := c.hashPasswords(ctx, commands); err != nil {
		return withOp(err, op)
	}
	_, err := c.change(ctx, &request{onlyFirst: true, apply: func(tx *dynsec.Tx) error {
		for _, command := range commands {
			if err := tx.Do(command, nil).Err(); err != nil {
				return err
			}
		}
		return nil
	}})
	return withOp(err, op)
}

func adminACLs() []broker.ACL {
	var acls []broker.ACL
	for _, t := range []broker.ACLType{
		broker.PublishClientSend, broker.PublishClientReceive, broker.SubscribePattern, broker.UnsubscribePattern,
	} {
		for _, topic := range []string{"$CONTROL/#", "$SYS/#", "#"} {
			acls = append(acls, broker.ACL{ACLType: t, Topic: topic, Allow: true})
		}
	}
	return acls
}
