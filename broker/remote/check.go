package remote

import (
	"context"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// CheckAccess evaluates what the broker's dynamic security holds about the
// client, as Mosquitto 2.1 does. It fetches the records one by one, so that an
// answer may mix two configurations if somebody changes them meanwhile.
func (b *Broker) CheckAccess(ctx context.Context, q broker.AccessCheck) (broker.Verdict, error) {
	r := dynsec.Records{Groups: map[string]broker.Group{}, Roles: map[string]broker.Role{}}
	var err error
	if r.Defaults, err = b.GetDefaultACLAccess(ctx); err != nil {
		return broker.Verdict{}, err
	}
	fetch := b.fetchClient
	if q.Username == "" {
		fetch = b.fetchAnonymous
	}
	if err := fetch(ctx, &r, q.Username); err != nil {
		return broker.Verdict{}, err
	}
	return dynsec.Explain(q, r), nil
}

// fetchClient adds a client's record and all that it names.
func (b *Broker) fetchClient(ctx context.Context, r *dynsec.Records, username string) error {
	c, err := b.GetClient(ctx, username)
	if err != nil {
		return unless(err, broker.NotFound)
	}
	r.Client = &c
	for _, ref := range c.Groups {
		if err := b.fetchGroup(ctx, r, ref.GroupName); err != nil {
			return err
		}
	}
	return b.fetchRoles(ctx, r, c.Roles)
}

// fetchAnonymous adds the group of the clients without a username.
func (b *Broker) fetchAnonymous(ctx context.Context, r *dynsec.Records, _ string) error {
	a, err := b.perform(ctx, dynsec.GetAnonymousGroup())
	if err != nil {
		return err
	}
	if r.AnonymousGroup, err = a.AnonymousGroup(); err != nil || r.AnonymousGroup == "" {
		return err
	}
	return b.fetchGroup(ctx, r, r.AnonymousGroup)
}

func (b *Broker) fetchGroup(ctx context.Context, r *dynsec.Records, groupname string) error {
	a, err := b.perform(ctx, dynsec.GetGroup(groupname))
	if err != nil {
		return unless(err, broker.NotFound)
	}
	g, err := a.Group()
	if err != nil {
		return err
	}
	r.Groups[groupname] = g
	return b.fetchRoles(ctx, r, g.Roles)
}

func (b *Broker) fetchRoles(ctx context.Context, r *dynsec.Records, refs []broker.RoleRef) error {
	for _, ref := range refs {
		if _, ok := r.Roles[ref.RoleName]; ok {
			continue
		}
		role, err := b.fetchRole(ctx, ref.RoleName)
		switch {
		case err == nil:
			r.Roles[ref.RoleName] = role
		case broker.KindOf(err) != broker.NotFound:
			return err
		}
	}
	return nil
}

func (b *Broker) fetchRole(ctx context.Context, rolename string) (broker.Role, error) {
	a, err := b.perform(ctx, dynsec.GetRole(rolename))
	if err != nil {
		return broker.Role{}, err
	}
	return a.Role()
}

// unless passes over errors of a kind.
func unless(err error, kind broker.Kind) error {
	if broker.KindOf(err) == kind {
		return nil
	}
	return err
}
