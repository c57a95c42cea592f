package dynsec

import (
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func sampleDocument() Document {
	d := Defaults{Subscribe: true}
	return Document{
		ChangeIndex: 41, Defaults: &d, AnonymousGroup: "anon",
		Clients: []DocumentClient{
			{Username: "a", TextName: ptr("A"), Roles: []broker.RoleRef{{RoleName: "r", Priority: 2}, {RoleName: "s", Priority: broker.NoPriority}}, EncodedPassword: "$7$1$a"},
			{Username: "b", ClientID: "id", Disabled: true, Roles: []broker.RoleRef{}},
		},
		Groups: []broker.Group{
			{GroupName: "anon", Clients: []broker.MemberRef{}, Roles: []broker.RoleRef{{RoleName: "s", Priority: broker.NoPriority}}},
			{GroupName: "g", TextDescription: ptr("G"), Roles: []broker.RoleRef{}, Clients: []broker.MemberRef{{Username: "a", Priority: 7}, {Username: "b", Priority: broker.NoPriority}}},
		},
		Roles: []broker.Role{
			{RoleName: "r", AllowWildcardSubs: true, ACLs: []broker.ACL{{ACLType: broker.PublishClientSend, Topic: "t", Priority: 1, Allow: true}}},
			{RoleName: "s", ACLs: []broker.ACL{}},
		},
	}
}

// contentOf returns a document as the content of a file, whatever its hashes are.
func contentOf(d Document) (*Content, error) {
	b := &builder{shared: newSharing(), defaults: d.Defaults, anonymous: d.AnonymousGroup, index: d.ChangeIndex, roles: slices.Clone(d.Roles)}
	for _, g := range d.Groups {
		b.group(g)
	}
	for _, c := range d.Clients {
		b.client(c)
	}
	return b.content()
}

// importInto imports and checks that the changes are complete.
func importInto(t *testing.T, s *State, d Document, replace bool) (*State, broker.ImportReport, []Disconnect) {
	t.Helper()
	tx := s.Begin()
	c, err := contentOf(d)
	if err != nil {
		t.Fatal(err)
	}
	report, err := tx.Import(c, replace, nil)
	if err != nil {
		t.Fatal(err)
	}
	next, changes, disconnects := tx.End()
	checkChanges(t, "import", s, next, changes)
	checkIndexes(t, next)
	return next, report, disconnects
}

func TestImportComesBackAsItWas(t *testing.T) {
	t.Parallel()
	want := sampleDocument()
	for name, before := range map[string]*State{"empty": NewState(), "replaced": freshBroker(t)} {
		s, report, _ := importInto(t, before, want, name == "replaced")
		hashes := map[string]string{"a": "$7$1$a"}
		if diff := gocmp.Diff(want, s.Document(func(username string) string { return hashes[username] })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := gocmp.Diff(broker.ImportReport{Clients: 2, Groups: 2, Roles: 2, Warnings: []string{}}, report); diff != "" {
			t.Errorf("%s report (-want +got):\n%s", name, diff)
		}
	}
}

func TestImportThatReplacesThrowsEveryoneOut(t *testing.T) {
	t.Parallel()
	_, _, disconnects := importInto(t, fleet(t, 2), sampleDocument(), true)
	if want := []Disconnect{{Username: "c000000"}, {Username: "c000001"}, {Anonymous: true}}; !slices.Equal(disconnects, want) {
		t.Errorf("disconnects %v, want %v", disconnects, want)
	}
}

func TestImportBesideWhatIsThere(t *testing.T) {
	t.Parallel()
	s, report, disconnects := importInto(t, freshBroker(t), sampleDocument(), false)
	if clients, groups, roles := s.Counts(); clients != 3 || groups != 2 || roles != 3 {
		t.Errorf("%d clients, %d groups, %d roles", clients, groups, roles)
	}
	if s.Defaults() != DefaultDefaults() || s.AnonymousGroup() == "" || len(report.Warnings) != 1 || !slices.Equal(disconnects, []Disconnect{{Anonymous: true}}) {
		t.Errorf("settings %v, %q; warnings %q; disconnects %v", s.Defaults(), s.AnonymousGroup(), report.Warnings, disconnects)
	}
}

func TestImportRefusesAndDoesNothing(t *testing.T) {
	t.Parallel()
	there, _, _ := importInto(t, NewState(), sampleDocument(), false)
	for name, tc := range map[string]struct {
		d    func(*Document)
		kind broker.Kind
		want []string
	}{
		"what contradicts": {func(d *Document) {
			d.Clients[0].EncodedPassword += "A"
			d.Roles[0].AllowWildcardSubs = !d.Roles[0].AllowWildcardSubs
		}, broker.Exists, []string{`client "a"`, `role "r"`}},
		"a role that is not there": {func(d *Document) {
			d.Roles = d.Roles[:1]
		}, broker.Invalid, []string{`"s"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := sampleDocument()
			tc.d(&d)
			tx := there.Begin()
			c, err := contentOf(d)
			if err == nil {
				_, err = tx.Import(c, false, nil)
			}
			next, changes, disconnects := tx.End()
			if broker.KindOf(err) != tc.kind || len(changes)+len(disconnects) != 0 {
				t.Fatalf("got %v, changes %v, disconnects %v", err, changes, disconnects)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v does not name %s", err, part)
				}
			}
			sameState(t, "refused", there, next)
		})
	}
}

// TestImportMergesPasswordsAndRules imports the two files of one broker in
// either order.
func TestImportMergesPasswordsAndRules(t *testing.T) {
	t.Parallel()
	passwords := Document{Clients: []DocumentClient{{Username: "a", EncodedPassword: "$7$1$a"}, {Username: "c", EncodedPassword: "$7$1$c"}}}
	rules := Document{
		Clients: []DocumentClient{{Username: "a", Roles: []broker.RoleRef{{RoleName: "a", Priority: broker.NoPriority}}}},
		Roles:   []broker.Role{{RoleName: "a", AllowWildcardSubs: true, ACLs: []broker.ACL{{ACLType: broker.PublishClientSend, Topic: "t", Allow: true}}}},
	}
	for name, order := range map[string][]Document{"passwords first": {passwords, rules}, "rules first": {rules, passwords}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, _, _ := importInto(t, freshBroker(t), order[0], false)
			s, _, disconnects := importInto(t, first, order[1], false)
			if _, _, hasPassword, ok := s.Login("a"); !ok || !hasPassword {
				t.Error("client a has no password")
			}
			if r, ok := s.Rights("a"); !ok || !r.Allowed(PublishSend, "id", "t") {
				t.Error("client a did not get its rules")
			}
			if !slices.Equal(disconnects, []Disconnect{{Username: "a"}}) {
				t.Errorf("disconnects %v, want just a", disconnects)
			}
		})
	}
}
