package remote

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// This file makes up for what Mosquitto does not check, or does not survive, in
// commands of dynamic security. Another signalbox does it itself.

func (b *Broker) isSignalbox() bool { return strings.HasPrefix(b.sys.version(), "signalbox") }

// mentioned are the names to which a change refers.
type mentioned struct {
	clients []broker.MemberRef
	groups  []broker.GroupRef
	roles   []broker.RoleRef
}

// changeWith is change for a command that refers to others. Mosquitto 2.0 passes
// over those that do not exist, or does half of what it is asked.
func (b *Broker) changeWith(ctx context.Context, c dynsec.Command, m mentioned) error {
	if err := c.Check(); err != nil {
		return err
	}
	if b.isSignalbox() {
		return b.change(ctx, c)
	}
	op := c.Name()
	if err := exist(ctx, b, op, "Client not found", namesOf(m.clients, func(r broker.MemberRef) string { return r.Username }), dynsec.GetClient, b.ListClients, func(c broker.Client) string { return c.Username }); err != nil {
		return err
	}
	if err := exist(ctx, b, op, "Group not found", namesOf(m.groups, func(r broker.GroupRef) string { return r.GroupName }), dynsec.GetGroup, b.ListGroups, func(g broker.Group) string { return g.GroupName }); err != nil {
		return err
	}
	if err := exist(ctx, b, op, "Role not found", namesOf(m.roles, func(r broker.RoleRef) string { return r.RoleName }), dynsec.GetRole, b.ListRoles, func(r broker.Role) string { return r.RoleName }); err != nil {
		return err
	}
	return b.change(ctx, c)
}

func namesOf[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = name(v)
	}
	return names
}

// fewNames is up to how many names are asked for one by one.
const fewNames = 16

// exist checks that all names exist: one by one, or, where they are many, in a list.
func exist[T any](ctx context.Context, b *Broker, op, missing string, names []string, get func(string) dynsec.Command,
	list func(context.Context, broker.ListOptions[T]) (broker.Page[T], error), name func(T) string) error {
	notFound := &broker.Error{Kind: broker.NotFound, Op: op, Msg: missing}
	if len(names) <= fewNames {
		for _, n := range names {
			if _, err := b.perform(ctx, get(n)); broker.KindOf(err) == broker.NotFound && err != nil {
				return notFound
			} else if err != nil {
				return err
			}
		}
		return nil
	}
	page, err := list(ctx, broker.ListOptions[T]{Count: -1, NamesOnly: true})
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for item, err := range page.Items {
		if err != nil {
			return err
		}
		there[name(item)] = true
	}
	if slices.ContainsFunc(names, func(n string) bool { return !there[n] }) {
		return notFound
	}
	return nil
}

// keepsWildcards refuses what a broker would drop: a role that allows no
// subscription with a wildcard. Mosquitto knows that from version 2.1 on, and then
// all its roles have the member.
func (b *Broker) keepsWildcards(ctx context.Context, op string, allow *bool) error {
	if allow == nil || *allow {
		return nil
	}
	payload, _, err := b.do(ctx, dynsecRequest(dynsec.ListRoles(true, 1, 0)))
	if err != nil {
		return err
	}
	if bytes.Contains(payload, []byte(`"allowwildcardsubs":`)) {
		return nil
	}
	return &broker.Error{Kind: broker.Unsupported, Op: op, Feature: broker.CapDynamicSecurity,
		Msg: "allowwildcardsubs: this broker cannot forbid subscriptions with wildcards by role, as Mosquitto can from version 2.1 on: leave the member out, and allow subscribeLiteral rather than subscribePattern"}
}

// takeRole takes a role from all who hold it, before it is deleted: Mosquitto 2.0
// dies when one is deleted that is held. The role of this service's own user stays,
// for with it this service would lose its rights.
func (b *Broker) takeRole(ctx context.Context, op, rolename string) error {
	holds := func(roles []broker.RoleRef) bool {
		return slices.ContainsFunc(roles, func(r broker.RoleRef) bool { return r.RoleName == rolename })
	}
	clients, err := matching(ctx, b.ListClients, func(c broker.Client) bool { return holds(c.Roles) })
	if err != nil {
		return err
	}
	groups, err := matching(ctx, b.ListGroups, func(g broker.Group) bool { return holds(g.Roles) })
	if err != nil {
		return err
	}
	own := func(username string) bool { return username == b.username }
	if slices.ContainsFunc(clients, func(c broker.Client) bool { return own(c.Username) }) ||
		slices.ContainsFunc(groups, func(g broker.Group) bool {
			return slices.ContainsFunc(g.Clients, func(m broker.MemberRef) bool { return own(m.Username) })
		}) {
		return &broker.Error{Kind: broker.Conflict, Op: op,
			Msg: "the client as which signalbox manages the broker holds this role: give it another one first"}
	}
	for _, c := range clients {
		if err := unless(b.change(ctx, dynsec.RemoveClientRole(c.Username, rolename)), broker.NotFound); err != nil {
			return err
		}
	}
	for _, g := range groups {
		if err := unless(b.change(ctx, dynsec.RemoveGroupRole(g.GroupName, rolename)), broker.NotFound); err != nil {
			return err
		}
	}
	return nil
}

// matching collects the entries of a list that match.
func matching[T any](ctx context.Context, list func(context.Context, broker.ListOptions[T]) (broker.Page[T], error), match func(T) bool) (found []T, err error) {
	page, err := list(ctx, broker.ListOptions[T]{Count: -1, Match: broker.MatchFunc(match)})
	if err != nil {
		return nil, err
	}
	for item, err := range page.Items {
		if err != nil {
			return nil, err
		}
		found = append(found, item)
	}
	return found, nil
}
