package dynsec_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/dynsec"
	"signalbox/scripts/suite"
)

// connect connects to a broker; the error is the broker's response.
func connect(t *testing.T, s *brokertest.Server, clientID, username, password string, each mqtt.MessageHandler) (mqtt.Client, error) {
	t.Helper()
	o := mqtt.NewClientOptions().AddBroker("tcp://" + s.Addr).SetProtocolVersion(4).
		SetClientID(clientID).SetUsername(username).SetPassword(password).
		SetAutoReconnect(false).SetConnectRetry(false).SetConnectTimeout(suite.HangLimit).SetKeepAlive(0).
		SetDefaultPublishHandler(each)
	c := mqtt.NewClient(o)
	token := c.Connect()
	if !token.WaitTimeout(suite.HangLimit) {
		t.Fatalf("%s: no answer to CONNECT", username)
	}
	t.Cleanup(func() { c.Disconnect(0) })
	return c, token.Error()
}

func mustConnect(t *testing.T, s *brokertest.Server, clientID, username string, each mqtt.MessageHandler) mqtt.Client {
	t.Helper()
	c, err := connect(t, s, clientID, username, "freepw", each)
	if err != nil {
		t.Fatalf("%s cannot log in: %v", username, err)
	}
	return c
}

func done(t *testing.T, what string, token mqtt.Token) {
	t.Helper()
	if !token.WaitTimeout(suite.HangLimit) || token.Error() != nil {
		t.Fatalf("%s: %v", what, token.Error())
	}
}

// oldDocument returns a file of Mosquitto 2.0 with an admin, and with one password for
// those of its clients that connect.
func oldDocument(t *testing.T) dynsec.Document {
	t.Helper()
	b, err := os.ReadFile("testdata/mosquitto-2.0.json")
	if err != nil {
		t.Fatal(err)
	}
	content, _, err := dynsec.ParseDocument(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	d := content.Document()
	free := d.Clients[slices.IndexFunc(d.Clients, func(c dynsec.DocumentClient) bool { return c.Username == "free" })]
	for i, c := range d.Clients {
		if c.Username == "bound" || c.Username == "off" {
			d.Clients[i].EncodedPassword = free.EncodedPassword
		}
	}
	admin := dynsec.DocumentClient{Username: "admin", EncodedPassword: free.EncodedPassword,
		Roles: []broker.RoleRef{{RoleName: "admin", Priority: broker.NoPriority}}}
	d.Clients = append([]dynsec.DocumentClient{admin}, d.Clients...)
	return d
}

func TestMosquittoLoadsWhatMarshalWrites(t *testing.T) {
	t.Parallel()
	d := oldDocument(t)
	b, err := d.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	s := brokertest.Mosquitto(t, brokertest.WithDynsec(b))
	connections := []struct {
		clientID, username, password string
		want                         bool
	}{
		{"c1", "free", "freepw", true},
		{"c2", "free", "wrong", false},
		{"bound-id", "bound", "freepw", true},
		{"c3", "bound", "freepw", false},
		{"c4", "off", "freepw", false},
		{"c5", "nopw", "", false},
	}
	for _, l := range connections {
		if _, err := connect(t, s, l.clientID, l.username, l.password, nil); (err == nil) != l.want {
			t.Errorf("%s as %q with %q: got %v, want let in %v", l.username, l.clientID, l.password, err, l.want)
		}
	}
	t.Run("and understands all of it", func(t *testing.T) { rewritten(t, s, d) })
}

// rewritten makes the broker write its file anew and compares the content.
func rewritten(t *testing.T, s *brokertest.Server, want dynsec.Document) {
	answers := make(chan string, 1)
	c := mustConnect(t, s, "ctl", "admin", func(_ mqtt.Client, m mqtt.Message) { answers <- string(m.Payload()) })
	done(t, "subscribe", c.Subscribe(dynsec.ResponseTopic, 1, nil))
	done(t, "publish", c.Publish(dynsec.Topic, 1, false, `{"commands":[{"command":"createRole","rolename":"zz"}]}`))
	select {
	case got := <-answers:
		if got != `{"responses":[{"command":"createRole"}]}` {
			t.Fatalf("got answer %s", got)
		}
	case <-time.After(suite.HangLimit):
		t.Fatal("no answer")
	}
	b, err := os.ReadFile(s.DynsecPath)
	if err != nil {
		t.Fatal(err)
	}
	content, warnings, err := dynsec.ParseDocument(bytes.NewReader(b))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("got %v, %q from the broker's file", err, warnings)
	}
	want.Roles = append(want.Roles, broker.Role{RoleName: "zz", AllowWildcardSubs: true})
	if diff := cmp.Diff(want, content.Document(), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(dynsec.Document{}, "ChangeIndex")); diff != "" {
		t.Errorf("what was written (-) and what the broker understood (+) differ:\n%s", diff)
	}
}

// The users and topics with which an acl_file and its conversion are compared.
const aclFile = `
topic read news/#
topic deny news/secret
user watcher
topic read #
user driver
topic write #
user roger
topic foo/bar
topic write logs/a b
topic deny foo/no
topic readwrite foo/+
topic read $SYS/#
user ann
topic read foo/#
topic deny foo/bar/#
topic write users/roger/in
topic write $own/#
pattern write dev/%c/state
pattern read users/%u/#
pattern deny users/+/private
pattern write marks/#
pattern read marks/#
`

var (
	aclUsers  = []string{"roger", "ann", ""}
	aclTopics = []string{
		"foo", "foo/bar", "foo/no", "foo/x", "foo/bar/x", "logs/a b", "logs/a", "news/today", "news/secret", "news",
		"users/roger/in", "users/ann/in", "users/ann/private", "users/roger", "dev/id-roger/state", "dev/id-ann/state",
		"dev/id-/state", "dev/other/state", "$own/x", "elsewhere", "/", "foo/",
	}
)

func TestACLFileMeansWhatItMeantInMosquitto(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "acl")
	if err := os.WriteFile(path, []byte(aclFile), 0o600); err != nil {
		t.Fatal(err)
	}
	state := stateOf(t, aclFile)
	s := brokertest.Mosquitto(t, brokertest.WithoutPlugin(), brokertest.WithConfig("acl_file "+path))
	watcher := newListener(t, s, "watcher", "#", "$own/#")
	driver := mustConnect(t, s, "id-driver", "driver", nil)
	for _, username := range aclUsers {
		rights := state.AnonymousRights()
		if username != "" {
			rights, _ = state.Rights(username)
		}
		allowed := func(ev dynsec.Event) (topics []string) {
			for _, topic := range aclTopics {
				if rights.Allowed(ev, "id-"+username, topic) {
					topics = append(topics, topic)
				}
			}
			return topics
		}
		l := newListener(t, s, username, "#", "$own/#")
		publishAll(t, driver, append(slices.Clone(aclTopics), "marks/received"))
		if diff := cmp.Diff(undollared(allowed(dynsec.PublishReceive)), l.until(t, "marks/received")); diff != "" {
			t.Errorf("%q receives: here (-) and by Mosquitto (+) differ:\n%s", username, diff)
		}
		watcher.until(t, "marks/received")
		publishAll(t, l.client, append(slices.Clone(aclTopics), "marks/sent"))
		if diff := cmp.Diff(undollared(allowed(dynsec.PublishSend)), watcher.until(t, "marks/sent")); diff != "" {
			t.Errorf("%q sends: here (-) and by Mosquitto (+) differ:\n%s", username, diff)
		}
		l.client.Disconnect(0)
	}
}

// undollared leaves out what the watcher, whose right is #, does not receive.
func undollared(topics []string) []string {
	return slices.DeleteFunc(topics, func(topic string) bool { return strings.HasPrefix(topic, "$") })
}

func publishAll(t *testing.T, c mqtt.Client, topics []string) {
	t.Helper()
	for _, topic := range topics {
		done(t, "publish to "+topic, c.Publish(topic, 1, false, "x"))
	}
}

// stateOf returns the state of an acl_file, which allows nothing by default.
func stateOf(t *testing.T, file string) *dynsec.State {
	t.Helper()
	d, _, err := dynsec.ParseACLFile(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	d.Defaults = &dynsec.Defaults{}
	b, err := d.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := dynsec.ParseDocument(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	tx := dynsec.NewState().Begin()
	if _, err := tx.Import(c, true, nil); err != nil {
		t.Fatal(err)
	}
	state, _, _ := tx.End()
	return state
}

// listener is a client that records the topics of what it receives.
type listener struct {
	client mqtt.Client
	topics chan string
}

func newListener(t *testing.T, s *brokertest.Server, username string, filters ...string) *listener {
	t.Helper()
	l := &listener{topics: make(chan string, 1000)}
	l.client = mustConnect(t, s, "id-"+username, username, func(_ mqtt.Client, m mqtt.Message) { l.topics <- m.Topic() })
	for _, f := range filters {
		done(t, fmt.Sprintf("%s subscribes to %s", username, f), l.client.Subscribe(f, 1, nil))
	}
	return l
}

// until returns the topics received before the mark.
func (l *listener) until(t *testing.T, mark string) (topics []string) {
	t.Helper()
	timeout := time.After(suite.HangLimit)
	for {
		select {
		case topic := <-l.topics:
			if topic == mark {
				return topics
			}
			topics = append(topics, topic)
		case <-timeout:
			t.Fatalf("%s did not come; got %q", mark, topics)
		}
	}
}
