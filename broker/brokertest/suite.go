package brokertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"signalbox/broker"
)

// Feature is a feature that the suite uses and not every broker has. The values complete the
// sentence "this broker lacks ...".
type Feature string

// Features that older Mosquittos, or remote brokers, lack.
const (
	PercentSubstitution Feature = "%c and %u in the topics of ACLs"
	AllowWildcardSubs   Feature = "roles that refuse every subscription with a wildcard"
	Connections         Feature = "the live connections in a client's record"
	ClosedDollarTopics  Feature = "patterns that leave topics with a leading $ to patterns with one"
	ModifyRoleCutsOff   Feature = "cutting off who holds a role whose ACLs are replaced"
	NonEmptyNames       Feature = "refusing empty names"
	UTF8Names           Feature = "refusing names that are no valid UTF-8"
	CheckedModification Feature = "refusing unknown roles, groups and members in a modification"
	DeletableRoles      Feature = "deleting a role that somebody holds (it dies of it)"
	CleanFailedCreation Feature = "leaving nothing behind when a client's creation fails"
	AnonymousGroupStays Feature = "refusing to delete the anonymous group"
	ReplacedMembersCut  Feature = "cutting off the old and new members of a modified group"
	Transfer            Feature = "import and export of the whole access control"
	Inspection          Feature = "inspection of its clients"
	ClientControl       Feature = "control of its clients"
	MessageProperties   Feature = "a way to publish the properties of MQTT 5"
	OperatorsLists      Feature = "lists of subscriptions, denials and bans"
	StreamKeepsAcks     Feature = "acknowledging a message only when the stream that keeps it has it"
	NamedFields         Feature = "naming the members of a request that are bad"
)

// Subject is a broker under test: its interface, and its URL for plain MQTT. The admin has all
// rights. Anonymous clients are accepted and have the rights of the anonymous group. Its access
// control is that of a new broker: Mosquitto's default access, no anonymous group.
type Subject struct {
	Broker        broker.Broker
	URL           string
	AdminUsername string
	AdminPassword broker.Secret
	Lacks         []Feature
}

// group is a set of cases that share one subject, in sequence.
type group struct {
	name  string
	cases []testCase
}

// testCase is named after what must hold. It runs only if the subject has the features that it
// needs.
type testCase struct {
	name  string
	needs []Feature
	run   func(t *testing.T, s *fixture)
}

// Run runs every case. Open returns a new subject for each group of cases and cleans up after
// itself.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	groups := []group{
		{"default ACL", defaultACLCases()},
		{"clients", clientCases()},
		{"groups", groupCases()},
		{"roles", roleCases()},
		{"lists", listCases()},
		{"log-in", loginCases()},
		{"publish", publishCases()},
		{"subscribe", subscribeCases()},
		{"unsubscribe", unsubscribeCases()},
		{"receive", receiveCases()},
		{"will", willCases()},
		{"order of evaluation", orderCases()},
		{"cut off", cutOffCases()},
		{"anonymous clients", anonymousCases()},
		{"transfer", transferCases()},
		{"inspection", inspectCases()},
		{"client control", controlCases()},
		{"messages", messageCases()},
		{"access check", checkCases()},
		{"streams", streamCases()},
		{"streams, what is refused", streamInvalidCases()},
		{"streams, loops", streamLoopCases()},
		{"streams, republishing", streamRepublishCases()},
		{"streams, queries", streamQueryCases()},
		{"streams, messages kept", streamKeepCases()},
		{"streams, replay", streamReplayCases()},
		{"status", statusCases()},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			runGroup(t, g, open(t))
		})
	}
}

func runGroup(t *testing.T, g group, subject Subject) {
	s := &fixture{Subject: subject}
	for _, c := range g.cases {
		missing := slices.IndexFunc(c.needs, func(f Feature) bool { return slices.Contains(subject.Lacks, f) })
		if missing >= 0 {
			t.Logf("left out %q: this broker lacks %s", c.name, c.needs[missing])
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

// fixture is a subject with names that are unique among its cases.
type fixture struct {
	Subject
	made atomic.Int64
}

// name returns a unique name.
func (s *fixture) name(stem string) string {
	return fmt.Sprintf("%s-%03d", stem, s.made.Add(1))
}

// role creates a role with these ACLs and returns its name.
func (s *fixture) role(t *testing.T, acls ...broker.ACL) string {
	t.Helper()
	name := s.name("role")
	must(t, s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: name, ACLs: acls}))
	return name
}

// group creates a group with these roles and returns its name.
func (s *fixture) group(t *testing.T, roles ...string) string {
	t.Helper()
	name := s.name("group")
	must(t, s.Broker.CreateGroup(t.Context(), broker.GroupSpec{GroupName: name, Roles: roleRefs(roles)}))
	return name
}

// client creates a client with these roles and returns its username. Its password is
// password(username).
func (s *fixture) client(t *testing.T, roles ...string) string {
	t.Helper()
	return s.clientWith(t, broker.ClientSpec{Roles: roleRefs(roles)})
}

// clientWith creates a client like spec, with a username and password of its own.
func (s *fixture) clientWith(t *testing.T, spec broker.ClientSpec) string {
	t.Helper()
	spec.Username = s.name("client")
	spec.Password = new(password(spec.Username))
	must(t, s.Broker.CreateClient(t.Context(), spec))
	return spec.Username
}

func password(username string) broker.Secret { return broker.Secret("password of " + username) }

func roleRefs(names []string) (refs []broker.RoleRef) {
	for _, name := range names {
		refs = append(refs, broker.RoleRef{RoleName: name, Priority: broker.NoPriority})
	}
	return refs
}

func groupRefs(names ...string) (refs []broker.GroupRef) {
	for _, name := range names {
		refs = append(refs, broker.GroupRef{GroupName: name, Priority: broker.NoPriority})
	}
	return refs
}

func memberRefs(names ...string) (refs []broker.MemberRef) {
	for _, name := range names {
		refs = append(refs, broker.MemberRef{Username: name, Priority: broker.NoPriority})
	}
	return refs
}

// allow and deny return ACLs without a priority.
func allow(acltype broker.ACLType, topic string) broker.ACL {
	return broker.ACL{ACLType: acltype, Topic: topic, Allow: true}
}

func deny(acltype broker.ACLType, topic string) broker.ACL {
	return broker.ACL{ACLType: acltype, Topic: topic}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v (cause: %v)", err, errors.Unwrap(err))
	}
}

// wantKind checks the kind of an error.
func wantKind(t *testing.T, err error, want broker.Kind) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one of kind %d", want)
	}
	if got := broker.KindOf(err); got != want {
		t.Fatalf("%v: kind %d, want %d", err, got, want)
	}
}

// find returns the item of a list that matches; ok is false if there is none.
func find[T any](t *testing.T, list func(context.Context, broker.ListOptions[T]) (broker.Page[T], error),
	match func(T) bool) (found T, ok bool) {
	t.Helper()
	page, err := list(t.Context(), broker.ListOptions[T]{Count: -1, Match: broker.MatchFunc(match)})
	must(t, err)
	for item, err := range page.Items {
		must(t, err)
		found, ok = item, true
	}
	return found, ok
}

func (s *fixture) findGroup(t *testing.T, name string) (broker.Group, bool) {
	t.Helper()
	return find(t, s.Broker.ListGroups, func(g broker.Group) bool { return g.GroupName == name })
}

func (s *fixture) findRole(t *testing.T, name string) (broker.Role, bool) {
	t.Helper()
	return find(t, s.Broker.ListRoles, func(r broker.Role) bool { return r.RoleName == name })
}
