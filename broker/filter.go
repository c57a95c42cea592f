package broker

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// FilterModes are the ways in which a list can be filtered. All but equals and
// regex (RE2) ignore case.
var FilterModes = []string{"contains", "equals", "startsWith", "endsWith", "regex"}

// The targets by which clients, groups, roles and subscriptions can be filtered. The first of
// each is the default.
var (
	ClientFilterTargets = []string{"username", "clientid", "textname", "textdescription", "rolename", "groupname"}
	GroupFilterTargets  = []string{"groupname", "textname", "textdescription", "username", "rolename"}
	RoleFilterTargets   = []string{"rolename", "textname", "textdescription", "topic", "acltype"}

	SubscriptionFilterTargets = []string{"topic", "clientid", "username", "share"}
)

// matcher compiles a filter's mode and value.
func matcher(mode, value string) (func(string) bool, error) {
	low := strings.ToLower(value)
	switch mode {
	case "contains":
		return func(s string) bool { return strings.Contains(strings.ToLower(s), low) }, nil
	case "startsWith":
		return func(s string) bool { return strings.HasPrefix(strings.ToLower(s), low) }, nil
	case "endsWith":
		return func(s string) bool { return strings.HasSuffix(strings.ToLower(s), low) }, nil
	case "equals":
		return func(s string) bool { return s == value }, nil
	case "regex":
		re, err := regexp.Compile(value)
		if err != nil {
			return nil, fmt.Errorf("filterValue: %w", err)
		}
		return re.MatchString, nil
	}
	return nil, fmt.Errorf("filterMode: must be one of %s", strings.Join(FilterModes, ", "))
}

// ClientFilter compiles a filter over clients: target is one of
// ClientFilterTargets, mode one of FilterModes. Where the target is a list, one
// entry that matches is enough.
func ClientFilter(target, mode, value string) (func(Client) bool, error) {
	is, err := matcher(mode, value)
	if err != nil {
		return nil, err
	}
	switch target {
	case "username":
		return func(c Client) bool { return is(c.Username) }, nil
	case "clientid":
		return func(c Client) bool { return is(c.ClientID) }, nil
	case "textname":
		return func(c Client) bool { return is(text(c.TextName)) }, nil
	case "textdescription":
		return func(c Client) bool { return is(text(c.TextDescription)) }, nil
	case "rolename":
		return func(c Client) bool { return anyRole(c.Roles, is) }, nil
	case "groupname":
		return func(c Client) bool {
			return slices.ContainsFunc(c.Groups, func(g GroupRef) bool { return is(g.GroupName) })
		}, nil
	}
	return nil, badTarget(ClientFilterTargets)
}

// GroupFilter compiles a filter over groups; see ClientFilter.
func GroupFilter(target, mode, value string) (func(Group) bool, error) {
	is, err := matcher(mode, value)
	if err != nil {
		return nil, err
	}
	switch target {
	case "groupname":
		return func(g Group) bool { return is(g.GroupName) }, nil
	case "textname":
		return func(g Group) bool { return is(text(g.TextName)) }, nil
	case "textdescription":
		return func(g Group) bool { return is(text(g.TextDescription)) }, nil
	case "username":
		return func(g Group) bool {
			return slices.ContainsFunc(g.Clients, func(m MemberRef) bool { return is(m.Username) })
		}, nil
	case "rolename":
		return func(g Group) bool { return anyRole(g.Roles, is) }, nil
	}
	return nil, badTarget(GroupFilterTargets)
}

// RoleFilter compiles a filter over roles; see ClientFilter.
func RoleFilter(target, mode, value string) (func(Role) bool, error) {
	is, err := matcher(mode, value)
	if err != nil {
		return nil, err
	}
	switch target {
	case "rolename":
		return func(r Role) bool { return is(r.RoleName) }, nil
	case "textname":
		return func(r Role) bool { return is(text(r.TextName)) }, nil
	case "textdescription":
		return func(r Role) bool { return is(text(r.TextDescription)) }, nil
	case "topic":
		return func(r Role) bool { return slices.ContainsFunc(r.ACLs, func(a ACL) bool { return is(a.Topic) }) }, nil
	case "acltype":
		return func(r Role) bool {
			return slices.ContainsFunc(r.ACLs, func(a ACL) bool { return is(string(a.ACLType)) })
		}, nil
	}
	return nil, badTarget(RoleFilterTargets)
}

// SubscriptionFilter compiles a filter over subscriptions; see ClientFilter.
func SubscriptionFilter(target, mode, value string) (func(Subscription) bool, error) {
	is, err := matcher(mode, value)
	if err != nil {
		return nil, err
	}
	switch target {
	case "topic":
		return func(s Subscription) bool { return is(s.Topic) }, nil
	case "clientid":
		return func(s Subscription) bool { return is(s.ClientID) }, nil
	case "username":
		return func(s Subscription) bool { return is(s.Username) }, nil
	case "share":
		return func(s Subscription) bool { return is(s.Share) }, nil
	}
	return nil, badTarget(SubscriptionFilterTargets)
}

func anyRole(roles []RoleRef, is func(string) bool) bool {
	return slices.ContainsFunc(roles, func(r RoleRef) bool { return is(r.RoleName) })
}

func badTarget(targets []string) error {
	return fmt.Errorf("filterTarget: must be one of %s", strings.Join(targets, ", "))
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
