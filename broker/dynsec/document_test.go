package dynsec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// message returns the sentence for the user in an error of a parser.
func message(err error) string {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return e.Msg
	}
	return ""
}

func parsed(t *testing.T, b []byte) (Document, []string) {
	t.Helper()
	c, warnings, err := ParseDocument(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return c.Document(), warnings
}

func compact(t *testing.T, b []byte) string {
	t.Helper()
	var c bytes.Buffer
	if err := json.Compact(&c, b); err != nil {
		t.Fatal(err)
	}
	return c.String()
}

func TestFileOfMosquitto21ComesOutAsItCame(t *testing.T) {
	t.Parallel()
	file := readTestdata(t, "mosquitto-2.1.json")
	d, warnings := parsed(t, file)
	if len(warnings) > 0 {
		t.Errorf("got warnings %q, want none", warnings)
	}
	b, err := d.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(compact(t, file), compact(t, b)); diff != "" {
		t.Errorf("what was read (-) and written (+) differ:\n%s", diff)
	}
}

// Both brokers executed the same commands, so that their files are equivalent in two
// formats; only passwords and what 2.0 does not support differ.
func TestFileOfMosquitto20IsEquivalent(t *testing.T) {
	t.Parallel()
	old, warnings := parsed(t, readTestdata(t, "mosquitto-2.0.json"))
	if len(warnings) > 0 {
		t.Errorf("got warnings %q, want none", warnings)
	}
	now, _ := parsed(t, readTestdata(t, "mosquitto-2.1.json"))
	for i, c := range old.Clients {
		if (c.EncodedPassword == "") != (now.Clients[i].EncodedPassword == "") {
			t.Errorf("client %q: got password %v, want the other", c.Username, c.EncodedPassword != "")
		}
		old.Clients[i].EncodedPassword = now.Clients[i].EncodedPassword
	}
	old.ChangeIndex = now.ChangeIndex
	if diff := cmp.Diff(now, old); diff != "" {
		t.Errorf("2.1 (-) and 2.0 (+) differ:\n%s", diff)
	}
}

func TestPasswordsOfBothFilesAreKept(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mosquitto-2.0.json", "mosquitto-2.1.json"} {
		d, _ := parsed(t, readTestdata(t, name))
		i := slices.IndexFunc(d.Clients, func(c DocumentClient) bool { return c.Username == "free" })
		verifies(t, name, d.Clients[i].EncodedPassword, "freepw")
	}
}

func TestFileOfMosquittoCtrl(t *testing.T) {
	t.Parallel()
	d, warnings := parsed(t, readTestdata(t, "mosquitto_ctrl-2.0-init.json"))
	if len(warnings) > 0 {
		t.Errorf("got warnings %q, want none", warnings)
	}
	if len(d.Clients) != 1 || d.Clients[0].TextName == nil || *d.Clients[0].TextName != "Dynsec admin user" {
		t.Errorf("got clients %+v, want one whose textName was read", d.Clients)
	}
	verifies(t, "admin", d.Clients[0].EncodedPassword, "pw12345")
	if len(d.Roles) != 1 || len(d.Roles[0].ACLs) != 8 || !d.Roles[0].AllowWildcardSubs {
		t.Errorf("got roles %+v, want one with 8 ACLs and wildcards", d.Roles)
	}
}

func TestDocumentIsReadAsMosquittoReadsIt(t *testing.T) {
	t.Parallel()
	d, warnings := parsed(t, []byte(`{
		"DEFAULTaclACCESS": {"publishclientsend": true},
		"clients": [
			{"username": "b", "ROLES": [{"rolename": "r1"}, {"rolename": "r2", "priority": 7.9}, {"rolename": "r1", "priority": 9}], "clientid": null},
			{"username": "a", "groups": [], "encoded_password": null, "disabled": null},
			{"username": "c", "groups": [{"groupname": "g"}], "encoded_password": "`+madeByMosquitto["2.1"].encoded+`", "password": "x", "salt": "y"}
		],
		"groups": [{"groupname": "g", "clients": [{"username": "b", "priority": 3}, {"username": "a"}, {"username": "b"}], "textname": ""}],
		"roles": [
			{"rolename": "r2", "allowwildcardsubs": false, "acls": null},
			{"rolename": "r1", "acls": [
				{"acltype": "SUBSCRIBEPATTERN", "topic": "x", "priority": 999999},
				{"acltype": "publishClientSend", "topic": "low", "allow": true},
				{"acltype": "publishClientSend", "topic": "high", "allow": true, "priority": 1},
				{"acltype": "publishClientSend", "topic": "low", "allow": false},
				{"acltype": "publishClientSend", "topic": "bad/#/x", "allow": true},
				{"acltype": "subscribeLiteral", "topic": "bad+", "allow": true}
			]}
		],
		"anonymousGroup": "g",
		"extra": {"deep": [1, {"a": 2}]}
	}`))
	empty := ""
	want := Document{
		Defaults: &Defaults{PublishClientSend: true},
		Clients: []DocumentClient{
			{Username: "a"},
			{Username: "b", Roles: []broker.RoleRef{{RoleName: "r2", Priority: 7}, {RoleName: "r1", Priority: broker.NoPriority}}},
			{Username: "c", EncodedPassword: madeByMosquitto["2.1"].encoded},
		},
		Groups: []broker.Group{{GroupName: "g", TextName: &empty, Clients: []broker.MemberRef{
			{Username: "a", Priority: broker.NoPriority}, {Username: "b", Priority: 3}}}},
		AnonymousGroup: "g",
		Roles: []broker.Role{
			{RoleName: "r1", AllowWildcardSubs: true, ACLs: []broker.ACL{
				acl(broker.PublishClientSend, "high", allow, 1), acl(broker.PublishClientSend, "low", allow, 0),
				acl(broker.PublishClientSend, "bad/#/x", allow, 0), acl(broker.SubscribeLiteral, "bad+", allow, 0),
				acl(broker.SubscribePattern, "x", deny, 100000),
			}},
			{RoleName: "r2"},
		},
	}
	if diff := cmp.Diff(normal(want), normal(d)); diff != "" {
		t.Errorf("want (-) and got (+) differ:\n%s", diff)
	}
	wantWarnings := []string{
		`line 4: clients[0].ROLES[2]: role "r1" is held already, this one is passed over`,
		`line 5: clients[1].groups: is not known here and passed over`,
		`line 8: groups[0].clients[2]: client "b" is a member already, this one is passed over`,
		`line 15: roles[1].acls[3]: an ACL of type publishClientSend with topic "low" stands before this one, which is passed over`,
		`line 16: roles[1].acls[4]: "bad/#/x" is no topic filter: the ACL denies what agrees with it up to the misplaced wildcard`,
		`line 17: roles[1].acls[5]: "bad+" is no topic filter: the ACL is without effect`,
		`line 21: extra: is not known here and passed over`,
	}
	if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
		t.Errorf("warnings: want (-) and got (+) differ:\n%s", diff)
	}
}

func TestDocumentWithoutDefaultsDenies(t *testing.T) {
	t.Parallel()
	d, warnings := parsed(t, []byte(`{}`))
	if d.Defaults == nil || *d.Defaults != (Defaults{}) || len(warnings) != 1 {
		t.Errorf("got %+v, warnings %q, want all denied and one warning", d.Defaults, warnings)
	}
}

func TestDocumentFaultsAreNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ document, want string }{
		"empty":              {"", "line 1: the file ends too early"},
		"white space":        {" \n\n", "the file ends too early"},
		"cut off":            {"{\n\"clients\": [{", "line 2: clients[0]: the file ends too early"},
		"not JSON":           {"{\n\"clients\": nope}", "line 2: clients: not JSON: invalid character"},
		"no object":          {"[]", "line 1: must be an object"},
		"text after the end": {"{}\n{}", "something follows after the end"},
		"not UTF-8":          {"{\n\"clients\": \"\xff\"}", "line 2: not UTF-8"},
		"member twice":       {"{\"roles\": [],\n\"Roles\": []}", "line 2: Roles: is there twice"},
		"clients no array":   {`{"clients": {}}`, "line 1: clients: must be an array"},
		"client no object":   {`{"clients": ["x"]}`, "clients[0]: must be an object"},
		"no username":        {`{"clients": [{"textname": "x"}]}`, "clients[0]: username is missing"},
		"empty username":     {`{"clients": [{"username": ""}]}`, "clients[0].username: must not be empty"},
		"username a number":  {`{"clients": [{"username": 5}]}`, "clients[0].username: must be a string"},
		"control character":  {`{"clients": [{"username": "a\u0007"}]}`, "clients[0].username: must be at most 65535 bytes of text without control characters"},
		"bad client id":      {`{"clients": [{"username": "a", "clientid": "\u0000"}]}`, "clients[0].clientid: must be"},
		"disabled a string":  {`{"clients": [{"username": "a", "disabled": "yes"}]}`, "clients[0].disabled: must be true or false"},
		"iterations a text":  {`{"clients": [{"username": "a", "iterations": "1"}]}`, "clients[0].iterations: must be a number"},
		"huge number":        {`{"changeIndex": 1e300}`, "changeIndex: must be a number within"},
		"password, no salt":  {`{"clients": [{"username": "a", "password": "x"}]}`, `clients[0]: client "a": password: not a password hash`},
		"password of $6$":    {`{"clients": [{"username": "a", "encoded_password": "$6$a$b"}]}`, `clients[0]: client "a": password: not a password hash`},
		"no rolename":        {"{\"roles\": [\n{}]}", "line 2: roles[0]: rolename is missing"},
		"no groupname":       {`{"groups": [{}]}`, "groups[0]: groupname is missing"},
		"ref without name":   {`{"clients": [{"username": "a", "roles": [{"priority": 1}]}]}`, "clients[0].roles[0]: rolename is missing"},
		"unknown ACL type":   {`{"roles": [{"rolename": "r", "acls": [{"acltype": "x"}]}]}`, `roles[0].acls[0].acltype: no ACL is of type "x"`},
		"ACL without type":   {`{"roles": [{"rolename": "r", "acls": [{"topic": "x"}]}]}`, "roles[0].acls[0]: acltype is missing"},
		"ACL without topic":  {`{"roles": [{"rolename": "r", "acls": [{"acltype": "subscribeLiteral"}]}]}`, "roles[0].acls[0]: topic is missing"},
		"names twice": {`{"clients": [{"username": "a"}, {"username": "a"}], "groups": [{"groupname": "g"}, {"groupname": "g"}],
			"roles": [{"rolename": "r"}, {"rolename": "r"}]}`, `role "r" is there twice; group "g" is there twice; client "a" is there twice`},
		"references to nothing": {`{"clients": [{"username": "a", "roles": [{"rolename": "r"}]}], "anonymousGroup": "h",
			"groups": [{"groupname": "g", "roles": [{"rolename": "s"}], "clients": [{"username": "b"}]}]}`,
			`client "a" has the role "r", which is no role here; group "g" has the role "s", which is no role here; ` +
				`group "g" has the member "b", which is no client here; the anonymous group "h" is no group here`},
	}
	for name, tt := range tests {
		c, _, err := ParseDocument(strings.NewReader(tt.document))
		if err == nil || !strings.Contains(message(err), tt.want) {
			t.Errorf("%s: got %v, want one with %q", name, err, tt.want)
		}
		if broker.KindOf(err) != broker.Invalid {
			t.Errorf("%s: got kind %v, want Invalid", name, broker.KindOf(err))
		}
		if c != nil {
			t.Errorf("%s: got %+v beside the error, want nothing", name, c)
		}
	}
}

func TestManyFaultsAndWarningsAreCounted(t *testing.T) {
	t.Parallel()
	clients := strings.Repeat(`{"username": "a"},`, 30) + `{"username": "b"}`
	_, _, err := ParseDocument(strings.NewReader(`{"clients": [` + clients + `]}`))
	if err == nil || strings.Count(message(err), "there twice") != maxNamed || !strings.HasSuffix(message(err), "; and 9 more") {
		t.Errorf("got %v, want 20 faults and 9 more", err)
	}
	var acls []string
	for i := range maxWarnings + 5 {
		acls = append(acls, fmt.Sprintf(`{"acltype": "publishClientSend", "topic": "a%d+"}`, i))
	}
	_, warnings := parsed(t, []byte(`{"defaultACLAccess": {}, "roles": [{"rolename": "r", "acls": [`+strings.Join(acls, ",")+`]}]}`))
	if n := len(warnings); n != maxWarnings+1 || warnings[n-1] != "5 more of these" {
		t.Errorf("got %d warnings, want %d and the number of the others", n, maxWarnings)
	}
}

func TestMarshalOfNothing(t *testing.T) {
	t.Parallel()
	b, err := Document{}.Marshal()
	want := `{"changeIndex":0,"defaultACLAccess":{"publishClientSend":false,"publishClientReceive":true,"subscribe":false,"unsubscribe":true},"clients":[],"groups":[],"roles":[]}`
	if err != nil || compact(t, b) != want {
		t.Errorf("got %s, %v, want %s", b, err, want)
	}
}

func TestMarshalWritesTextsAsTheyAre(t *testing.T) {
	t.Parallel()
	text := `<a & "b">`
	b, err := Document{Clients: []DocumentClient{{Username: "a&b", TextName: &text}}}.Marshal()
	if err != nil || !bytes.Contains(b, []byte(`"textname": "<a & \"b\">"`)) {
		t.Errorf("got %s, %v, want the text without needless escapes", b, err)
	}
}

func TestMarshalKeepsOldPasswordsReadableForOldBrokers(t *testing.T) {
	t.Parallel()
	d := Document{Clients: []DocumentClient{
		{Username: "old", EncodedPassword: madeByMosquitto["2.0"].encoded},
		{Username: "new", EncodedPassword: madeByMosquitto["2.1"].encoded},
	}}
	b, err := d.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte(`"salt": "+19SKJg1nb0z9Pyc"`)); n != 1 || bytes.Count(b, []byte(`"iterations": 101`)) != 1 {
		t.Errorf("got %s, want the old form beside the new one for the old client only", b)
	}
	again, _ := parsed(t, b)
	if got := again.Clients[1].EncodedPassword; got != d.Clients[0].EncodedPassword {
		t.Errorf("got %q back, want %q", got, d.Clients[0].EncodedPassword)
	}
}

// What was read can be written, and is the same when it is read again.
func FuzzParseDocument(f *testing.F) {
	for _, name := range []string{"mosquitto-2.0.json", "mosquitto-2.1.json", "mosquitto_ctrl-2.0-init.json"} {
		f.Add(readTestdata(f, name))
	}
	f.Add([]byte(`{"groups": [{"groupname": "g", "clients": [{"username": "a"}]}], "clients": [{"username": "a"}], "anonymousgroup": "g"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, _, err := ParseDocument(bytes.NewReader(b))
		if err != nil {
			if broker.KindOf(err) != broker.Invalid {
				t.Fatalf("got %v, want kind Invalid", err)
			}
			return
		}
		d := c.Document()
		out, err := d.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := ParseDocument(bytes.NewReader(out))
		if err != nil {
			t.Fatalf("read again: %v\n%s", err, out)
		}
		if diff := cmp.Diff(normal(d), normal(again.Document())); diff != "" {
			t.Errorf("read (-) and read again (+) differ:\n%s", diff)
		}
	})
}

// normal replaces nil lists by empty ones, as they are written.
func normal(d Document) Document {
	d.Clients, d.Groups, d.Roles = notNil(slices.Clone(d.Clients)), notNil(slices.Clone(d.Groups)), notNil(slices.Clone(d.Roles))
	for i := range d.Clients {
		d.Clients[i].Roles = notNil(d.Clients[i].Roles)
	}
	for i := range d.Groups {
		d.Groups[i].Roles, d.Groups[i].Clients = notNil(d.Groups[i].Roles), notNil(d.Groups[i].Clients)
	}
	for i := range d.Roles {
		d.Roles[i].ACLs = notNil(d.Roles[i].ACLs)
	}
	return d
}
