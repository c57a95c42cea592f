package dynsec

import (
	"encoding/json"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// TestResponsesOfTheTranscriptComeBackTheSame decodes Mosquitto's responses and encodes
// them again.
func TestResponsesOfTheTranscriptComeBackTheSame(t *testing.T) {
	t.Parallel()
	for _, e := range readTranscript(t) {
		answers, err := DecodeResponses([]byte(e.Response))
		if err != nil {
			t.Errorf("%s: %v", e.Title, err)
			continue
		}
		if got := string(EncodeResponses(answers)); got != e.Response {
			t.Errorf("%s:\ngot  %s\nwant %s", e.Title, got, e.Response)
		}
	}
}

func decodeOneAnswer(t *testing.T, response string) Response {
	t.Helper()
	answers, err := DecodeResponses([]byte(`{"responses":[` + response + `]}`))
	if err != nil || len(answers) != 1 {
		t.Fatalf("%s: %v, %v", response, answers, err)
	}
	return answers[0]
}

func TestDecodeAnswersOfMosquitto20(t *testing.T) {
	t.Parallel()
	t.Run("a client without connections has none", func(t *testing.T) {
		t.Parallel()
		got, err := decodeOneAnswer(t, `{"command":"getClient","data":{"client":{"username":"u","disabled":true,"roles":[{"rolename":"r"},{"rolename":"s","priority":2}],"groups":[]}}}`).Client()
		want := broker.Client{Username: "u", Disabled: true, Groups: []broker.GroupRef{}, Connections: []broker.Connection{},
			Roles: []broker.RoleRef{{RoleName: "r", Priority: broker.NoPriority}, {RoleName: "s", Priority: 2}}}
		if diff := gocmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("a role without allowwildcardsubs allows them", func(t *testing.T) {
		t.Parallel()
		got, err := record[broker.Role](decodeOneAnswer(t, `{"command":"getRole","data":{"role":{"rolename":"r","acls":[{"acltype":"subscribePattern","topic":"a/#","priority":-1,"allow":true}]}}}`))
		want := broker.Role{RoleName: "r", AllowWildcardSubs: true, ACLs: []broker.ACL{{ACLType: broker.SubscribePattern, Topic: "a/#", Priority: -1, Allow: true}}}
		if diff := gocmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
	t.Run("names come as records with a name", func(t *testing.T) {
		t.Parallel()
		total, got, err := decodeOneAnswer(t, `{"command":"listGroups","data":{"totalCount":7,"groups":["a","b"]}}`).Groups()
		if err != nil || total != 7 || len(got) != 2 || got[0].GroupName != "a" || got[1].GroupName != "b" {
			t.Errorf("got %d, %v, %v", total, got, err)
		}
	})
	t.Run("an empty list is one", func(t *testing.T) {
		t.Parallel()
		total, got, err := decodeOneAnswer(t, `{"command":"listRoles","data":{"totalCount":7,"roles":[]}}`).Roles()
		if err != nil || total != 7 || len(got) != 0 {
			t.Errorf("got %d, %v, %v", total, got, err)
		}
	})
}

func TestDecodeAnswersClassifies(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]broker.Kind{
		`{"error": "endpoint not available"}`: broker.Unsupported,
		`not json`:                            broker.Internal,
		`{}`:                                  broker.Internal,
		`{"responses":"x"}`:                   broker.Internal,
	} {
		if _, err := DecodeResponses([]byte(payload)); err == nil || broker.KindOf(err) != want {
			t.Errorf("%s: %v of kind %d, want %d", payload, err, broker.KindOf(err), want)
		}
	}
}

func TestAnswerWithoutItsDataIsAnError(t *testing.T) {
	t.Parallel()
	for _, response := range []string{
		`{"command":"getClient"}`, `{"command":"getClient","data":{}}`, `{"command":"getClient","data":5}`,
		`{"command":"listClients","data":{"clients":"x"}}`, `{"command":"getRole","data":{"role":{"rolename":"r"}}}`,
	} {
		a := decodeOneAnswer(t, response)
		_, one := a.Client()
		_, _, all := a.Clients()
		if one == nil || all == nil {
			t.Errorf("%s: gave a client (%v) or a list (%v)", response, one, all)
		}
	}
	if _, err := decodeOneAnswer(t, `{"command":"getClient","error":"Client not found"}`).Client(); broker.KindOf(err) != broker.NotFound {
		t.Errorf("got %v, want the answer's own error", err)
	}
}

func TestResponseReturnsDefaultsAndAnonymousGroup(t *testing.T) {
	t.Parallel()
	got, err := decodeOneAnswer(t, `{"command":"getDefaultACLAccess","data":{"acls":[{"acltype":"publishClientSend","allow":false},{"acltype":"subscribe","allow":true}]}}`).DefaultACLAccess()
	want := []broker.DefaultACL{{ACLType: "publishClientSend"}, {ACLType: "subscribe", Allow: true}}
	if diff := gocmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	name, err := data[anonymousGroup](decodeOneAnswer(t, `{"command":"getAnonymousGroup","data":{"group":{"groupname":"g"}}}`))
	if err != nil || name != "g" {
		t.Errorf("got %q, %v", name, err)
	}
}

func TestGetDetails(t *testing.T) {
	t.Parallel()
	answer, s, _, _ := run(freshBroker(t), []byte(`{"commands":[{"command":"createRole","rolename":"r"},{"command":"createGroup","groupname":"g"},{"command":"getDetails","correlationData":"d"}]}`), nil)
	want := `{"responses":[{"command":"createRole"},{"command":"createGroup"},{"command":"getDetails","data":{"clientCount":1,"groupCount":1,"roleCount":2,"changeIndex":2},"correlationData":"d"}]}`
	if string(answer) != want {
		t.Errorf("got  %s\nwant %s", answer, want)
	}
	if s.ChangeIndex() != 2 {
		t.Errorf("change index %d, want 2", s.ChangeIndex())
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for text, want := range map[refusal]broker.Kind{
		errUnknownCommand: broker.Unsupported,
		errClientNotFound: broker.NotFound, errGroupNotFound: broker.NotFound, errRoleNotFound: broker.NotFound,
		errRoleNone: broker.NotFound, errACLNotFound: broker.NotFound, errGroupsUnknown: broker.NotFound, errClientsUnknown: broker.NotFound,
		errClientExists: broker.Exists, errGroupExists: broker.Exists, errRoleExists: broker.Exists,
		errACLExists: broker.Exists, errMember: broker.Exists, errGroupHasRole: broker.Exists,
		errGroupAnonymous: broker.Conflict,
		errUsername:       broker.Invalid, errUsernameEmpty: broker.Invalid, errUsernameUTF8: broker.Invalid,
		errPassword: broker.Invalid, errPasswordEmpty: broker.Invalid, errClientIDCreate: broker.Invalid, errClientIDUTF8: broker.Invalid,
		errRoles: broker.Invalid, errGroupsInvalid: broker.Invalid, errClientsInvalid: broker.Invalid, errWildcardSubs: broker.Invalid,
		errACLTypeUnknown: broker.Invalid, errTopicInvalid: broker.Invalid, errActions: broker.Invalid,
		errNotJSON: broker.Invalid, errNoCommands: broker.Invalid, errNoObject: broker.Invalid, errCorrelation: broker.Invalid,
		errInternal: broker.Internal, "Something else": broker.Internal,
	} {
		err := classify("op", string(text))
		if got := broker.KindOf(err); got != want {
			t.Errorf("%q is of kind %d, want %d", text, got, want)
		}
	}
}

func FuzzDecodeAnswers(f *testing.F) {
	for _, e := range readTranscript(f) {
		f.Add([]byte(e.Response))
	}
	f.Add([]byte(`{"error": "endpoint not available"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		answers, err := DecodeResponses(payload)
		if err != nil {
			return
		}
		again := EncodeResponses(answers)
		if !json.Valid(again) {
			t.Fatalf("%q became what is not JSON: %q", payload, again)
		}
		for _, a := range answers {
			a.Client()
			a.Clients()
			a.Groups()
			a.Roles()
		}
	})
}
