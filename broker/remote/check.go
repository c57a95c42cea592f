package remote

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// CheckAccess evaluates the broker's dynamic security for a client as Mosquitto 2.1 does. The
// records are fetched one by one, so the result may mix two configurations during a change.
func (b *Broker) CheckAccess(ctx context.Context, q broker.AccessCheck) (broker.Verdict, error) {
	r := recordReader{ask: b.perform}
	if err := r.read(ctx, q.Username); err != nil {
		return broker.Verdict{}, err
	}
	return dynsec.Explain(q, r.Records), nil
}

// recordReader fetches the records that determine the rights of a client.
type recordReader struct {
	dynsec.Records
	ask func(context.Context, dynsec.Command) (dynsec.Response, error)
}

// read fetches the defaults, the record of a client (or the anonymous group if username is
// empty), and everything that it refers to.
func (r *recordReader) read(ctx context.Context, username string) error {
	r.Groups, r.Roles, r.ReservedPrefixes = map[string]broker.Group{}, map[string]broker.Role{}, true
	a, err := r.ask(ctx, dynsec.GetDefaultACLAccess())
	if err != nil {
		return err
	}
	if r.Defaults, err = a.DefaultACLAccess(); err != nil {
		return err
	}
	if username == "" {
		return r.anonymous(ctx)
	}
	return r.client(ctx, username)
}

// client adds a client's record and everything that it refers to.
func (r *recordReader) client(ctx context.Context, username string) error {
	a, err := r.ask(ctx, dynsec.GetClient(username))
	if err != nil {
		return ignoreKind(err, broker.NotFound)
	}
	c, err := a.Client()
	if err != nil {
		return err
	}
	r.Client = &c
	for _, ref := range c.Groups {
		if err := r.group(ctx, ref.GroupName); err != nil {
			return err
		}
	}
	return r.roles(ctx, c.Roles)
}

// anonymous adds the anonymous group.
func (r *recordReader) anonymous(ctx context.Context) error {
	a, err := r.ask(ctx, dynsec.GetAnonymousGroup())
	if err != nil {
		return err
	}
	if r.AnonymousGroup, err = a.AnonymousGroup(); err != nil || r.AnonymousGroup == "" {
		return err
	}
	return r.group(ctx, r.AnonymousGroup)
}

func (r *recordReader) group(ctx context.Context, groupname string) error {
	a, err := r.ask(ctx, dynsec.GetGroup(groupname))
	if err != nil {
		return ignoreKind(err, broker.NotFound)
	}
	g, err := a.Group()
	if err != nil {
		return err
	}
	r.Groups[groupname] = g
	return r.roles(ctx, g.Roles)
}

func (r *recordReader) roles(ctx context.Context, refs []broker.RoleRef) error {
	for _, ref := range refs {
		if _, ok := r.Roles[ref.RoleName]; ok {
			continue
		}
		role, err := r.role(ctx, ref.RoleName)
		switch {
		case err == nil:
			r.Roles[ref.RoleName] = role
		case broker.KindOf(err) != broker.NotFound:
			return err
		}
	}
	return nil
}

func (r *recordReader) role(ctx context.Context, rolename string) (broker.Role, error) {
	a, err := r.ask(ctx, dynsec.GetRole(rolename))
	if err != nil {
		return broker.Role{}, err
	}
	return a.Role()
}

// ignoreKind returns nil for errors of a kind.
func ignoreKind(err error, kind broker.Kind) error {
	if broker.KindOf(err) == kind {
		return nil
	}
	return err
}
