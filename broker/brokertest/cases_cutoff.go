package brokertest

import (
	"context"
	"errors"
	"testing"

	"signalbox/broker"
)

func cutOffCases() []testCase {
	return []testCase{
		{name: "deleting a client cuts it off", run: cutsOff(theOwner, deleteOwner)},
		{name: "disabling a client cuts it off", run: cutsOff(theOwner, disableOwner)},
		{name: "modifying a client cuts it off", run: cutsOff(theOwner, modifyOwner)},
		{name: "changing a password cuts its client off", run: cutsOff(theOwner, changePassword)},
		{name: "deleting a group cuts its members off", run: cutsOff(theMember, deleteItsGroup)},
		{name: "modifying a group cuts its old and new members off", needs: []Feature{ReplacedMembersCut},
			run: cutsOff(theMember|theOther, replaceMembers)},
		{name: "replacing a role's ACLs cuts off who holds it, also through a group", needs: []Feature{ModifyRoleCutsOff},
			run: cutsOff(theOwner|theMember, replaceACLs)},
		{name: "deleting a role cuts off who holds it, also through a group", needs: []Feature{DeletableRoles},
			run: cutsOff(theOwner|theMember, deleteItsRole)},
		{name: "changing a role's texts disconnects no client", run: cutsOff(noClient, changeTexts)},
		{name: "creating and enabling disconnect no client", run: cutsOff(noClient, createAndEnable)},
		{name: "setting the default access disconnects no client", run: cutsOff(noClient, setSameDefaults)},
		{name: "who is cut off leaves no Will", run: cutOffWithoutWill},
		{name: "who is cut off comes back with its new rights", run: cutOffAndBack},
	}
}

func deleteOwner(ctx context.Context, b broker.Broker, c *cutOffClients) error {
	return b.DeleteClient(ctx, c.own)
}

func disableOwner(ctx context.Context, b broker.Broker, c *cutOffClients) error {
	return b.DisableClient(ctx, c.own)
}

func modifyOwner(ctx context.Context, b broker.Broker, c *cutOffClients) error {
	return b.ModifyClient(ctx, broker.ClientSpec{Username: c.own, TextName: new("x")})
}

func changePassword(ctx context.Context, b broker.Broker, c *cutOffClients) error {
	return b.ModifyClient(ctx, broker.ClientSpec{Username: c.own, Password: new(broker.Secret("new"))})
}

func deleteItsGroup(ctx context.Context, b broker.Broker, c *cutOffClients) error {
	return b.DeleteGroup(ctx, c.group)
}

func replaceMembers(ctx context.Context, b broker.Broker, c *cutOffClients) error {
	return b.ModifyGroup(ctx, broker.GroupSpec{GroupName: c.group, Clients: memberRefs(c.other)})
}

func replaceACLs(ctx context.Context, b broker.Broker, c *cutOffClients) error {
	return b.ModifyRole(ctx, broker.RoleSpec{RoleName: c.role, ACLs: markRights()})
}

func deleteItsRole(ctx context.Context, b broker.Broker, c *cutOffClients) error {
	return b.DeleteRole(ctx, c.role)
}

func changeTexts(ctx context.Context, b broker.Broker, c *cutOffClients) error {
	return b.ModifyRole(ctx, broker.RoleSpec{RoleName: c.role, TextName: new("x")})
}

func createAndEnable(ctx context.Context, b broker.Broker, c *cutOffClients) error {
	return errors.Join(
		b.CreateRole(ctx, broker.RoleSpec{RoleName: c.fresh}),
		b.CreateGroup(ctx, broker.GroupSpec{GroupName: c.fresh, Roles: roleRefs([]string{c.role})}),
		b.CreateClient(ctx, broker.ClientSpec{Username: c.fresh, Roles: roleRefs([]string{c.role}), Groups: groupRefs(c.group)}),
		b.EnableClient(ctx, c.own),
	)
}

func setSameDefaults(ctx context.Context, b broker.Broker, _ *cutOffClients) error {
	return b.SetDefaultACLAccess(ctx, defaults(false, true, false, true))
}

// cutOffClients is the clients of a cut-off case: own has the role itself, member has it through the
// group, other does not have it.
type cutOffClients struct {
	own, member, other string
	role, group        string
	fresh              string // an unused name
}

// clientSet is a set of the clients of a cut-off case.
type clientSet int

const (
	theOwner clientSet = 1 << iota
	theMember
	theOther
	noClient clientSet = 0
)

// cutsOff returns a case in which a change disconnects exactly the clients of the set.
func cutsOff(set clientSet, change func(context.Context, broker.Broker, *cutOffClients) error) func(*testing.T, *fixture) {
	return func(t *testing.T, s *fixture) {
		c := &cutOffClients{role: s.role(t, markRights()...), fresh: s.name("fresh")}
		c.group = s.group(t, c.role)
		c.own = s.client(t, c.role)
		c.member = s.clientWith(t, broker.ClientSpec{Groups: groupRefs(c.group)})
		c.other = s.client(t)
		devices := []*device{s.login(t, c.own), s.login(t, c.member), s.login(t, c.other)}
		sentinel := s.login(t, s.client(t))

		must(t, change(t.Context(), s.Broker, c))
		must(t, s.Broker.DisableClient(t.Context(), sentinel.username))
		sentinel.isCutOff(t) // so the disconnects of the change before are complete
		for i, d := range devices {
			if set&(1<<i) != 0 {
				d.isCutOff(t)
			} else {
				d.isConnected(t)
			}
		}
	}
}

func cutOffWithoutWill(t *testing.T, s *fixture) {
	admin, role := s.admin(t), s.role(t, allow(broker.PublishClientSend, "last/#"))
	username := s.client(t, role)
	d, err := s.connect(t, identity{username: username, password: password(username), will: "last/will"})
	if err != nil {
		t.Fatalf("a client with a Will does not get in: %v", err)
	}
	must(t, s.Broker.DisableClient(t.Context(), username))
	d.isCutOff(t)
	s.disconnectWithWill(t, role, "last/witness")
	WaitFor(t, "another client's Will has come", func() bool { return admin.has("last/witness") })
	if admin.has("last/will") {
		t.Error("the Will was sent")
	}
}

func cutOffAndBack(t *testing.T, s *fixture) {
	admin := s.admin(t)
	d := s.device(t)
	if s.getsThrough(t, d, admin, "new/right") {
		t.Fatal("published without the right")
	}
	more := s.role(t, append(markRights(), allow(broker.PublishClientSend, "new/right"))...)
	must(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: d.username, Roles: roleRefs([]string{more})}))
	d.isCutOff(t)
	if !s.getsThrough(t, s.login(t, d.username), admin, "new/right") {
		t.Error("the new right has no effect")
	}
}
