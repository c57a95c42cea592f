package brokertest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func transferCases() []testCase {
	return []testCase{
		{name: "an export imported again changes nothing, passwords included", needs: []Feature{Transfer}, run: transferRoundTrip},
		{name: "an import adds, and says what it took over", needs: []Feature{Transfer}, run: importAdds},
		{name: "an import that collides takes nothing over", needs: []Feature{Transfer}, run: importCollides},
		{name: "an import that replaces leaves exactly the document", needs: []Feature{Transfer}, run: importReplaces},
		{name: "an unsound document is invalid and changes nothing", needs: []Feature{Transfer}, run: importUnsound},
	}
}

// exported returns the broker's document, sorted by name.
func (s *fixture) exported(t *testing.T) map[string]any {
	t.Helper()
	b, err := s.Broker.ExportAccess(t.Context())
	must(t, err)
	var document map[string]any
	if err := json.Unmarshal(b, &document); err != nil {
		t.Fatalf("the export is no JSON: %v", err)
	}
	delete(document, "changeIndex")
	return document
}

// document is in the format of Mosquitto 2.0, with one client, its role and its group.
func document(t *testing.T, stem string) (b []byte, username string) {
	t.Helper()
	username = stem + "-client"
	client := DocumentClient{Username: username, Roles: roleRefs([]string{stem + "-role"})}
	client.SetPassword(t, string(password(username)))
	return Document{
		DefaultACLAccess: map[string]bool{"publishClientSend": false, "publishClientReceive": true,
			"subscribe": false, "unsubscribe": true},
		Clients: []DocumentClient{client},
		Groups:  []DocumentGroup{{GroupName: stem + "-group", Roles: roleRefs([]string{stem + "-role"}), Clients: memberRefs(username)}},
		Roles:   []broker.Role{{RoleName: stem + "-role", AllowWildcardSubs: true, ACLs: markRights()}},
	}.JSON(t), username
}

func transferRoundTrip(t *testing.T, s *fixture) {
	username, _, _, _, _ := s.full(t)
	must(t, s.Broker.ModifyClient(t.Context(), broker.ClientSpec{Username: username, ClientID: new("")}))
	s.role(t, everyType()...)
	before := s.exported(t)
	b, err := s.Broker.ExportAccess(t.Context())
	must(t, err)
	_, err = s.Broker.ImportAccess(t.Context(), bytes.NewReader(b), true)
	must(t, err)
	if diff := cmp.Diff(before, s.exported(t)); diff != "" {
		t.Errorf("export (-before +after):\n%s", diff)
	}
	s.login(t, username)
}

func importAdds(t *testing.T, s *fixture) {
	kept := s.client(t)
	b, username := document(t, "adds")
	report, err := s.Broker.ImportAccess(t.Context(), bytes.NewReader(b), false)
	must(t, err)
	if report.Clients != 1 || report.Groups != 1 || report.Roles != 1 {
		t.Errorf("report: got %+v, want one of each", report)
	}
	s.login(t, username)
	s.login(t, kept)
	s.wantClient(t, broker.Client{Username: kept})
}

func importCollides(t *testing.T, s *fixture) {
	b, username := document(t, "collides")
	must(t, s.Broker.CreateRole(t.Context(), broker.RoleSpec{RoleName: "collides-role"}))
	_, err := s.Broker.ImportAccess(t.Context(), bytes.NewReader(b), false)
	wantKind(t, err, broker.Exists)
	_, err = s.Broker.GetClient(t.Context(), username)
	wantKind(t, err, broker.NotFound)
}

func importReplaces(t *testing.T, s *fixture) {
	before, err := s.Broker.ExportAccess(t.Context())
	must(t, err)
	gone := s.client(t)
	d := s.login(t, gone)
	b, username := document(t, "replaces")
	_, err = s.Broker.ImportAccess(t.Context(), bytes.NewReader(b), true)
	must(t, err)
	d.isCutOff(t)
	s.wantRefused(t, identity{username: gone, password: password(gone)})
	s.wantRefused(t, identity{username: s.AdminUsername, password: s.AdminPassword})
	s.login(t, username)
	page, err := s.Broker.ListClients(t.Context(), broker.ListOptions[broker.Client]{Count: -1, NamesOnly: true})
	must(t, err)
	names := []string{}
	for c, err := range page.Items {
		must(t, err)
		names = append(names, c.Username)
	}
	if !slices.Equal(names, []string{username}) {
		t.Errorf("clients: got %q, want only %q", names, username)
	}
	_, err = s.Broker.ImportAccess(t.Context(), bytes.NewReader(before), true)
	must(t, err)
	s.admin(t)
}

func importUnsound(t *testing.T, s *fixture) {
	before := s.exported(t)
	for _, unsound := range []string{"", "{", "[]", `{"clients":5}`,
		`{"clients":[{"username":"x","roles":[{"rolename":"no role"}]}],"groups":[],"roles":[]}`} {
		_, err := s.Broker.ImportAccess(t.Context(), strings.NewReader(unsound), true)
		wantKind(t, err, broker.Invalid)
	}
	if diff := cmp.Diff(before, s.exported(t)); diff != "" {
		t.Errorf("export (-before +after):\n%s", diff)
	}
}
