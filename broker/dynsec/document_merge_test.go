package dynsec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/broker"
)

func TestMergeOfPasswordsAndRights(t *testing.T) {
	t.Parallel()
	hash := madeByMosquitto["2.0"].encoded
	users, _, err := ParsePasswordFile(strings.NewReader("bob:"+hash+"\nquiet:"+hash), false)
	if err != nil {
		t.Fatal(err)
	}
	rights, _, err := ParseACLFile(strings.NewReader("user bob\ntopic read a\nuser late\ntopic write b\npattern write c/%c"))
	if err != nil {
		t.Fatal(err)
	}
	members := []broker.MemberRef{{Username: "bob", Priority: -1}, {Username: "late", Priority: -1}, {Username: "quiet", Priority: -1}}
	want := Document{
		Clients: []DocumentClient{
			{Username: "bob", Roles: held("bob"), EncodedPassword: hash},
			{Username: "late", Roles: held("late")},
			{Username: "quiet", EncodedPassword: hash},
		},
		Groups: []broker.Group{
			{GroupName: anonymousName, Roles: held(everybodyName)},
			{GroupName: everybodyName, Roles: held(everybodyName), Clients: members},
		},
		AnonymousGroup: anonymousName,
		Roles:          rights.Roles,
	}
	for name, merge := range map[string]func() (Document, error){
		"rights to passwords": func() (Document, error) { return users.merge(rights) },
		"passwords to rights": func() (Document, error) { return rights.merge(users) },
	} {
		got, err := merge()
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%s: got %v; want (-) and got (+) differ:\n%s", name, err, diff)
		}
	}
}

func TestMergeJoinsRecords(t *testing.T) {
	t.Parallel()
	text, other := "text", "other"
	role := broker.Role{RoleName: "r", ACLs: []broker.ACL{acl(broker.PublishClientSend, "x", allow, 0), acl(broker.PublishClientSend, "y", allow, 1)}}
	turned := broker.Role{RoleName: "r", ACLs: []broker.ACL{role.ACLs[1], role.ACLs[0]}}
	a := Document{ChangeIndex: 3, Defaults: &Defaults{Subscribe: true}, Roles: []broker.Role{role},
		Clients: []DocumentClient{{Username: "c", TextName: &text, Roles: []broker.RoleRef{{RoleName: "r", Priority: 5}}}},
		Groups:  []broker.Group{{GroupName: "g", TextName: &text, Roles: held("r"), Clients: []broker.MemberRef{{Username: "c", Priority: 2}}}}}
	b := Document{ChangeIndex: 2, Roles: []broker.Role{turned}, AnonymousGroup: "g",
		Clients: []DocumentClient{{Username: "b"}, {Username: "c", ClientID: "id", TextName: &other, TextDescription: &other, Disabled: true, Roles: held("r")}},
		Groups:  []broker.Group{{GroupName: "g", TextDescription: &other, Clients: []broker.MemberRef{{Username: "b", Priority: 9}, {Username: "c", Priority: 9}}}}}
	got, err := a.merge(b)
	want := Document{ChangeIndex: 3, Defaults: &Defaults{Subscribe: true}, AnonymousGroup: "g", Roles: []broker.Role{turned},
		Clients: []DocumentClient{{Username: "b"}, {Username: "c", ClientID: "id", TextName: &text, TextDescription: &other, Disabled: true,
			Roles: []broker.RoleRef{{RoleName: "r", Priority: 5}}}},
		Groups: []broker.Group{{GroupName: "g", TextName: &text, TextDescription: &other, Roles: held("r"),
			Clients: []broker.MemberRef{{Username: "b", Priority: 9}, {Username: "c", Priority: 2}}}}}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Errorf("got %v; want (-) and got (+) differ:\n%s", err, diff)
	}
	if len(a.Clients) != 1 || len(a.Groups[0].Clients) != 1 || a.Clients[0].Disabled {
		t.Errorf("got %+v, want the first document as it was", a)
	}
}

func TestMergeCollisionsAreNamed(t *testing.T) {
	t.Parallel()
	a := Document{AnonymousGroup: "g", Roles: []broker.Role{{RoleName: "r"}},
		Clients: []DocumentClient{{Username: "c", ClientID: "x", EncodedPassword: madeByMosquitto["2.0"].encoded}}}
	b := Document{AnonymousGroup: "h", Roles: []broker.Role{{RoleName: "r", AllowWildcardSubs: true}},
		Clients: []DocumentClient{{Username: "c", ClientID: "y", EncodedPassword: madeByMosquitto["2.1"].encoded}}}
	_, err := a.merge(b)
	want := []string{
		`the anonymous group is "g" here and "h" there`,
		`client "c" has a password here and another there`,
		`client "c" is bound to the client id "x" here and to "y" there`,
		`role "r" is there already with other ACLs`,
	}
	if broker.KindOf(err) != broker.Exists {
		t.Fatalf("got %v, want an Exists error", err)
	}
	if diff := cmp.Diff(want, strings.Split(message(err), "; ")); diff != "" {
		t.Errorf("want (-) and got (+) differ:\n%s", diff)
	}
}
