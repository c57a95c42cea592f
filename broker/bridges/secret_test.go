package bridges_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/bridges"
	"signalbox/broker/bridges/bridgestest"
)

// secret returns a connection to an address with credentials and more members.
func secret(name, address, password, more string) string {
	return fmt.Sprintf(`{"name":%q,"connection":{"address":%q,"credentials":{"username":"u","password":%q}%s}}`, name, address, password, more)
}

func TestSecrets(t *testing.T) {
	t.Parallel()
	s := &bridgestest.Store{}
	r := bridgestest.Start(t, &bridgestest.Kind{}, s)
	more := `,"headers":{"X-Key":"k1","X-None":""},"sign":{"by":"key","key":"sesame"}`
	r.Set(doc(secret("c", "t", "hunter2", more)))
	shown := config(t, r)
	want := strings.NewReplacer("hunter2", "********", "k1", "********", "sesame", "********").Replace(doc(secret("c", "t", "hunter2", more)))
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("what is shown (-want +got):\n%s", diff)
	}
	stored := func() string {
		all, err := s.Configs(t.Context(), "b")
		must(t, err)
		return string(all[fake])
	}
	before := stored()
	must(t, set(r, shown))
	if got := stored(); got != before || s.Puts() != 1 {
		t.Errorf("sending back what is shown has stored %s, %d times", got, s.Puts())
	}
	must(t, set(r, strings.Replace(shown, `"u"`, `"v"`, 1)))
	if got, want := stored(), strings.Replace(before, `"u"`, `"v"`, 1); got != want {
		t.Errorf("stored is\n%s, want\n%s", got, want)
	}
}

// TestSecretsNeedTheirAddress checks that stored secrets cannot be sent to another address.
func TestSecretsNeedTheirAddress(t *testing.T) {
	t.Parallel()
	r, _ := start(t)
	tls := func(members string) string { return `,"tls":{` + members + `}` }
	r.Set(doc(secret("c", "t", "hunter2", tls(`"enabled":true`))))
	const stars = "********"
	for _, c := range []struct {
		name, give, names string // "" if it is accepted
	}{
		{"the same", secret("c", "t", stars, tls(`"enabled":true`)), ""},
		{"a default that is written out", secret("c", "t", stars, `,"port":1883`+tls(`"enabled":true,"verify":true,"serverName":""`)), ""},
		{"another address", secret("c", "evil", stars, tls(`"enabled":true`)), "connection.address"},
		{"another port", secret("c", "t", stars, `,"port":1884`+tls(`"enabled":true`)), "connection.port"},
		{"no verification", secret("c", "t", stars, tls(`"enabled":true,"verify":false`)), "connection.tls.verify"},
		{"no TLS", secret("c", "t", stars, ""), "connection.tls.enabled"},
		{"another name", secret("d", "t", stars, tls(`"enabled":true`)), "no secret is stored"},
		{"where nothing was", secret("c", "t", stars, tls(`"enabled":true,"clientKey":"********"`)), "no secret is stored"},
		{"all anew", secret("c", "other", "new", ""), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := set(r, doc(c.give))
			_, tested := r.TestBridge(t.Context(), fake, []byte(doc(c.give)))
			if c.names == "" {
				must(t, err, tested)
				return
			}
			for _, err := range []error{err, tested} {
				if e := wantKind(t, err, broker.Invalid); len(e.Fields) != 1 || !strings.Contains(e.Fields[0].Msg, c.names) || !strings.HasPrefix(e.Fields[0].Path, "connections[0].connection.") {
					t.Errorf("problems are %+v, want one about %s", e.Fields, c.names)
				}
			}
		})
	}
}

// TestSecretsInErrors has a connector's error contain its secret.
func TestSecretsInErrors(t *testing.T) {
	t.Parallel()
	r, k := start(t)
	k.Target("t").SetUnavailable(errors.New("cannot reach u:hunter2@t"))
	r.Set(doc(secret("c", "t", "hunter2", `,"port":1`)))
	r.Until("c", "there is an error", func(s broker.BridgeStatus) bool { return s.Error == "cannot reach u:********@t" })
	tests, err := r.TestBridge(t.Context(), fake, nil)
	must(t, err)
	if diff := cmp.Diff([]broker.BridgeTest{{ConnectionName: "c", Error: "cannot reach u:********@t"}}, tests); diff != "" {
		t.Errorf("the trial (-want +got):\n%s", diff)
	}
	k.Target("t").SetUnavailable(nil)
	k.Target("t").HandleBatches(func(_ context.Context, _ []*bridges.Entry, results []bridges.Result) error {
		bridgestest.All(results, bridges.Rejected, "hunter2 is not liked")
		return nil
	})
	r.Set(doc(withTopic(secret("c", "t", "hunter2", `,"port":1`))))
	publishTexts(r.Broker, "a", "1")
	r.Until("c", "there is a dead letter", func(s broker.BridgeStatus) bool { return s.Stats.DeadLetters == 1 })
	if l := r.DeadLetters("c"); l[0].Reason != "******** is not liked" {
		t.Errorf("the reason is %q", l[0].Reason)
	}
}

// withTopic adds a topic mapping to a connection.
func withTopic(connection string) string {
	return strings.TrimSuffix(connection, "}") + `,"topicMappings":[{"name":"m","mqttTopics":["a"],"target":"x"}]}`
}
