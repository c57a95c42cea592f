package brokertest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func clientCases() []testCase {
	return []testCase{
		{name: "a client with nothing but a name is read back", run: createBareClient},
		{name: "a client with everything is read back in order of evaluation", run: createFullClient},
		{name: "a client that is modified keeps what is not named", run: modifyClientMerges},
		{name: "a list that is given replaces the whole list", run: modifyClientReplaces},
		{name: "an empty list and an empty client id clear", run: modifyClientClears},
		{name: "an empty password changes nothing", run: modifyClientEmptyPassword},
		{name: "a client is disabled and enabled", run: disableAndEnable},
		{name: "a deleted client is gone, also from its groups", run: deleteClientCleans},
		{name: "an unknown client is not found", run: unknownClient},
		{name: "a client that is there exists", run: clientExists},
		{name: "a client without a name is invalid", needs: []Feature{NonEmptyNames}, run: namelessClient},
		{name: "a client with an unsound name or client id is invalid", needs: []Feature{UTF8Names}, run: unsoundClient},
		{name: "a client with an unknown role or group is not found, and not made", run: clientWithUnknownRefs},
		{name: "a creation that failed leaves nothing behind", needs: []Feature{CleanFailedCreation}, run: failedCreation},
		{name: "a modification that failed changes nothing", needs: []Feature{CheckedModification}, run: failedModification},
		{name: "a record lists the live connections", needs: []Feature{Connections}, run: liveConnections},
		{name: "names and texts of every script come back unchanged", run: scripts},
	}
}

// wantClient compares a client's record, except its connections.
func (s *fixture) wantClient(t *testing.T, want broker.Client) {
	t.Helper()
	got, err := s.Broker.GetClient(t.Context(), want.Username)
	must(t, err)
	if want.Roles == nil {
		want.Roles = []broker.RoleRef{}
	}
	if want.Groups == nil {
		want.Groups = []broker.GroupRef{}
	}
	if got.Connections == nil {
		t.Error("the list of connections is nil")
	}
	got.Connections = nil // they have a case of their own
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("client (-want +got):\n%s", diff)
	}
}

func createBareClient(t *testing.T, s *fixture) {
	name := s.name("client")
	must(t, s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: name}))
	s.wantClient(t, broker.Client{Username: name})
}

// full creates a client with every member; a and b are roles, g and h groups.
func (s *fixture) full(t *testing.T) (username, a, b, g, h string) {
	t.Helper()
	a, b, g, h = s.role(t), s.role(t), s.group(t), s.group(t)
	username = s.clientWith(t, broker.ClientSpec{
		ClientID: new("bound"), TextName: new("Pump"), TextDescription: new("In the cellar"),
		Roles:  []broker.RoleRef{{RoleName: a, Priority: broker.NoPriority}, {RoleName: b, Priority: 7}},
		Groups: []broker.GroupRef{{GroupName: g, Priority: 1}, {GroupName: h, Priority: 4}},
	})
	return username, a, b, g, h
}

func createFullClient(t *testing.T, s *fixture) {
	username, a, b, g, h := s.full(t)
	s.wantClient(t, broker.Client{
		Username: username, ClientID: "bound", TextName: new("Pump"), TextDescription: new("In the cellar"),
		Roles:  []broker.RoleRef{{RoleName: b, Priority: 7}, {RoleName: a, Priority: broker.NoPriority}},
		Groups: []broker.GroupRef{{GroupName: h, Priority: 4}, {GroupName: g, Priority: 1}},
	})
}

func modifyClientMerges(t *testing.T, s *fixture) {
	username, a, b, g, h := s.full(t)
	must(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: username, TextName: new("Valve")}))
	s.wantClient(t, broker.Client{
		Username: username, ClientID: "bound", TextName: new("Valve"), TextDescription: new("In the cellar"),
		Roles:  []broker.RoleRef{{RoleName: b, Priority: 7}, {RoleName: a, Priority: broker.NoPriority}},
		Groups: []broker.GroupRef{{GroupName: h, Priority: 4}, {GroupName: g, Priority: 1}},
	})
}

func modifyClientReplaces(t *testing.T, s *fixture) {
	username, a, _, _, h := s.full(t)
	other := s.group(t)
	must(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: username,
		Roles:  []broker.RoleRef{{RoleName: a, Priority: 2}},
		Groups: groupRefs(other),
	}))
	s.wantClient(t, broker.Client{
		Username: username, ClientID: "bound", TextName: new("Pump"), TextDescription: new("In the cellar"),
		Roles:  []broker.RoleRef{{RoleName: a, Priority: 2}},
		Groups: groupRefs(other),
	})
	s.wantMembers(t, h)
	s.wantMembers(t, other, username)
}

func modifyClientClears(t *testing.T, s *fixture) {
	username, _, _, g, h := s.full(t)
	must(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: username,
		ClientID: new(""), TextName: new(""), TextDescription: new(""),
		Roles: []broker.RoleRef{}, Groups: []broker.GroupRef{},
	}))
	s.wantClient(t, broker.Client{Username: username, TextName: new(""), TextDescription: new("")})
	s.wantMembers(t, g)
	s.wantMembers(t, h)
}

func modifyClientEmptyPassword(t *testing.T, s *fixture) {
	username := s.client(t)
	must(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: username, Password: new(broker.Secret(""))}))
	s.login(t, username)
}

func disableAndEnable(t *testing.T, s *fixture) {
	username := s.client(t)
	must(t, s.Broker.DisableClient(t.Context(), username))
	s.wantClient(t, broker.Client{Username: username, Disabled: true})
	must(t, s.Broker.DisableClient(t.Context(), username)) // a second time is not an error
	must(t, s.Broker.EnableClient(t.Context(), username))
	s.wantClient(t, broker.Client{Username: username})
	must(t, s.Broker.EnableClient(t.Context(), username))
}

func deleteClientCleans(t *testing.T, s *fixture) {
	username, _, _, g, h := s.full(t)
	must(t, s.Broker.DeleteClient(t.Context(), username))
	_, err := s.Broker.GetClient(t.Context(), username)
	wantKind(t, err, broker.NotFound)
	s.wantMembers(t, g)
	s.wantMembers(t, h)
	must(t, s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: username}))
	s.wantClient(t, broker.Client{Username: username}) // nothing of the deleted one remains
}

func unknownClient(t *testing.T, s *fixture) {
	_, err := s.Broker.GetClient(t.Context(), "nobody")
	wantKind(t, err, broker.NotFound)
	wantKind(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: "nobody", TextName: new("x")}), broker.NotFound)
	wantKind(t, s.Broker.DeleteClient(t.Context(), "nobody"), broker.NotFound)
	wantKind(t, s.Broker.EnableClient(t.Context(), "nobody"), broker.NotFound)
	wantKind(t, s.Broker.DisableClient(t.Context(), "nobody"), broker.NotFound)
}

func clientExists(t *testing.T, s *fixture) {
	username := s.clientWith(t, broker.ClientSpec{TextName: new("first")})
	err := s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: username, TextName: new("second")})
	wantKind(t, err, broker.Exists)
	s.wantClient(t, broker.Client{Username: username, TextName: new("first")})
}

// notUTF8 contains a character that MQTT forbids in strings [MQTT-1.5.4-2].
const notUTF8 = "\uffff"

func namelessClient(t *testing.T, s *fixture) {
	wantKind(t, s.Broker.CreateClient(t.Context(), broker.ClientSpec{}), broker.Invalid)
}

func unsoundClient(t *testing.T, s *fixture) {
	wantKind(t, s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: notUTF8}), broker.Invalid)
	name := s.name("client")
	err := s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: name, ClientID: new(notUTF8)})
	wantKind(t, err, broker.Invalid)
}

func clientWithUnknownRefs(t *testing.T, s *fixture) {
	name := s.name("client")
	err := s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: name, Roles: roleRefs([]string{"no role"})})
	wantKind(t, err, broker.NotFound)
	err = s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: name, Groups: groupRefs("no group")})
	wantKind(t, err, broker.NotFound)
	_, err = s.Broker.GetClient(t.Context(), name)
	wantKind(t, err, broker.NotFound)
}

func failedCreation(t *testing.T, s *fixture) {
	group, name := s.group(t), s.name("client")
	err := s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: name, Groups: groupRefs(group, "no group")})
	wantKind(t, err, broker.NotFound)
	s.wantMembers(t, group)
}

func failedModification(t *testing.T, s *fixture) {
	username, a, b, g, h := s.full(t)
	wantKind(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: username, TextName: new("x"),
		Roles: roleRefs([]string{a, "no role"})}), broker.NotFound)
	wantKind(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: username, TextName: new("x"),
		Groups: groupRefs(g, "no group")}), broker.NotFound)
	s.wantClient(t, broker.Client{
		Username: username, ClientID: "bound", TextName: new("Pump"), TextDescription: new("In the cellar"),
		Roles:  []broker.RoleRef{{RoleName: b, Priority: 7}, {RoleName: a, Priority: broker.NoPriority}},
		Groups: []broker.GroupRef{{GroupName: h, Priority: 4}, {GroupName: g, Priority: 1}},
	})
}

func liveConnections(t *testing.T, s *fixture) {
	username := s.client(t)
	d := s.login(t, username)
	s.login(t, username)
	connections := func() int {
		c, err := s.Broker.GetClient(t.Context(), username)
		must(t, err)
		for _, one := range c.Connections {
			if one.Address != "127.0.0.1" {
				t.Fatalf("address %q, want 127.0.0.1", one.Address)
			}
		}
		return len(c.Connections)
	}
	WaitFor(t, "both connections are in the record", func() bool { return connections() == 2 })
	d.client.Disconnect(0)
	WaitFor(t, "the ended connection is out of the record", func() bool { return connections() == 1 })
}

func scripts(t *testing.T, s *fixture) {
	for _, name := range []string{"Ω≈ç√ ∫", "名前", "with \"quotes\" and \\", "a/b#+%c", " spaces ", "🔧"} {
		must(t, s.Broker.CreateClient(t.Context(), broker.ClientSpec{Username: name, TextName: new(name), TextDescription: new(name)}))
		s.wantClient(t, broker.Client{Username: name, TextName: new(name), TextDescription: new(name)})
		must(t, s.Broker.DeleteClient(t.Context(), name))
	}
}
