package remote

import (
	"slices"
	"strings"
	"testing"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/control"
	"signalbox/broker/dynsec"
)

// wantMissing checks that a broker is reached, and that it lacks a feature for a
// reason, and with a remedy, that contain these words, in the status and in the errors
// of operations.
func wantMissing(t *testing.T, b *Broker, feature broker.Capability, words ...string) {
	t.Helper()
	s := b.Status()
	if !s.Connected || s.Error != "" {
		t.Fatalf("Status() = %+v, want it connected", s)
	}
	i := slices.IndexFunc(s.Missing, func(m broker.Missing) bool { return m.Feature == feature })
	if i < 0 || slices.Contains(b.Capabilities(), feature) {
		t.Fatalf("%s is not missing: %+v, %v", feature, s.Missing, b.Capabilities())
	}
	said := s.Missing[i].Reason + "; " + s.Missing[i].Remedy
	for _, word := range words {
		if !strings.Contains(said, word) {
			t.Errorf("%s is missing: %q, want it to tell %q", feature, said, word)
		}
	}
	if feature != broker.CapDynamicSecurity {
		return
	}
	e := wantKind(t, b.DeleteClient(t.Context(), "nobody"), broker.Unsupported)
	if e.Msg != s.Missing[i].Reason+": "+s.Missing[i].Remedy || e.Op != "deleteClient" || e.Feature != feature {
		t.Errorf("DeleteClient() = %#v, want it to tell %q", e, said)
	}
}

// TestMissing_rights: a broker on which this service's user may not manage access
// control is otherwise usable.
func TestMissing_rights(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{nil, {"max_queued_messages 0"}} {
		server := brokertest.Mosquitto(t, brokertest.WithConfig(lines...))
		admin := connected(t, server.Target())
		create := func(name string, acls ...broker.ACL) broker.Target {
			secret := broker.Secret("pw")
			must(t, admin.CreateRole(t.Context(), broker.RoleSpec{RoleName: name, ACLs: acls}))
			must(t, admin.CreateClient(t.Context(), broker.ClientSpec{Username: name, Password: &secret,
				Roles: []broker.RoleRef{{RoleName: name, Priority: broker.NoPriority}}}))
			target := server.Target()
			target.Username, target.Password = name, secret
			return target
		}
		wantMissing(t, connected(t, create("blind")), broker.CapDynamicSecurity,
			`user "blind" may not subscribe to $CONTROL/dynamic-security/v1/response`, "give it a role")
		mute := connected(t, create("mute", broker.ACL{ACLType: broker.SubscribePattern, Topic: "$CONTROL/#", Allow: true}))
		if lines == nil {
			wantMissing(t, mute, broker.CapDynamicSecurity, "does not answer on $CONTROL/dynamic-security/v1", `user "mute"`)
			continue
		}
		wantMissing(t, mute, broker.CapDynamicSecurity, "ends the connection", `user "mute"`, "max_queued_messages")
		wantMissing(t, mute, broker.CapListeners, "ends the connection")
	}
}

// TestMissing_plugin: features that need no plugin work without one.
func TestMissing_plugin(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.WithoutPlugin())
	b := connected(t, withTree(broker.Target{URL: server.URL}))
	wantMissing(t, b, broker.CapDynamicSecurity, "does not answer on $CONTROL/dynamic-security/v1", "a client without username",
		"\nper_listener_settings false\nplugin ", "mosquitto_dynamic_security.so\nplugin_opt_config_file ")
	wantMissing(t, b, broker.CapAccessCheck, "$CONTROL/dynamic-security/v1")
	wantMissing(t, b, broker.CapBans, "no broker takes bans")
	publish(t, b, "a", "1")
	if _, topics := retainedTopics(t, b, "#", 0, -1); !slices.Equal(topics, []string{"a"}) {
		t.Errorf("retained: %q", topics)
	}
}

// TestMissing_of_the_admin_of_init: with one setting, Mosquitto closes the connection
// on every denied message.
func TestMissing_of_the_admin_of_init(t *testing.T) {
	t.Parallel()
	server := brokertest.Mosquitto(t, brokertest.InitiatedDynsec(), brokertest.WithConfig("max_queued_messages 0"))
	proxy := brokertest.NewProxy(t, server.Addr)
	target := server.Target()
	target.URL = proxy.URL
	b := connected(t, target)
	must(t, b.CreateClient(t.Context(), broker.ClientSpec{Username: "u"}))
	wantMissing(t, b, broker.CapListeners, `user "admin" may not publish to $CONTROL/broker/v1`,
		"allows publishClientSend for $CONTROL/broker/v1")
	if n := proxy.Accepted(); n != 1 {
		t.Errorf("%d connections were made, want 1: what is denied need not be tried", n)
	}
}

// TestSettings_that_cost_the_connection if a probe or a command does not respect them.
func TestSettings_that_cost_the_connection(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"max_queued_messages 0", "max_queued_messages 1", "max_qos 0", "retain_available false", "max_packet_size 250",
		"max_inflight_messages 1", "max_keepalive 10", "allow_zero_length_clientid false", "sys_interval 0", "max_topic_alias 0",
		"message_size_limit 1000", "max_queued_bytes 1", "max_inflight_bytes 1", "set_tcp_nodelay false"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			server := brokertest.Mosquitto(t, brokertest.WithConfig(line))
			proxy := brokertest.NewProxy(t, server.Addr)
			target := server.Target()
			target.URL = proxy.URL
			b := connected(t, target)
			must(t, b.CreateClient(t.Context(), broker.ClientSpec{Username: "u"}))
			if line != "retain_available false" {
				must(t, b.Publish(t.Context(), broker.PublishSpec{Topic: "a", Payload: []byte("1"), Retain: true}))
				must(t, b.DeleteRetained(t.Context(), "a"))
			} else if n, err := b.DeleteRetainedMatching(t.Context(), "#"); n != 0 || err != nil {
				t.Errorf("DeleteRetainedMatching() = %d, %v", n, err)
			}
			if s := b.Status(); !s.Connected || b.link.session.ended() {
				t.Errorf("the connection was lost: %+v", s)
			}
		})
	}
}

// TestProbe_that_costs_the_connection is made twice, and then no more.
func TestProbe_that_costs_the_connection(t *testing.T) {
	t.Parallel()
	for name, feature := range map[string]struct {
		topic string
		cap   broker.Capability
	}{
		"a subscription to answers": {control.LicenseTopic + control.ResponseSuffix, broker.CapLicense},
		"a command":                 {control.ClientControlTopic, broker.CapClientControl},
		"dynamic security":          {dynsec.Topic, broker.CapDynamicSecurity},
		"what a broker tells":       {sysPrefix + "#", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &scripted{answers: rich, endsOn: func(topic string) bool { return topic == feature.topic }}
			b := connected(t, server.serve(t))
			if n := server.connected.Load(); n != 1+maxLosses {
				t.Errorf("%d connections were made, want %d", n, 1+maxLosses)
			}
			if feature.cap != "" {
				wantMissing(t, b, feature.cap, "ends the connection")
			}
			if !slices.Contains(b.Capabilities(), broker.CapInspect) {
				t.Errorf("what comes after it is not known: %v", b.Capabilities())
			}
		})
	}
}

// TestProbe_and_a_loss_by_chance: one loss does not count.
func TestProbe_and_a_loss_by_chance(t *testing.T) {
	t.Parallel()
	server := &scripted{answers: rich}
	server.endsOn = func(topic string) bool { return topic == control.InspectTopic && server.connected.Load() == 1 }
	b := connected(t, server.serve(t))
	if n := server.connected.Load(); n != 2 || !slices.Contains(b.Capabilities(), broker.CapInspect) {
		t.Errorf("%d connections, %v", n, b.Capabilities())
	}
}

// TestPublish_that_rights_forbid names the right, and does not lose the connection.
func TestPublish_that_rights_forbid(t *testing.T) {
	t.Parallel()
	b := connected(t, brokertest.Mosquitto(t, brokertest.InitiatedDynsec(), brokertest.WithConfig("max_queued_messages 0")).Target())
	s := b.link.session
	for qos := range 3 {
		err := b.Publish(t.Context(), broker.PublishSpec{Topic: "plant/1", QoS: qos})
		if e := wantKind(t, err, broker.Denied); !strings.Contains(e.Msg, `user "admin" may not publish to "plant/1"`) || !strings.Contains(e.Msg, "publishClientSend") {
			t.Errorf("Publish() = %q", e.Msg)
		}
	}
	must(t, b.ModifyRole(t.Context(), broker.RoleSpec{RoleName: "admin", ACLs: brokertest.AdminRole("").ACLs}))
	for qos := range 3 {
		must(t, b.Publish(t.Context(), broker.PublishSpec{Topic: "plant/1", QoS: qos}))
	}
	if s.ended() {
		t.Error("the connection was lost")
	}
}

// TestPublish_that_costs_the_connection names the possible cause.
func TestPublish_that_costs_the_connection(t *testing.T) {
	t.Parallel()
	for line, spec := range map[string]broker.PublishSpec{
		"max_qos 0":              {Topic: "a", QoS: 1},
		"retain_available false": {Topic: "a", Retain: true},
		"max_packet_size 200":    {Topic: "a", Payload: make([]byte, 200)},
	} {
		b := connected(t, brokertest.Mosquitto(t, brokertest.WithConfig(line)).Target())
		err := b.Publish(t.Context(), spec)
		setting, _, _ := strings.Cut(line, " ")
		if e := wantKind(t, err, broker.Unconfirmed); !strings.Contains(e.Msg, setting) {
			t.Errorf("%s: Publish() = %q", line, e.Msg)
		}
	}
}

// TestCommand_that_costs_the_connection: a long command may be too long for the broker.
func TestCommand_that_costs_the_connection(t *testing.T) {
	t.Parallel()
	for line, setting := range map[string]string{"max_packet_size 1000": "max_packet_size"} {
		b := connected(t, brokertest.Mosquitto(t, brokertest.WithConfig(line)).Target())
		long := strings.Repeat("x", 1000)
		err := b.CreateClient(t.Context(), broker.ClientSpec{Username: "u", TextName: &long})
		if e := wantKind(t, err, broker.Unconfirmed); !strings.Contains(e.Msg, setting) {
			t.Errorf("%s: CreateClient() = %q", line, e.Msg)
		}
	}
}
