package apitest_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/router/apitest"
)

// setup is a documented configuration of a broker.
type setup struct {
	name    string
	options []brokertest.Option
	reach   func(t *testing.T, s *brokertest.Server) object // members of the connection; nil for the plain listener
	want    []broker.Capability                             // in addition to those of every broker
	reasons map[broker.Capability]string                    // a part of the reason why something is missing
}

// baseCapabilities are the capabilities that need no plugin.
var baseCapabilities = []broker.Capability{broker.CapStreams, broker.CapTopicTree, broker.CapTTL, broker.CapBridges, broker.CapMessages}

// dynsecCapabilities are the capabilities of dynamic security.
var dynsecCapabilities = []broker.Capability{broker.CapDynamicSecurity, broker.CapAccessCheck}

// asAdminOf are the credentials of a server's admin.
func asAdminOf(s *brokertest.Server) object {
	return object{"url": s.URL, "username": s.AdminUsername, "password": string(s.AdminPassword)}
}

// secured is asAdminOf by another listener, with TLS.
func secured(url string, s *brokertest.Server) object {
	o := asAdminOf(s)
	o["url"], o["ca_cert"] = url, string(s.CA.PEM)
	return o
}

// openACL allows everything but control topics.
const openACL = "user admin\ntopic readwrite #\ntopic read $SYS/#\n"

func setups() []setup {
	noPlugin := map[broker.Capability]string{broker.CapDynamicSecurity: "\nplugin_opt_config_file "}
	return []setup{
		{name: "dynsec init", options: []brokertest.Option{brokertest.InitiatedDynsec()}, want: dynsecCapabilities,
			reasons: map[broker.Capability]string{broker.CapListeners: `"admin" may not publish to $CONTROL/broker/v1`}},
		{name: "dynsec init, max_queued_messages 0", want: dynsecCapabilities,
			options: []brokertest.Option{brokertest.InitiatedDynsec(), brokertest.WithConfig("max_queued_messages 0")},
			reasons: map[broker.Capability]string{broker.CapListeners: `"admin" may not publish to $CONTROL/broker/v1`}},
		{name: "password_file and acl_file", options: []brokertest.Option{brokertest.WithPasswordFile(openACL)}, reasons: noPlugin},
		{name: "password_file and acl_file, max_queued_messages 0", reasons: map[broker.Capability]string{broker.CapDynamicSecurity: "ends the connection"},
			options: []brokertest.Option{brokertest.WithPasswordFile(openACL), brokertest.WithConfig("max_queued_messages 0")}},
		{name: "anonymous", options: []brokertest.Option{brokertest.WithoutPlugin()}, reasons: noPlugin,
			reach: func(_ *testing.T, s *brokertest.Server) object { return object{"url": s.URL} }},
		{name: "client certificates", options: []brokertest.Option{brokertest.WithClientCertificates()}, want: dynsecCapabilities,
			reach: func(t *testing.T, s *brokertest.Server) object {
				pair := s.CA.Issue(t, brokertest.CertOptions{Subject: "signalbox"})
				o := secured(s.TLSURL, s)
				o["client_cert"], o["client_key"] = string(pair.Cert), string(pair.Key)
				return o
			}},
		{name: "WebSockets", options: []brokertest.Option{brokertest.WithWebSockets()}, want: dynsecCapabilities,
			reach: func(_ *testing.T, s *brokertest.Server) object { o := asAdminOf(s); o["url"] = s.WSURL; return o }},
		{name: "WebSockets with TLS", options: []brokertest.Option{brokertest.WithWebSockets(), brokertest.WithTLS()}, want: dynsecCapabilities,
			reach: func(_ *testing.T, s *brokertest.Server) object { return secured(s.WSSURL, s) }},
		{name: "per_listener_settings", options: []brokertest.Option{brokertest.PerListener(), brokertest.WithTLS()}, want: dynsecCapabilities,
			reach: func(_ *testing.T, s *brokertest.Server) object { return secured(s.TLSURL, s) }},
		{name: "no $SYS, nothing above QoS 0", options: []brokertest.Option{brokertest.WithConfig("sys_interval 0", "max_qos 0")}, want: dynsecCapabilities},
	}
}

// TestMosquittoSetups adds Mosquittos over HTTP, in their documented configurations.
// The state is soon correct, the reported capabilities work, and everything else has a
// reason why it is missing.
func TestMosquittoSetups(t *testing.T) {
	t.Parallel()
	for _, s := range setups() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			api := apitest.New(t)
			server := brokertest.Mosquitto(t, s.options...)
			members := asAdminOf(server)
			if s.reach != nil {
				members = s.reach(t, server)
			}
			x := addSetup(t, api, members)
			x.wantCapabilities(append(slices.Clone(baseCapabilities), s.want...))
			for feature, reason := range s.reasons {
				x.wantReason(feature, reason)
			}
			x.useAll()
		})
	}
}

// TestMosquittoWithBridges manages a Mosquitto that has a bridge of its own to another
// one, whose messages do not disturb.
func TestMosquittoWithBridges(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	far := brokertest.Mosquitto(t, brokertest.WithoutPlugin())
	for _, private := range []string{"true", "false"} {
		near := brokertest.Mosquitto(t, brokertest.WithConfig("connection up", "address "+far.Addr, "topic in/# out 1", "topic back/# in 1",
			"try_private "+private, "notifications true", "restart_timeout 1"))
		x := addSetup(t, api, asAdminOf(near))
		x.wantCapabilities(append(slices.Clone(baseCapabilities), dynsecCapabilities...))
		x.useAll()
	}
}

// TestMosquittoWithUsernamesAsClientIDs manages a Mosquitto that uses usernames as
// client ids, where two connections of this service would take over each other for
// ever: it has one, and what needs more has that as its reason.
func TestMosquittoWithUsernamesAsClientIDs(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	server := brokertest.Mosquitto(t, brokertest.WithConfig("use_username_as_clientid true"))
	x := addSetup(t, api, asAdminOf(server))
	requests := []func() *apitest.Response{
		func() *apitest.Response {
			return api.Root.Post(x.at("/streams"), object{"streamname": "s", "sourceTopic": "a", "targetTopic": "b"})
		},
		func() *apitest.Response {
			return api.Root.Put(bridgeAt(api, x.id, "/config"), toHTTPTarget("http://127.0.0.1:1", "", nil))
		},
		func() *apitest.Response { return api.Root.Get(x.at("/topictree")) },
		func() *apitest.Response { return api.Root.Get(x.at("/topictree/ttl")) },
		func() *apitest.Response { return api.Root.Get(x.at("/messages/retained")) },
	}
	var since int64
	for i, request := range requests {
		if e := request().WantError(405, "NOT_SUPPORTED").Error(); !strings.Contains(e.Message, "use_username_as_clientid") {
			t.Errorf("request %d: the setting is not named: %q", i, e.Message)
		}
		if i == 0 { // which has detected it
			brokertest.WaitFor(t, "the connection", func() bool { return brokerRecord(api, x.id).Status.Connected })
			since = brokerRecord(api, x.id).Status.Since
		}
	}
	r := brokerRecord(api, x.id)
	x.capabilities, x.missing = r.Capabilities, r.Status.Missing
	x.wantCapabilities(append(slices.Clone(dynsecCapabilities), broker.CapMessages))
	for _, feature := range []broker.Capability{broker.CapStreams, broker.CapBridges, broker.CapTopicTree, broker.CapTTL} {
		x.wantReason(feature, "use_username_as_clientid")
	}
	x.manage()
	x.publish("a", "x", false)
	if r := brokerRecord(api, x.id); !r.Status.Connected || r.Status.Since != since {
		t.Errorf("the connection was lost: since %v, now %+v", since, r.Status)
	}
}

// addedBroker is an added broker, with its reported capabilities.
type addedBroker struct {
	t            *testing.T
	api          *apitest.API
	id           string
	capabilities []broker.Capability
	missing      []broker.Missing
}

// addSetup adds a broker and waits until its state is correct.
func addSetup(t *testing.T, api *apitest.API, members object) *addedBroker {
	t.Helper()
	members["name"] = t.Name()
	from := time.Now()
	x := &addedBroker{t: t, api: api, id: addBroker(t, api, members)}
	brokertest.WaitFor(t, "the connection", func() bool { return brokerRecord(api, x.id).Status.Connected })
	t.Logf("the state is true after %v", time.Since(from).Round(time.Millisecond))
	r := brokerRecord(api, x.id)
	if r.Status.Error != "" {
		t.Errorf("status %+v", r.Status)
	}
	x.capabilities, x.missing = r.Capabilities, r.Status.Missing
	return x
}

func (x *addedBroker) at(path string) string { return x.api.BrokerAt(x.id, path) }

func (x *addedBroker) has(c broker.Capability) bool { return slices.Contains(x.capabilities, c) }

// wantCapabilities checks the capabilities, and that everything else has a reason.
func (x *addedBroker) wantCapabilities(want []broker.Capability) {
	x.t.Helper()
	for _, c := range want {
		if !x.has(c) {
			x.t.Errorf("%s is not among the capabilities %v", c, x.capabilities)
		}
	}
	if len(x.capabilities) != len(want) {
		x.t.Errorf("capabilities %v, want %v", x.capabilities, want)
	}
	for _, m := range x.missing {
		if x.has(m.Feature) || m.Reason == "" || m.Remedy == "" {
			x.t.Errorf("missing: %+v", m)
		}
	}
	if len(x.capabilities)+len(x.missing) != 15 {
		x.t.Errorf("%v and %v are not all that a broker may offer", x.capabilities, x.missing)
	}
}

// wantReason checks a part of the reason why something is missing.
func (x *addedBroker) wantReason(feature broker.Capability, part string) {
	x.t.Helper()
	i := slices.IndexFunc(x.missing, func(m broker.Missing) bool { return m.Feature == feature })
	if i < 0 || !strings.Contains(x.missing[i].Reason+": "+x.missing[i].Remedy, part) {
		x.t.Errorf("of %s it is not said %q: %+v", feature, part, x.missing)
	}
}

// uses are one request for each capability that a broker may lack.
var uses = map[broker.Capability]string{
	broker.CapDynamicSecurity: "/clients", broker.CapAccessCheck: "/access-check?action=publish&topic=a", broker.CapListeners: "/listeners",
	broker.CapLicense: "/license", broker.CapInspect: "/client-inspect", broker.CapSubscriptions: "/subscriptions",
	broker.CapDenials: "/denials", broker.CapBans: "/bans",
}

// useAll uses all capabilities.
func (x *addedBroker) useAll() {
	x.t.Helper()
	for feature, path := range uses {
		if x.has(feature) {
			x.api.Root.Get(x.at(path)).Want(200)
			continue
		}
		e := x.api.Root.Get(x.at(path)).WantError(405, "NOT_SUPPORTED").Error()
		if e.Message == "" || len(e.Message) < 40 {
			x.t.Errorf("GET %s: %q says nothing", path, e.Message)
		}
	}
	if x.has(broker.CapDynamicSecurity) {
		x.manage()
	}
	x.streams()
	x.bridges()
	x.messages()
	x.topics()
	if r := brokerRecord(x.api, x.id); !r.Status.Connected || r.Status.Error != "" {
		x.t.Errorf("in the end: %+v", r.Status)
	}
}

// manage uses access control, and allows an admin who may only manage to publish.
func (x *addedBroker) manage() {
	x.t.Helper()
	root, at := x.api.Root, x.at
	root.Post(at("/roles"), object{"rolename": "sensor", "acls": []object{
		{"acltype": "publishClientSend", "topic": "plant/#", "priority": 0, "allow": true}}}).Want(204)
	root.Post(at("/groups"), object{"groupname": "pumps", "roles": []object{{"rolename": "sensor"}}}).Want(204)
	root.Post(at("/clients"), object{"username": "pump-7", "password": "secret", "groups": []object{{"groupname": "pumps"}}}).Want(204)
	verdict := root.Get(at("/access-check?username=pump-7&action=publish&topic=plant/1")).Want(200)
	if !strings.Contains(string(verdict.Body), `"allowed":true`) {
		x.t.Errorf("access check: %s", verdict.Body)
	}
	root.Put(at("/clients/enable"), object{"username": "pump-7", "enable": false}).Want(204)
	root.Delete(at("/clients?username=pump-7")).Want(204)
	root.Delete(at("/groups?groupname=pumps")).Want(204)
	root.Delete(at("/roles?rolename=sensor")).Want(204)

	if strings.Contains(string(root.Get(at("/access-check?username=admin&action=publish&topic=a")).Want(200).Body), `"allowed":true`) {
		return
	}
	e := root.Post(at("/messages"), object{"topic": "a", "payload": "x"}).WantError(503, "BROKER_UNAVAILABLE").Error()
	if !strings.Contains(e.Message, "publishClientSend") {
		x.t.Errorf("the right is not named: %q", e.Message)
	}
	var admin []broker.Role
	root.Get(at("/roles?filterMode=equals&filterValue=admin")).Want(200).Decode(&admin)
	acls := append(admin[0].ACLs, broker.ACL{ACLType: broker.PublishClientSend, Topic: "#", Allow: true})
	root.Put(at("/roles"), object{"rolename": "admin", "acls": acls}).Want(204)
}

// streams republishes messages over a stream.
func (x *addedBroker) streams() {
	x.t.Helper()
	x.api.Root.Post(x.at("/streams"), object{"streamname": "s", "sourceTopic": "plant/+", "targetTopic": "all", "persist": true}).Want(204)
	brokertest.WaitFor(x.t, "a message to pass through the stream", func() bool {
		x.publish("plant/1", "x", false)
		var s broker.Stream
		x.api.Root.Get(x.at("/streams/detail?streamname=s")).Want(200).Decode(&s)
		return s.Stats.Republished > 0 && s.Stats.Messages > 0
	})
	x.api.Root.Delete(x.at("/streams?streamname=s")).Want(204)
}

// bridges delivers messages over HTTP.
func (x *addedBroker) bridges() {
	x.t.Helper()
	server := newHTTPTarget(x.t)
	x.api.Root.Put(bridgeAt(x.api, x.id, "/config"), toHTTPTarget(server.URL, "", nil)).Want(204)
	brokertest.WaitFor(x.t, "a message to pass over the bridge", func() bool {
		x.publish("in/1", "over", false)
		return slices.Contains(server.received(), "over")
	})
	x.api.Root.Put(bridgeAt(x.api, x.id, "/config"), object{"version": "v1", "connections": []object{}}).Want(204)
}

// publish publishes with a QoS that every broker supports.
func (x *addedBroker) publish(topic, payload string, retain bool) {
	x.t.Helper()
	x.api.Root.Post(x.at("/messages"), object{"topic": topic, "payload": payload, "qos": 0, "retain": retain}).Want(204)
}

// messages publishes a retained message, finds it and deletes it.
func (x *addedBroker) messages() {
	x.t.Helper()
	x.publish("kept/1", "k", true)
	var list []broker.RetainedMessage
	x.api.Root.Get(x.at("/messages/retained?filter=" + url.QueryEscape("kept/#"))).Want(200).Decode(&list)
	if len(list) != 1 || list[0].Payload != "k" {
		x.t.Errorf("retained: %+v", list)
	}
	x.api.Root.Delete(x.at("/messages/retained?topic=kept/1")).Want(200)
}

// topics finds published topics in the topic tree.
func (x *addedBroker) topics() {
	x.t.Helper()
	brokertest.WaitFor(x.t, "the topic tree to show a topic", func() bool {
		x.publish("tree/1", "t", false)
		return slices.Contains(topicTree(x.api.Root, x.at("")).PublishTopics.Topics, "tree/1")
	})
	x.api.Root.Put(x.at("/topictree/ttl"), object{"ttl_sec": 77}).Want(204)
	wantTTL(x.t, x.api.Root, x.at(""), 77)
}
