package remote

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"signalbox/broker"
	"signalbox/broker/dynsec"
)

// This file compensates for missing checks and crashes of Mosquitto in commands of dynamic
// security. Another signalbox does not need it.

func (b *Broker) isSignalbox() bool { return strings.HasPrefix(b.sys.version(), "signalbox") }

// references are the names to which a change refers.
type references struct {
	clients []broker.MemberRef
	groups  []broker.GroupRef
	roles   []broker.RoleRef
}

// changeWith is change for commands with references. Mosquitto 2.0 ignores references that do
// not exist, or carries out half of the command.
func (b *Broker) changeWith(ctx context.Context, c dynsec.Command, m references) error {
	if err := c.Check(); err != nil {
		return err
	}
	if b.isSignalbox() {
		return b.change(ctx, c)
	}
	op := c.Name()
	if err := checkExist(ctx, b, op, "Client not found", namesOf(m.clients, func(r broker.MemberRef) string { return r.Username }), dynsec.GetClient, b.ListClients, func(c broker.Client) string { return c.Username }); err != nil {
		return err
	}
	if err := checkExist(ctx, b, op, "Group not found", namesOf(m.groups, func(r broker.GroupRef) string { return r.GroupName }), dynsec.GetGroup, b.ListGroups, func(g broker.Group) string { return g.GroupName }); err != nil {
		return err
	}
	if err := checkExist(ctx, b, op, "Role not found", namesOf(m.roles, func(r broker.RoleRef) string { return r.RoleName }), dynsec.GetRole, b.ListRoles, func(r broker.Role) string { return r.RoleName }); err != nil {
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

// fewNames is the number of names up to which they are looked up one by one.
const fewNames = 16

// checkExist checks that all names exist, one by one or, if there are many, in a list.
func checkExist[T any](ctx context.Context, b *Broker, op, missing string, names []string, get func(string) dynsec.Command,
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

// checkWildcardSupport rejects a member that the broker would drop: a role without
// subscriptions with wildcards. Mosquitto supports it since version 2.1, which includes the
// member in all roles.
func (b *Broker) checkWildcardSupport(ctx context.Context, op string, allow *bool) error {
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

// removeRoleFromHolders removes a role from its holders before it is deleted, because
// Mosquitto 2.0 crashes otherwise. It fails if this service's own user holds the role, since
// that would lose its rights.
func (b *Broker) removeRoleFromHolders(ctx context.Context, op, rolename string) error {
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
		if err := ignoreKind(b.change(ctx, dynsec.RemoveClientRole(c.Username, rolename)), broker.NotFound); err != nil {
			return err
		}
	}
	for _, g := range groups {
		if err := ignoreKind(b.change(ctx, dynsec.RemoveGroupRole(g.GroupName, rolename)), broker.NotFound); err != nil {
			return err
		}
	}
	return nil
}

// matching returns the entries of a list that match.
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
