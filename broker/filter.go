package broker

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"
)

// FilterModes are the ways in which a list can be filtered. All but equals and
// regex (RE2) ignore case.
var FilterModes = []string{"contains", "equals", "startsWith", "endsWith", "regex"}

// The targets by which clients, groups, roles, subscriptions and sessions can be filtered. The
// first of each is the default.
var (
	ClientFilterTargets = []string{"username", "clientid", "textname", "textdescription", "rolename", "groupname"}
	GroupFilterTargets  = []string{"groupname", "textname", "textdescription", "username", "rolename"}
	RoleFilterTargets   = []string{"rolename", "textname", "textdescription", "topic", "acltype"}

	SubscriptionFilterTargets = []string{"topic", "clientid", "username", "share"}
	SessionFilterTargets      = []string{"clientid", "username", "address"}
)

// Match reports whether an entry of a list is wanted. It is made for one list and not
// safe for concurrent use. An error, which may be the context's, ends the list.
type Match[T any] func(ctx context.Context, entry T) (bool, error)

// Matches reports whether an entry is wanted; a nil match wants all. Once the
// context has ended it returns the context's error.
func Matches[T any](ctx context.Context, match Match[T], entry T) (bool, error) {
	if err := ctx.Err(); err != nil || match == nil {
		return err == nil, err
	}
	return match(ctx, entry)
}

// predicate is a Match of one text.
type predicate = Match[string]

// newPredicate compiles a filter's mode and value. Its errors are about the value, if
// the mode is one of FilterModes.
func newPredicate(mode, value string) (predicate, error) {
	low := strings.ToLower(value)
	switch mode {
	case "contains":
		return MatchFunc(func(s string) bool { return strings.Contains(strings.ToLower(s), low) }), nil
	case "startsWith":
		return MatchFunc(func(s string) bool { return strings.HasPrefix(strings.ToLower(s), low) }), nil
	case "endsWith":
		return MatchFunc(func(s string) bool { return strings.HasSuffix(strings.ToLower(s), low) }), nil
	case "equals":
		return MatchFunc(func(s string) bool { return s == value }), nil
	case "regex":
		e, err := newExpression(value, time.Now)
		if err != nil {
			return nil, err
		}
		return e.match, nil
	}
	return nil, fmt.Errorf("filterMode: must be one of %s", strings.Join(FilterModes, ", "))
}

// MatchFunc returns a Match that does not fail.
func MatchFunc[T any](is func(T) bool) Match[T] {
	return func(_ context.Context, entry T) (bool, error) { return is(entry), nil }
}

// textMatch matches a text of an entry.
func textMatch[T any](is predicate, text func(T) string) Match[T] {
	return func(ctx context.Context, entry T) (bool, error) { return is(ctx, text(entry)) }
}

// anyMatch matches a list of an entry: one element that matches is enough.
func anyMatch[T, E any](is predicate, list func(T) []E, text func(E) string) Match[T] {
	return func(ctx context.Context, entry T) (bool, error) {
		for _, element := range list(entry) {
			if ok, err := is(ctx, text(element)); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}
}

// ClientFilter compiles a filter over clients: target is one of ClientFilterTargets,
// mode one of FilterModes. If the target is a list, one entry that matches is enough.
func ClientFilter(target, mode, value string) (Match[Client], error) {
	is, err := newPredicate(mode, value)
	if err != nil {
		return nil, err
	}
	switch target {
	case "username":
		return textMatch(is, func(c Client) string { return c.Username }), nil
	case "clientid":
		return textMatch(is, func(c Client) string { return c.ClientID }), nil
	case "textname":
		return textMatch(is, func(c Client) string { return text(c.TextName) }), nil
	case "textdescription":
		return textMatch(is, func(c Client) string { return text(c.TextDescription) }), nil
	case "rolename":
		return anyMatch(is, func(c Client) []RoleRef { return c.Roles }, roleName), nil
	case "groupname":
		return anyMatch(is, func(c Client) []GroupRef { return c.Groups }, func(g GroupRef) string { return g.GroupName }), nil
	}
	return nil, badTarget(ClientFilterTargets)
}

// GroupFilter compiles a filter over groups; see ClientFilter.
func GroupFilter(target, mode, value string) (Match[Group], error) {
	is, err := newPredicate(mode, value)
	if err != nil {
		return nil, err
	}
	switch target {
	case "groupname":
		return textMatch(is, func(g Group) string { return g.GroupName }), nil
	case "textname":
		return textMatch(is, func(g Group) string { return text(g.TextName) }), nil
	case "textdescription":
		return textMatch(is, func(g Group) string { return text(g.TextDescription) }), nil
	case "username":
		return anyMatch(is, func(g Group) []MemberRef { return g.Clients }, func(m MemberRef) string { return m.Username }), nil
	case "rolename":
		return anyMatch(is, func(g Group) []RoleRef { return g.Roles }, roleName), nil
	}
	return nil, badTarget(GroupFilterTargets)
}

// RoleFilter compiles a filter over roles; see ClientFilter.
func RoleFilter(target, mode, value string) (Match[Role], error) {
	is, err := newPredicate(mode, value)
	if err != nil {
		return nil, err
	}
	acls := func(r Role) []ACL { return r.ACLs }
	switch target {
	case "rolename":
		return textMatch(is, func(r Role) string { return r.RoleName }), nil
	case "textname":
		return textMatch(is, func(r Role) string { return text(r.TextName) }), nil
	case "textdescription":
		return textMatch(is, func(r Role) string { return text(r.TextDescription) }), nil
	case "topic":
		return anyMatch(is, acls, func(a ACL) string { return a.Topic }), nil
	case "acltype":
		return anyMatch(is, acls, func(a ACL) string { return string(a.ACLType) }), nil
	}
	return nil, badTarget(RoleFilterTargets)
}

// SubscriptionFilter compiles a filter over subscriptions; see ClientFilter.
func SubscriptionFilter(target, mode, value string) (Match[Subscription], error) {
	is, err := newPredicate(mode, value)
	if err != nil {
		return nil, err
	}
	switch target {
	case "topic":
		return textMatch(is, func(s Subscription) string { return s.Topic }), nil
	case "clientid":
		return textMatch(is, func(s Subscription) string { return s.ClientID }), nil
	case "username":
		return textMatch(is, func(s Subscription) string { return s.Username }), nil
	case "share":
		return textMatch(is, func(s Subscription) string { return s.Share }), nil
	}
	return nil, badTarget(SubscriptionFilterTargets)
}

// SessionFilter compiles a filter over sessions, connected or not; see ClientFilter.
func SessionFilter(target, mode, value string) (Match[ConnectedClient], error) {
	is, err := newPredicate(mode, value)
	if err != nil {
		return nil, err
	}
	switch target {
	case "clientid":
		return textMatch(is, func(c ConnectedClient) string { return c.ClientID }), nil
	case "username":
		return textMatch(is, func(c ConnectedClient) string { return c.Username }), nil
	case "address":
		return textMatch(is, func(c ConnectedClient) string { return c.Address }), nil
	}
	return nil, badTarget(SessionFilterTargets)
}

// Select returns the part of a whole list that the options want. All of the list is read,
// because the total is that of the matches.
func Select[T any](ctx context.Context, all iter.Seq2[T, error], o ListOptions[T]) (Page[T], error) {
	total, kept := 0, []T{}
	for entry, err := range all {
		if err != nil {
			return Page[T]{}, err
		}
		wanted, err := Matches(ctx, o.Match, entry)
		if err != nil {
			return Page[T]{}, err
		}
		if !wanted {
			continue
		}
		if total >= o.Offset && (o.Count < 0 || len(kept) < o.Count) {
			kept = append(kept, entry)
		}
		total++
	}
	return Page[T]{Total: total, Items: func(yield func(T, error) bool) {
		for _, entry := range kept {
			if !yield(entry, nil) {
				return
			}
		}
	}}, nil
}

func roleName(r RoleRef) string { return r.RoleName }

func badTarget(targets []string) error {
	return fmt.Errorf("filterTarget: must be one of %s", strings.Join(targets, ", "))
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
