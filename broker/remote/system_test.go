package remote

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/brokertest"
)

// rich responds as a broker with every feature does.
func rich(topic, command string) string {
	switch command {
	case "getDefaultACLAccess":
		return anyDefaults
	case "listPlugins":
		return data(command, `{"plugins":[{"name":"b","control-endpoints":["$CONTROL/cedalo/mongodb-bridge/v1"]},{"name":"none"}]}`)
	case "listListeners":
		return data(command, `{"listeners":[
			{"port":1883,"protocol":"mqtt","bind-address":"10.0.0.1","tls":false},
			{"id":7,"port":8883,"protocol":"mqtt","tls":true,"require-certificate":true},
			{"protocol":"mqtt","socket-path":"/run/mqtt.sock","tls":false}]}`)
	case "getLicenseInformation":
		return data(command, `{"edition":"pro","issuedBy":"us","issuedTo":"you","validSince":1.7e12,"validUntil":1763640000000,
			"features":[{"name":"mosquitto-clients","count":-1},"streams"]}`)
	}
	return refusal(command, "Unknown command")
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	every := []broker.Capability{"dynamic-security", "inspect", "streams", "topic-tree", "ttl", "listeners",
		"bridges", "license", "cluster", "client-control", "messages", "access-check"}
	bare := []broker.Capability{"dynamic-security", "topic-tree", "ttl", "messages", "access-check"}
	for _, c := range []struct {
		name   string
		broker *scripted
		want   []broker.Capability
	}{
		{"what answers is offered", &scripted{answers: rich}, every},
		{"what is silent is not offered", &scripted{answers: onlyDynsec}, bare},
		{"what refuses its answers is not offered",
			&scripted{answers: rich, refuse: []string{"$CONTROL/broker/v1/response", "$CONTROL/stream-processing/v1/response"}},
			[]broker.Capability{"dynamic-security", "inspect", "topic-tree", "ttl", "license", "cluster", "client-control", "messages", "access-check"}},
		{"a broker without any endpoint is there all the same",
			&scripted{answers: func(string, string) string { return endpointNotAvailable }}, []broker.Capability{"topic-tree", "ttl", "messages"}},
		{"a plugin that is listed is offered though silent",
			&scripted{answers: func(topic, command string) string {
				if command == "listPlugins" {
					return data(command, `{"plugins":[{"control-endpoints":["$CONTROL/stream-processing/v1","$CONTROL/other/v1"]}]}`)
				}
				return onlyDynsec(topic, command)
			}}, []broker.Capability{"dynamic-security", "streams", "topic-tree", "ttl", "listeners", "messages", "access-check"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := connected(t, c.broker.serve(t))
			if diff := cmp.Diff(c.want, b.Capabilities()); diff != "" {
				t.Errorf("capabilities (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCapabilities_a_late_answer_counts(t *testing.T) {
	t.Parallel()
	first := true
	server := &scripted{answers: func(topic, command string) string {
		if command == "isLeader" && first { // no response: it is sent with that to another command
			first = false
			return ""
		}
		return rich(topic, command)
	}}
	b := connected(t, server.serve(t))
	if slices.Contains(b.Capabilities(), broker.CapCluster) {
		t.Fatal("cluster is offered before it answered")
	}
	s, err := b.link.current(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.pending.mu.Lock()
	var waiting []*call
	for _, c := range s.pending.calls {
		waiting = append(waiting, c)
	}
	s.pending.mu.Unlock()
	if len(waiting) != 1 {
		t.Fatalf("%d calls wait, want that of the cluster only", len(waiting))
	}
	s.pending.answer(waiting[0].topic, []byte(strings.ReplaceAll(refusal("isLeader", "no"), "CORRELATION", waiting[0].correlation)))
	brokertest.WaitFor(t, "cluster is offered", func() bool { return slices.Contains(b.Capabilities(), broker.CapCluster) })
}

func TestGetLicense(t *testing.T) {
	t.Parallel()
	b := connected(t, (&scripted{answers: rich}).serve(t))
	got, err := b.GetLicense(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := broker.License{Edition: "pro", IssuedBy: "us", IssuedTo: "you", ValidSince: 1700000000000,
		ValidUntil: 1763640000000, Features: []string{"mosquitto-clients", "streams"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("licence (-want +got):\n%s", diff)
	}
}

func TestListListeners(t *testing.T) {
	t.Parallel()
	b := connected(t, (&scripted{answers: rich}).serve(t))
	got, err := b.ListListeners(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	none := []broker.ListenerCert{}
	want := []broker.Listener{
		{ID: 1, Port: 1883, BindAddress: "10.0.0.1", Protocol: "mqtt", Certs: none},
		{ID: 7, Port: 8883, Protocol: "mqtt", TLS: true, RequireCertificate: true, Certs: none},
		{ID: 3, BindAddress: "/run/mqtt.sock", Protocol: "mqtt", Certs: none},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
}

func TestFeature_that_a_broker_lacks_is_Unsupported(t *testing.T) {
	t.Parallel()
	unknown := func(topic, command string) string {
		if command == "getLicenseInformation" || command == "listListeners" {
			return refusal(command, "Unknown command")
		}
		return rich(topic, command)
	}
	noEndpoint := func(string, string) string { return endpointNotAvailable }
	silence := func(_, command string) string {
		if command == "getDefaultACLAccess" {
			return anyDefaults
		}
		return ""
	}
	for name, answers := range map[string]func(string, string) string{
		"unknown command": unknown, "no endpoint": noEndpoint, "silence": silence,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := connected(t, (&scripted{answers: answers}).serve(t))
			_, err := b.GetLicense(t.Context())
			wantUnsupported(t, err, broker.CapLicense)
			_, err = b.ListListeners(t.Context())
			wantUnsupported(t, err, broker.CapListeners)
			_, err = b.ExportAccess(t.Context())
			wantUnsupported(t, err, broker.CapDynamicSecurity)
			_, err = b.ImportAccess(t.Context(), nil, true)
			wantUnsupported(t, err, broker.CapDynamicSecurity)
			_, err = b.ListStreams(t.Context(), broker.ListOptions[broker.Stream]{})
			wantUnsupported(t, err, broker.CapStreams)
		})
	}
}

func TestSysTopics(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t)
	b := connected(t, server.Target())
	const version = "$SYS/broker/version"
	var now broker.SysTopics
	var history []broker.SysTopics
	brokertest.WaitFor(t, "the tree and two samples are there", func() bool {
		var err error
		if now, history, err = b.SysTopics(t.Context()); err != nil {
			t.Fatal(err)
		}
		return now.Topics[version] != "" && len(history) > 1
	})
	if !strings.HasPrefix(now.Topics[version], "mosquitto version ") || now.Date == 0 {
		t.Errorf("SysTopics() = %q of %d", now.Topics[version], now.Date)
	}
	brokertest.WaitFor(t, "the broker has reported since it is connected", func() bool {
		all := b.SysHistory(history[1].Date)
		return len(all) > 0 && !all[len(all)-1].Reported.IsZero()
	})
	if history[0].Date > history[1].Date {
		t.Errorf("samples of %d, %d: not oldest first", history[0].Date, history[1].Date)
	}
	server.Stop(t)
	brokertest.WaitFor(t, "the broker is gone", func() bool { return !b.Status().Connected })
	if now, _, err := b.SysTopics(t.Context()); err != nil || now.Topics[version] == "" {
		t.Errorf("SysTopics() of a broker that is gone = %v, %v; want what was seen last", now, err)
	}
}

func TestSysTree(t *testing.T) {
	t.Parallel()
	clock := time.UnixMilli(1000)
	newTree := func() *sysTree { return newSysTree(func() time.Time { return clock }) }

	t.Run("a tree that was never seen is empty and has no date", func(t *testing.T) {
		now, history := newTree().snapshot()
		if now.Topics == nil || len(now.Topics) != 0 || now.Date != 0 || history == nil || len(history) != 0 {
			t.Errorf("snapshot() = %+v, %v", now, history)
		}
	})
	t.Run("topics and values are bounded", func(t *testing.T) {
		tree := newTree()
		for i := range maxSysTopics + 10 {
			tree.put(fmt.Sprint("$SYS/", i), []byte("x"))
		}
		tree.put("$SYS/0", []byte(strings.Repeat("é", maxSysValue)))
		tree.put("$SYS/"+strings.Repeat("x", maxSysTopic), []byte("x"))
		now, _ := tree.snapshot()
		if len(now.Topics) != maxSysTopics || len(now.Topics["$SYS/0"]) != maxSysValue {
			t.Errorf("%d topics, the changed one has %d bytes", len(now.Topics), len(now.Topics["$SYS/0"]))
		}
	})
	t.Run("the oldest samples go", func(t *testing.T) {
		tree := newTree()
		for i := range maxSysSamples + 5 {
			tree.put("$SYS/n", fmt.Append(nil, i))
			tree.sample()
		}
		_, history := tree.snapshot()
		if len(history) != maxSysSamples || history[0].Topics["$SYS/n"] != "5" {
			t.Errorf("%d samples, the first of %v", len(history), history[0].Topics)
		}
	})
	t.Run("a new session's tree takes the place of the old one", func(t *testing.T) {
		tree := newTree()
		tree.put("$SYS/old", []byte("1"))
		tree.renew()
		if now, _ := tree.snapshot(); now.Topics["$SYS/old"] != "1" {
			t.Error("the old tree is gone before there is a new one")
		}
		tree.put("$SYS/new", []byte("2"))
		tree.put("$SYS/gone", []byte("3"))
		tree.put("$SYS/gone", nil)
		now, _ := tree.snapshot()
		if diff := cmp.Diff(map[string]string{"$SYS/new": "2"}, now.Topics); diff != "" {
			t.Errorf("topics (-want +got):\n%s", diff)
		}
	})
}

// TestSysTree_reports counts neither retained values nor log messages as reports of the
// broker.
func TestSysTree_reports(t *testing.T) {
	t.Parallel()
	clock := time.UnixMilli(1000)
	tree := newSysTree(func() time.Time { return clock })
	reported := func() int64 {
		tree.sample()
		if last := tree.after(0); !last[len(last)-1].Reported.IsZero() {
			return last[len(last)-1].Reported.UnixMilli()
		}
		return 0
	}
	tree.receive("$SYS/broker/messages/sent", []byte("1"), true)
	if got := reported(); got != 0 || tree.isUpdating() {
		t.Errorf("a retained value was reported at %d", got)
	}
	clock = clock.Add(time.Minute)
	tree.receive("$SYS/broker/messages/sent", []byte("2"), false)
	if got := reported(); got != 61_000 || !tree.isUpdating() {
		t.Errorf("a value of now was reported at %d, want 61000", got)
	}
	clock = clock.Add(updateTime)
	tree.receive("$SYS/broker/log/N", []byte("x"), false)
	if got := reported(); got != 61_000 || tree.isUpdating() {
		t.Errorf("after a log message: reported at %d, want 61000", got)
	}
	dates := func(after int64) (all []int64) {
		for _, s := range tree.after(after) {
			all = append(all, s.Date)
		}
		return all
	}
	if got := dates(1000); !slices.Equal(got, []int64{61_000, 61_500}) {
		t.Errorf("samples after the first: %d", got)
	}
	if got := dates(999); len(got) != 3 {
		t.Errorf("samples after one that does not exist: %d, want all", got)
	}
	tree.renew()
	if got := reported(); got != 0 {
		t.Errorf("a tree of an earlier session was reported at %d", got)
	}
}

func wantUnsupported(t testing.TB, err error, feature broker.Capability) {
	t.Helper()
	e := wantKind(t, err, broker.Unsupported)
	if e.Feature != feature {
		t.Errorf("feature %q, want %q", e.Feature, feature)
	}
}
