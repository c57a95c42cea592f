package dynsec

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// exchange is one request to Mosquitto 2.1.2 and its response, with the usernames of the
// clients that were disconnected ("" is one without a username). If Why is set we
// decided otherwise, and Ours or OursCut is what must come.
type exchange struct {
	Title     string
	Request   string
	Response  string
	Connected []string
	Cut       []string
	Why       string
	Ours      *string
	OursCut   []string `json:"ours_cut"`
}

func (e exchange) want() (response string, cut []string) {
	response, cut = e.Response, e.Cut
	if e.Ours != nil {
		response = *e.Ours
	}
	if e.OursCut != nil {
		cut = e.OursCut
	}
	return response, cut
}

func readTranscript(t testing.TB) []exchange {
	t.Helper()
	f, err := os.Open("testdata/transcript.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []exchange
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e exchange
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// run processes a whole request as a broker would: hash, run, respond.
func run(s *State, request []byte, live Connections) (answer []byte, next *State, changes []Change, disconnects []Disconnect) {
	r := DecodeRequest(request)
	tx := s.Begin()
	answers := make([]Response, 0, len(r.Commands)+1)
	for _, c := range r.Commands {
		if _, ok := c.PasswordToHash(); ok {
			c.SetPasswordHash("$7$1$c2FsdA==$aGFzaA==")
		}
		answers = append(answers, tx.Do(c, live))
	}
	if r.Fault != nil {
		answers = append(answers, *r.Fault)
	}
	next, changes, disconnects = tx.End()
	return EncodeResponses(answers), next, changes, disconnects
}

// freshBroker returns what mosquitto_ctrl sets up: one administrator with one role.
func freshBroker(t testing.TB) *State {
	t.Helper()
	acl := func(aclType broker.ACLType, topic string) broker.ACL {
		return broker.ACL{ACLType: aclType, Topic: topic, Allow: true}
	}
	const control = "$CONTROL/dynamic-security/#"
	text := "Dynsec admin user"
	s, err := Load(LoadRecords{
		Roles: slices.Values([]RoleRecord{{RoleName: "admin", AllowWildcardSubs: true, ACLs: []broker.ACL{
			acl(broker.PublishClientSend, control),
			acl(broker.PublishClientReceive, control), acl(broker.PublishClientReceive, "$SYS/#"), acl(broker.PublishClientReceive, "#"),
			acl(broker.SubscribePattern, control), acl(broker.SubscribePattern, "$SYS/#"), acl(broker.SubscribePattern, "#"),
			acl(broker.UnsubscribePattern, "#"),
		}}}),
		Groups: slices.Values([]GroupRecord(nil)),
		Clients: slices.Values([]ClientRecord{{Username: "admin", TextName: &text, HasPassword: true,
			Roles: []broker.RoleRef{{RoleName: "admin", Priority: broker.NoPriority}}}}),
		Defaults: DefaultDefaults(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTranscript(t *testing.T) {
	t.Parallel()
	s := freshBroker(t)
	for _, e := range readTranscript(t) {
		live := func(username string) []broker.Connection {
			var l []broker.Connection
			for _, c := range append(slices.Clone(e.Connected), "admin") {
				if c == username {
					l = append(l, broker.Connection{Address: "127.0.0.1"})
				}
			}
			return l
		}
		answer, next, changes, disconnects := run(s, []byte(e.Request), live)
		wantAnswer, wantCut := e.want()
		if got := string(answer); got != wantAnswer {
			t.Errorf("%s:\nasked %s\ngot   %s\nwant  %s", e.Title, e.Request, got, wantAnswer)
		}
		if got := disconnected(disconnects, e.Connected); e.Connected != nil && !slices.Equal(got, wantCut) {
			t.Errorf("%s: cut off %q, want %q", e.Title, got, wantCut)
		}
		checkChanges(t, e.Title, s, next, changes)
		s = next
	}
	checkIndexes(t, s)
}

// disconnected returns the usernames of the connected clients to disconnect, "" for those
// without one, in order.
func disconnected(disconnects []Disconnect, connected []string) []string {
	l := []string{}
	for _, c := range disconnects {
		if (c.Username == "") == c.Anonymous && slices.Contains(connected, c.Username) {
			l = append(l, c.Username)
		}
	}
	slices.Sort(l)
	return l
}

// TestTranscriptDecided keeps the list of deliberate differences short and known.
func TestTranscriptDecided(t *testing.T) {
	t.Parallel()
	var got []string
	for _, e := range readTranscript(t) {
		if (e.Ours != nil || e.OursCut != nil) != (e.Why != "") {
			t.Errorf("%s: what is ours must say why", e.Title)
		}
		if e.Why != "" {
			got = append(got, e.Title)
		}
	}
	want := []string{
		"an element that is no object, after one with correlationData",
		"getDefaultACLAccess: nothing of that took",
		"listRoles, count 0",
		"cut off: addGroupClient that fails (in it already)",
		"cut off: addGroupClient that fails (no such group)",
		"cut off: removeGroupClient of one not in it",
		"cut off: modifyGroup, text only",
		"half-way: getGroup g",
		"half-way: getGroup h",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decided otherwise (-want +got):\n%s", diff)
	}
}
