package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// fakeClients is a broker with these clients. It records its calls.
type fakeClients struct {
	broker.ClientControl
	clients []broker.ConnectedClientDetail
	log     []string
}

func (r *fakeClients) InspectClients(_ context.Context, offset, count int, _ bool) (broker.Page[broker.ConnectedClient], error) {
	page := broker.Page[broker.ConnectedClient]{Total: len(r.clients)}
	page.Items = func(yield func(broker.ConnectedClient, error) bool) {
		for i, c := range r.clients {
			if i < offset || count >= 0 && i >= offset+count {
				continue
			}
			if !yield(broker.ConnectedClient{ClientID: c.ClientID, Username: c.Username, Connected: c.Connected}, nil) {
				return
			}
		}
	}
	return page, nil
}

func (r *fakeClients) InspectClient(_ context.Context, id string) (broker.ConnectedClientDetail, error) {
	i := slices.IndexFunc(r.clients, func(c broker.ConnectedClientDetail) bool { return c.ClientID == id })
	if i < 0 {
		return broker.ConnectedClientDetail{}, &broker.Error{Kind: broker.NotFound, Msg: "there is no such session"}
	}
	return r.clients[i], nil
}

func (r *fakeClients) note(id string, what ...any) error {
	if _, err := r.InspectClient(context.Background(), id); err != nil {
		return err
	}
	r.log = append(r.log, fmt.Sprint(append([]any{id}, what...)...))
	return nil
}

func (r *fakeClients) DisconnectClient(_ context.Context, id string) error { return r.note(id, " out") }
func (r *fakeClients) SubscribeClient(_ context.Context, id string, s broker.SubscriptionSpec) error {
	return r.note(id, fmt.Sprintf(" %+v", s))
}
func (r *fakeClients) UnsubscribeClient(_ context.Context, id, topic string) error {
	return r.note(id, " - ", topic)
}

// tracker is a topic tree that stores its settings only.
type tracker struct {
	ttl     time.Duration
	filters []string
	limits  Limits
}

func (t *tracker) Counts() (int, int) { return 3, 2 }
func (t *tracker) Page(offset, count int) broker.TopicTree {
	var tree broker.TopicTree
	tree.PublishTopics = broker.PublishTopics{Count: 3, Topics: []string{fmt.Sprint(offset, "/", count)},
		Data: []broker.PublishTopic{{Topic: fmt.Sprint(offset, "/", count), Payload: "<1>", QoS: 1, LastModified: 1763640000000, Messages: 9}}}
	tree.SubscribeTopics = broker.SubscribeTopics{Count: 2, Topics: []string{"#"}, Data: []broker.SubscribeTopic{{Topic: "#", Clients: 4}}}
	return tree
}
func (t *tracker) TTL() time.Duration     { return t.ttl }
func (t *tracker) SetTTL(d time.Duration) { t.ttl = d }
func (t *tracker) AddFilter(f string)     { t.filters = append(t.filters, f) }
func (t *tracker) RemoveFilter(f string) bool {
	n := len(t.filters)
	t.filters = slices.DeleteFunc(t.filters, func(s string) bool { return s == f })
	return len(t.filters) < n
}
func (t *tracker) ClearFilters()      { t.filters = nil }
func (t *tracker) Filters() []string  { return t.filters }
func (t *tracker) Limits() Limits     { return t.limits }
func (t *tracker) SetLimits(l Limits) { t.limits = l }

func newFakeClients() *fakeClients {
	r := &fakeClients{}
	for i := range 4 {
		r.clients = append(r.clients, broker.ConnectedClientDetail{ClientID: fmt.Sprint("c", i), Username: "u", Connected: i%2 == 0,
			LastConnect: 1763640000000, Subscriptions: []string{"a/#"}})
	}
	return r
}

// wantResponses sends commands, written without their envelope, and compares the entries
// of the response.
func wantResponses(t *testing.T, serve func(payload []byte) []byte, exchanges [][2]string) {
	t.Helper()
	for _, e := range exchanges {
		got := string(serve([]byte(`{"commands":[` + e[0] + `]}`)))
		if want := `{"responses":[` + e[1] + `]}`; got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", e[0], got, want)
		}
	}
}

func TestInspect(t *testing.T) {
	t.Parallel()
	r := newFakeClients()
	ask := func(p []byte) []byte { return Inspect(t.Context(), r, p) }
	wantResponses(t, ask, [][2]string{
		{`{"command":"listClients"}`, `{"command":"listClients","data":{"totalCount":4,"clients":["c0","c1","c2","c3"]}}`},
		{`{"command":"LISTCLIENTS","Count":2,"offset":1,"correlationData":"x"}`, `{"command":"listClients","data":{"totalCount":4,"clients":["c1","c2"]},"correlationData":"x"}`},
		{`{"command":"listClients","offset":9}`, `{"command":"listClients","data":{"totalCount":4,"clients":[]}}`},
		{`{"command":"listClients","count":0,"offset":-3}`, `{"command":"listClients","data":{"totalCount":4,"clients":[]}}`},
		{`{"command":"getClient"}`, `{"command":"getClient","error":"Invalid/missing clientid"}`},
		{`{"command":"getClient","clientid":"c9","correlationData":"y"}`, `{"command":"getClient","error":"Client not found","correlationData":"y"}`},
		{`{"command":"listclient"},{"command":"getClient"}`, `{"command":"listclient","error":"Unknown command"},{"command":"getClient","error":"Invalid/missing clientid"}`},
		{`{"command":"getClient","clientid":"c9"},5,{"command":"getClient"}`, `{"command":"getClient","error":"Client not found"},{"command":"Unknown command","error":"Command not an object"}`},
		{``, ``},
	})
	for payload, want := range map[string]string{
		"": "Payload not valid JSON", "{": "Payload not valid JSON", "{}": "Invalid/missing commands", `{"commands":{}}`: "Invalid/missing commands",
		`{"commands":[{}]}`: "Missing command", `{"commands":[{"command":"getClient","correlationData":5}]}`: "Invalid correlationData data type.",
	} {
		if got := string(ask([]byte(payload))); !strings.Contains(got, `"error":"`+want+`"}]}`) {
			t.Errorf("%s: got %s, want %s", payload, got, want)
		}
	}
}

func TestInspect_what_is_asked_is_what_is_read(t *testing.T) {
	t.Parallel()
	r := newFakeClients()
	will := broker.ClientWill{Topic: "gone", QoS: 1, Payload: "b2Zm", Properties: []broker.WillProperty{{Identifier: "content-type", Value: "a"}}}
	r.clients[2].Will, r.clients[2].TLS = &will, &broker.ClientTLS{Version: "TLSv1.3"}
	var one Client
	if err := Read(Inspect(t.Context(), r, GetClient("c2").Encode("x")), "x", &one); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.clients[2], one.ConnectedClientDetail); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
	for _, verbose := range []bool{false, true} {
		var list Clients
		if err := Read(Inspect(t.Context(), r, ListClients(verbose, 2, 1).Encode("x")), "x", &list); err != nil {
			t.Fatal(err)
		}
		if list.Total != 4 || len(list.Clients) != 2 || list.Clients[1].ClientID != "c2" || list.Clients[1].Connected != verbose {
			t.Errorf("verbose %v: got %+v", verbose, list)
		}
	}
	err := Read(Inspect(t.Context(), r, GetClient("").Encode("x")), "x", &one)
	if e := refused(t, err).Classify("op", broker.CapInspect); broker.KindOf(e) != broker.NotFound {
		t.Errorf("no such client: %v", e)
	}
}

func refused(t *testing.T, err error) Refusal {
	t.Helper()
	r, ok := errors.AsType[Refusal](err)
	if !ok {
		t.Fatalf("got %v, want a refusal", err)
	}
	return r
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	r := &fakeClients{}
	long := strings.Repeat("x", 30_000)
	for range 600 {
		r.clients = append(r.clients, broker.ConnectedClientDetail{ClientID: long})
	}
	all := string(Inspect(t.Context(), r, ListClients(false, -1, 0).Encode("x")))
	if want := `{"responses":[{"command":"listClients","error":"Answer too large, use count and offset","correlationData":"x"}]}`; all != want {
		t.Errorf("got %.200s, want %s", all, want)
	}
	half := `{"command":"listClients","count":300}`
	got := Inspect(t.Context(), r, []byte(`{"commands":[`+half+","+half+`]}`))
	if len(got) > maxResponse || !strings.HasSuffix(string(got), `,{"command":"listClients","error":"Answer too large, use count and offset"}]}`) {
		t.Errorf("two halves: got %d bytes ending %q", len(got), got[len(got)-80:])
	}
}

func TestNoAnswerAfterTheEnd(t *testing.T) {
	t.Parallel()
	r := newFakeClients()
	ended, end := context.WithCancel(t.Context())
	end()
	if got := ClientControl(ended, r, DisconnectClient("c0").Encode("x")); got != nil || len(r.log) > 0 {
		t.Errorf("answered %s, done %q", got, r.log)
	}
}

func TestClientControl(t *testing.T) {
	t.Parallel()
	r := newFakeClients()
	wantResponses(t, func(p []byte) []byte { return ClientControl(t.Context(), r, p) }, [][2]string{
		{`{"command":"disconnectClient","clientid":"c1","correlationData":"x"}`, `{"command":"disconnectClient","data":{},"correlationData":"x"}`},
		{`{"command":"disconnectClient","clientid":"c9"}`, `{"command":"disconnectClient","error":"Client not found"}`},
		{`{"command":"disconnectClient","clientid":1}`, `{"command":"disconnectClient","error":"Invalid/missing clientid"}`},
		{`{"command":"subscribeClient","clientid":"c1","topic":"a/+","qos":1}`, `{"command":"subscribeClient","data":{}}`},
		{`{"command":"subscribeClient","clientid":"c1","topic":"$share/g/a","qos":2,"subscription_identifier":7,"options":{"no_local":true,"retain_as_published":true,"send_retain":"never"}}`, `{"command":"subscribeClient","data":{}}`},
		{`{"command":"subscribeClient","clientid":"c1","topic":"a","qos":0,"options":{"send_retain":null}}`, `{"command":"subscribeClient","data":{}}`},
		{`{"command":"subscribeClient","clientid":"c1","topic":"a","qos":0,"options":{"send_retain":"often"}}`, `{"command":"subscribeClient","error":"Invalid send_retain"}`},
		{`{"command":"subscribeClient","clientid":"c1","topic":"a/#/b","qos":0}`, `{"command":"subscribeClient","error":"Invalid/missing topic"}`},
		{`{"command":"subscribeClient","clientid":"c1","topic":"a","qos":3}`, `{"command":"subscribeClient","error":"Invalid/missing qos"}`},
		{`{"command":"subscribeClient","clientid":"c1","topic":"a"}`, `{"command":"subscribeClient","error":"Invalid/missing qos"}`},
		{`{"command":"subscribeClient","clientid":"c1","topic":"a","qos":1,"subscription_identifier":268435456}`, `{"command":"subscribeClient","error":"Invalid subscription_identifier"}`},
		{`{"command":"unsubscribeClient","clientid":"c1","topic":"a/+"}`, `{"command":"unsubscribeClient","data":{}}`},
		{`{"command":"unsubscribeClient","topic":"a/+"}`, `{"command":"unsubscribeClient","error":"Invalid/missing clientid"}`},
		{`{"command":"probe"}`, `{"command":"probe","error":"Unknown command"}`},
	})
	want := []string{"c1 out",
		"c1 {Topic:a/+ QoS:1 SubscriptionIdentifier:0 NoLocal:false RetainAsPublished:false SendRetain:always}",
		"c1 {Topic:$share/g/a QoS:2 SubscriptionIdentifier:7 NoLocal:true RetainAsPublished:true SendRetain:never}",
		"c1 {Topic:a QoS:0 SubscriptionIdentifier:0 NoLocal:false RetainAsPublished:false SendRetain:always}",
		"c1 - a/+"}
	if diff := cmp.Diff(want, r.log); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

func TestClientControl_what_is_asked_is_what_is_done(t *testing.T) {
	t.Parallel()
	r := newFakeClients()
	spec := broker.SubscriptionSpec{Topic: "a/#", QoS: 2, SubscriptionIdentifier: 9, NoLocal: true, SendRetain: broker.SendNew}
	for _, c := range []Command{SubscribeClient("c0", spec), UnsubscribeClient("c0", "a/#"), DisconnectClient("c0"), SubscribeClient("c0", broker.SubscriptionSpec{Topic: "b"})} {
		if err := Read(ClientControl(t.Context(), r, c.Encode("x")), "x", nil); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
	want := []string{fmt.Sprintf("c0 %+v", spec), "c0 - a/#", "c0 out",
		fmt.Sprintf("c0 %+v", broker.SubscriptionSpec{Topic: "b", SendRetain: broker.SendAlways})}
	if diff := cmp.Diff(want, r.log); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

func TestTopicTree(t *testing.T) {
	t.Parallel()
	tr := &tracker{ttl: time.Minute, limits: Limits{50000, 50000, 1000}}
	ask := func(p []byte) []byte { return TopicTree(t.Context(), tr, nil, p) }
	wantResponses(t, ask, [][2]string{
		{`{"command":"topicCount"}`, `{"command":"topicCount","data":{"publishCount":3,"subscribeCount":2}}`},
		{`{"command":"listTopics","count":1,"offset":2}`, `{"command":"listTopics","data":{"publishTopics":{"count":3,"topics":["2/1"],"data":[{"topic":"2/1","payload":"<1>","qos":1,"retain":false,"lastModified":1763640000000,"messages":9}]},"subscribeTopics":{"count":2,"topics":["#"],"data":[{"topic":"#","clients":4}]}}}`},
		{`{"command":"getTtl"}`, `{"command":"getTtl","data":{"ttl":60}}`},
		{`{"command":"setTtl","ttl":90}`, `{"command":"setTtl","data":{"ttl":90}}`},
		{`{"command":"setTtl","ttl":-1}`, `{"command":"setTtl","error":"Invalid/missing ttl"}`},
		{`{"command":"setTtl"}`, `{"command":"setTtl","error":"Invalid/missing ttl"}`},
		{`{"command":"listFilters"}`, `{"command":"listFilters","data":{"filters":[]}}`},
		{`{"command":"addFilter","filter":"a/#"},{"command":"addFilter","filter":"b"},{"command":"listFilters"}`, `{"command":"addFilter","data":{}},{"command":"addFilter","data":{}},{"command":"listFilters","data":{"filters":["a/#","b"]}}`},
		{`{"command":"addFilter","filter":"#/a"}`, `{"command":"addFilter","error":"Invalid/missing filter"}`},
		{`{"command":"removeFilter","filter":"b"}`, `{"command":"removeFilter","data":{}}`},
		{`{"command":"removeFilter","filter":"b"}`, `{"command":"removeFilter","error":"Filter not found"}`},
		{`{"command":"removeFilter"}`, `{"command":"removeFilter","error":"Invalid/missing filter"}`},
		{`{"command":"clearFilters"},{"command":"listFilters"}`, `{"command":"clearFilters","data":{}},{"command":"listFilters","data":{"filters":[]}}`},
		{`{"command":"getLimits"}`, `{"command":"getLimits","data":{"publishLimit":50000,"subscribeLimit":50000,"payloadLimit":1000}}`},
		{`{"command":"setLimits","payloadLimit":10}`, `{"command":"setLimits","data":{"publishLimit":50000,"subscribeLimit":50000,"payloadLimit":10}}`},
		{`{"command":"setLimits","publishLimit":-1}`, `{"command":"setLimits","error":"Invalid limits"}`},
	})
	var topics Topics
	if err := Read(ask(ListTopics(2, 1).Encode("x")), "x", &topics); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tr.Page(1, 2), topics.TopicTree); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
	var ttl TTL
	if err := Read(ask(SetTTL(30).Encode("x")), "x", &ttl); err != nil || ttl.TTL != 30 || tr.ttl != 30*time.Second {
		t.Errorf("setTtl: %v, %v, %v", ttl, tr.ttl, err)
	}
}

// fakeNodes is the nodes of an HP cluster: 2 responds, 3 is unavailable, 4 does not respond.
type fakeNodes struct {
	broker.Topics
	ttl map[int]int64
}

func (h fakeNodes) fails(id int) error {
	switch id {
	case 2:
		return nil
	case 3:
		return &broker.Error{Kind: broker.Unavailable, Msg: "secret address"}
	case 4:
		return &broker.Error{Kind: broker.Unconfirmed, Msg: "secret address"}
	case 5:
		return errors.New("secret cause")
	}
	return &broker.Error{Kind: broker.NotFound, Msg: "the cluster has no such node"}
}

func (h fakeNodes) ListTopics(_ context.Context, id, offset, count int) ([]broker.TopicTree, error) {
	tree := (&tracker{}).Page(offset, count)
	tree.PublishTopics.Count = id
	return []broker.TopicTree{tree}, h.fails(id)
}

func (h fakeNodes) GetTTL(_ context.Context, id int) ([]int64, error) {
	return []int64{h.ttl[id]}, h.fails(id)
}

func (h fakeNodes) SetTTL(_ context.Context, id int, seconds int64) error {
	if h.fails(id) == nil {
		h.ttl[id] = seconds
	}
	return h.fails(id)
}

// TestTopicTreeOfNodes sends commands for other nodes of a cluster.
func TestTopicTreeOfNodes(t *testing.T) {
	t.Parallel()
	tr, h := &tracker{ttl: time.Minute}, fakeNodes{ttl: map[int]int64{}}
	ask := func(p []byte) []byte { return TopicTree(t.Context(), tr, h, p) }
	wantResponses(t, ask, [][2]string{
		{`{"command":"getTtl","nodeid":0}`, `{"command":"getTtl","data":{"ttl":60}}`},
		{`{"command":"setTtl","nodeid":2,"ttl":7},{"command":"getTtl","nodeid":2},{"command":"getTtl"}`,
			`{"command":"setTtl","data":{"ttl":7}},{"command":"getTtl","data":{"ttl":7}},{"command":"getTtl","data":{"ttl":60}}`},
		{`{"command":"setTtl","nodeid":2,"ttl":-7}`, `{"command":"setTtl","error":"Invalid/missing ttl"}`},
		{`{"command":"listTopics","nodeid":3}`, `{"command":"listTopics","error":"Node cannot be reached"}`},
		{`{"command":"setTtl","nodeid":4,"ttl":1}`, `{"command":"setTtl","error":"The outcome is not known: it may have been carried out."}`},
		{`{"command":"getTtl","nodeid":5}`, `{"command":"getTtl","error":"Internal error"}`},
		{`{"command":"getTtl","nodeid":-2}`, `{"command":"getTtl","error":"Node not found"}`},
	})
	var topics Topics
	if err := Read(ask(ListTopics(2, 1).On(2).Encode("x")), "x", &topics); err != nil || topics.PublishTopics.Count != 2 || topics.PublishTopics.Topics[0] != "1/2" {
		t.Errorf("tree of node 2: %+v, %v", topics, err)
	}
	alone := func(p []byte) []byte { return TopicTree(t.Context(), tr, nil, p) }
	for _, c := range []Command{ListTopics(1, 0), GetTTL(), SetTTL(1)} {
		if err := Read(alone(c.On(1).Encode("x")), "x", nil); !errors.Is(err, Refusal(ErrNoNode)) {
			t.Errorf("%s of a node, where there are none: %v", c.Name, err)
		}
	}
	if tr.ttl != time.Minute {
		t.Errorf("the own TTL is %v", tr.ttl)
	}
}

func TestBrokerInfo(t *testing.T) {
	t.Parallel()
	plugins := []Plugin{{Name: "broker", Version: "1", Endpoints: []string{BrokerTopic}}, {Name: "mute"}}
	none := []broker.ListenerCert{}
	listeners := []broker.Listener{
		{ID: 1, Port: 1883, Protocol: "mqtt", BindAddress: "127.0.0.1", Certs: none},
		{ID: 2, Port: 8883, Protocol: "mqtt", TLS: true, RequireCertificate: true, Certs: none},
		{ID: 3, Protocol: "mqtt", BindAddress: "/run/mqtt.sock", Certs: none},
	}
	get := func(context.Context) ([]broker.Listener, error) { return listeners, nil }
	ask := func(p []byte) []byte { return BrokerInfo(t.Context(), plugins, get, p) }
	wantResponses(t, ask, [][2]string{
		{`{"command":"listPlugins"}`, `{"command":"listPlugins","data":{"plugins":[{"name":"broker","version":"1","control-endpoints":["$CONTROL/broker/v1"]},{"name":"mute"}]}}`},
		{`{"command":"listListeners"}`, `{"command":"listListeners","data":{"listeners":[{"id":1,"port":1883,"protocol":"mqtt","bind-address":"127.0.0.1","tls":false,"require-certificate":false},{"id":2,"port":8883,"protocol":"mqtt","tls":true,"require-certificate":true},{"id":3,"port":0,"protocol":"mqtt","socket-path":"/run/mqtt.sock","tls":false,"require-certificate":false}]}}`},
	})
	var l Listeners
	if err := Read(ask(ListListeners().Encode("x")), "x", &l); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(listeners, l.View()); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
	var p Plugins
	if err := Read(ask(ListPlugins().Encode("x")), "x", &p); err != nil || len(p.Plugins) != 2 {
		t.Errorf("plugins: %+v, %v", p, err)
	}
	get = func(context.Context) ([]broker.Listener, error) { return nil, errors.New("secret cause") }
	wantResponses(t, ask, [][2]string{{`{"command":"listListeners"}`, `{"command":"listListeners","error":"Internal error"}`}})
}

func TestLicenseInfo(t *testing.T) {
	t.Parallel()
	license := broker.License{Plan: "p", Edition: "embedded", IssuedBy: "us", IssuedTo: "you", ValidSince: 1, ValidUntil: 2, Features: []string{"a", "b"}}
	get := func(context.Context) (broker.License, error) { return license, nil }
	var got License
	if err := Read(LicenseInfo(t.Context(), get, GetLicenseInformation().Encode("x")), "x", &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(license, got.View()); diff != "" {
		t.Errorf("licence (-want +got):\n%s", diff)
	}
	none := func(context.Context) (broker.License, error) {
		return broker.License{}, broker.NotSupported("getLicense", broker.CapLicense)
	}
	wantResponses(t, func(p []byte) []byte { return LicenseInfo(t.Context(), none, p) },
		[][2]string{{`{"command":"getLicenseInformation"}`, `{"command":"getLicenseInformation","error":"Unknown command"}`}})
}
