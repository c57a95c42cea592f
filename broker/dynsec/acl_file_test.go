package dynsec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

const aclExample = "# who may what\r\n" +
	"topic read public/#\r\n" +
	"topic deny public/secret\r\n" +
	"\r\n" +
	"user roger\r\n" +
	"topic foo/bar\r\n" +
	"topic write  logs/a b\r\n" +
	"topic deny foo/bar\r\n" +
	"user ann of town\n" +
	"\ttopic\treadwrite\t$SYS/#\n" +
	"user roger\n" +
	"topic read foo/+\n" +
	"topic read foo/+\n" +
	"pattern write dev/%c/state\n" +
	"pattern read users/%u/#\n"

func TestACLFile(t *testing.T) {
	t.Parallel()
	ref := func(name string) []broker.RoleRef { return []broker.RoleRef{{RoleName: name, Priority: -1}} }
	want := Document{
		Clients: []DocumentClient{
			{Username: "ann of town", Roles: ref("ann of town")},
			{Username: "roger", Roles: ref("roger")},
		},
		Groups: []broker.Group{
			{GroupName: anonymousName, Roles: append(ref(anonymousName), ref(everybodyName)...)},
			{GroupName: everybodyName, Roles: ref(everybodyName), Clients: []broker.MemberRef{
				{Username: "ann of town", Priority: -1}, {Username: "roger", Priority: -1}}},
		},
		AnonymousGroup: anonymousName,
		Roles: []broker.Role{
			{RoleName: anonymousName, AllowWildcardSubs: true, ACLs: []broker.ACL{
				acl(broker.PublishClientSend, "public/secret", deny, 1),
				acl(broker.PublishClientReceive, "public/secret", deny, 1),
				acl(broker.PublishClientReceive, "public/#", allow, 0),
				acl(broker.SubscribePattern, "public/secret", deny, 1),
				acl(broker.SubscribePattern, "public/#", allow, 0),
			}},
			{RoleName: everybodyName, AllowWildcardSubs: true, ACLs: []broker.ACL{
				acl(broker.PublishClientSend, "dev/%c/state", allow, 0),
				acl(broker.PublishClientReceive, "users/%u/#", allow, 0),
				acl(broker.SubscribePattern, "users/%u/#", allow, 0),
			}},
			{RoleName: "ann of town", AllowWildcardSubs: true, ACLs: []broker.ACL{
				acl(broker.PublishClientSend, "$SYS/#", allow, 0),
				acl(broker.PublishClientReceive, "$SYS/#", allow, 0),
				acl(broker.SubscribePattern, "$SYS/#", allow, 0),
			}},
			{RoleName: "roger", AllowWildcardSubs: true, ACLs: []broker.ACL{
				acl(broker.PublishClientSend, "foo/bar", deny, 1),
				acl(broker.PublishClientSend, "logs/a b", allow, 0),
				acl(broker.PublishClientReceive, "foo/bar", deny, 1),
				acl(broker.PublishClientReceive, "foo/+", allow, 0),
				acl(broker.SubscribePattern, "foo/bar", deny, 1),
				acl(broker.SubscribePattern, "foo/+", allow, 0),
			}},
		},
	}
	d, warnings, err := ParseACLFile(strings.NewReader(aclExample))
	if diff := cmp.Diff(want, d); diff != "" || err != nil {
		t.Errorf("got %v; want (-) and got (+) differ:\n%s", err, diff)
	}
	if len(warnings) != 2 {
		t.Errorf("got warnings %q, want one of subscriptions and one of passwords", warnings)
	}
	if _, err := contentOf(d); err != nil {
		t.Errorf("the document is not sound: %v", err)
	}
}

func TestACLFileMakesAnAnonymousGroupOnlyWhereItHasRights(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"user a\ntopic x":                      "",
		"user a\ntopic x\npattern read u/%u/x": "",
		"pattern read c/%c/x":                  anonymousName,
		"topic x":                              anonymousName,
	}
	for file, want := range tests {
		if d, _, err := ParseACLFile(strings.NewReader(file)); err != nil || d.AnonymousGroup != want {
			t.Errorf("%q: got %q, %v, want %q", file, d.AnonymousGroup, err, want)
		}
	}
}

func TestACLFileFaultsAreNamed(t *testing.T) {
	t.Parallel()
	file := strings.Join([]string{
		"user",
		"user " + everybodyName,
		"topic",
		"topic read",
		"topic see a/b",
		"topic read a/#/b",
		"topic read dev/%c",
		"pattern read dev/x%c",
		"topics read a",
		"user a\x07",
		"user \xff",
		"topic read a\tb",
	}, "\n")
	want := []string{
		`line 1: the user's name must not be empty`,
		`line 2: the name "acl-everybody" is taken by what the import makes of the other lines`,
		`line 3: the topic is missing`,
		`line 5: access "see" is none of read, write, readwrite and deny`,
		`line 6: "a/#/b" is no topic filter`,
		`line 7: %c and %u count only in pattern lines, in "dev/%c" they would be given a meaning`,
		`line 8: %c and %u must be a whole level of "dev/x%c"`,
		`line 9: "topics" is none of topic, pattern and user`,
		`line 10: the user's name must be at most 65535 bytes of text without control characters`,
		`line 11: not UTF-8`,
		`line 12: "a\tb" is no topic filter`,
	}
	_, _, err := ParseACLFile(strings.NewReader(file))
	if broker.KindOf(err) != broker.Invalid {
		t.Fatalf("got %v, want an Invalid error", err)
	}
	if diff := cmp.Diff(want, strings.Split(message(err), "; ")); diff != "" {
		t.Errorf("want (-) and got (+) differ:\n%s", diff)
	}
}

func FuzzParseACLFile(f *testing.F) {
	f.Add(aclExample)
	f.Add("topic deny #\nuser u\npattern %u/#\ntopic write a b")
	f.Fuzz(func(t *testing.T, file string) {
		d, _, err := ParseACLFile(strings.NewReader(file))
		checkParsed(t, d, err)
	})
}
