package apitest_test

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/handlers"
	"signalbox/router/apitest"
)

func search(as *apitest.Caller, q string, more ...string) (record handlers.SearchRecord) {
	as.Get("/api/search?q=" + url.QueryEscape(q) + strings.Join(more, "")).Want(200).Decode(&record)
	return record
}

// shown returns results as kind, name and broker.
func shown(r handlers.SearchRecord) (list []string) {
	for _, one := range r.Results {
		text := one.Kind + " " + one.Name
		if one.Broker != nil {
			text += " @ " + one.Broker.Name
		}
		list = append(list, text)
	}
	return list
}

func wantFound(t *testing.T, got handlers.SearchRecord, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, shown(got)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

// TestSearchFindsEveryKind has one object of each kind whose name contains the text.
func TestSearchFindsEveryKind(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	api.Root.Put(api.At("/topictree/ttl"), object{"ttl_sec": 3600}).Want(204)
	api.Root.Post("/api/projects", object{"name": "North Pumps"}).Want(200)
	down := addBroker(t, api, object{"name": "pump house", "url": "mqtt://127.0.0.1:1"})
	eve := addTestUser(t, api, "pumpkin")
	api.Root.Post(api.At("/clients"), object{"username": "Pump-7"}).Want(204)
	api.Root.Post(api.At("/roles"), object{"rolename": "pumps"}).Want(204)
	api.Root.Post(api.At("/groups"), object{"groupname": "all-pumps"}).Want(204)
	api.Root.Post(api.At("/streams"), object{"streamname": "pump-speed", "sourceTopic": "pump/+/speed"}).Want(204)
	join(t, api, 5, "big-pump", asAdmin)
	api.Root.Post(api.At("/messages"), object{"topic": "hall/pump/7", "payload": "1"}).Want(204)

	got := search(api.Root, "PUMP")
	wantFound(t, got, "project North Pumps", "broker pump house", "user pumpkin", "client Pump-7 @ embedded", "role pumps @ embedded",
		"group all-pumps @ embedded", "session big-pump @ embedded", "stream pump-speed @ embedded", "topic hall/pump/7 @ embedded")
	for _, r := range got.Results {
		inProject, inBroker := r.Kind != "project" && r.Kind != "user", r.Kind != "project" && r.Kind != "user" && r.Kind != "broker"
		if (r.Project != nil) != inProject || inProject && (r.Project.ID != api.Project || r.Project.Name != "default") {
			t.Errorf("%s: project %+v", r.Kind, r.Project)
		}
		if (r.Broker != nil) != inBroker || inBroker && (r.Broker.ID != api.Embedded || r.ID != r.Name) {
			t.Errorf("%s: broker %+v, id %s", r.Kind, r.Broker, r.ID)
		}
	}
	if user := got.Results[2]; user.ID != eve.id || user.Email != eve.email {
		t.Errorf("user %+v", user)
	}
	if len(got.Incomplete) != 1 || got.Incomplete[0].Broker.ID != down || got.Incomplete[0].Code != "BROKER_UNAVAILABLE" ||
		got.Incomplete[0].Project.ID != api.Project || got.Incomplete[0].Message == "" || got.NotAsked != 0 {
		t.Errorf("incomplete %+v, %d not asked", got.Incomplete, got.NotAsked)
	}
	wantFound(t, search(api.Root, "no such thing"))
	wantFound(t, search(api.Root, "%"))
}

// TestSearchShowsBeginningsFirst has more matches than are shown.
func TestSearchShowsBeginningsFirst(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for i := range 12 {
		api.Root.Post(api.At("/clients"), object{"username": fmt.Sprintf("a-meter-%02d", i)}).Want(204)
		if i < 3 {
			api.Root.Post(api.At("/clients"), object{"username": fmt.Sprintf("METER-%02d", i)}).Want(204)
		}
	}
	want := []string{"client METER-00 @ embedded", "client METER-01 @ embedded", "client METER-02 @ embedded"}
	for i := range 5 {
		want = append(want, fmt.Sprintf("client a-meter-%02d @ embedded", i))
	}
	wantFound(t, search(api.Root, "meter"), want...)
	wantFound(t, search(api.Root, "meter", "&count=2"), want[:2]...)
	wantFound(t, search(api.Root, "meter", "&count=4"), want[:4]...)
}

func TestInvalidSearch(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for query, want := range map[string]string{
		"": "query.q", "?q=": "query.q", "?q=" + strings.Repeat("%C3%A4", 201): "query.q", "?q=a%00": "query.q",
		"?q=a&count=0": "query.count", "?q=a&count=9": "query.count",
	} {
		if got := api.Root.Get("/api/search"+query).WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: named %v, want %s", query, got, want)
		}
	}
	search(api.Root, strings.Repeat("ä", 200))
	api.Anonymous().Get("/api/search?q=a").WantError(401, "UNAUTHORIZED")
	api.Root.Get("/api/search?q=a&projectId=01900000-0000-7000-8000-000000000000").WantError(404, "NOT_FOUND")
}

// TestSearchFindsWhatTheCallerSees searches two projects as everybody.
func TestSearchFindsWhatTheCallerSees(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	var other struct{ ID string }
	api.Root.Post("/api/projects", object{"name": "common other"}).Want(200).Decode(&other)
	api.Root.Put("/api/projects/"+api.Project, object{"name": "common default"}).Want(204)
	second := addBroker(t, api, object{"name": "common remote", "url": "mqtt://127.0.0.1:1"})
	api.Root.Post(api.At("/roles"), object{"rolename": "common role"}).Want(204)
	eve, ann := addTestUser(t, api, "common-eve"), addTestUser(t, api, "common-ann")
	api.Root.Put(memberAt(api, eve.id), object{"role": "viewer"}).Want(204)

	wantFound(t, search(api.Root, "common"), "project common default", "project common other", "broker common remote",
		"user common-ann", "user common-eve", "role common role @ embedded")
	wantFound(t, search(api.Root, "common", "&projectId="+other.ID), "project common other")
	inDefault := []string{"project common default", "broker common remote", "role common role @ embedded"}
	wantFound(t, search(api.Root, "common", "&projectId="+api.Project), inDefault...)
	wantFound(t, search(eve.Caller, "common"), inDefault...)
	wantFound(t, search(ann.Caller, "common"))
	eve.Get("/api/search?q=common&projectId="+other.ID).WantError(403, "FORBIDDEN")
	wantFound(t, search(api.Token("viewer"), "common"), inDefault...)
	wantFound(t, search(api.Token("viewer", second), "common"), "broker common remote")
	restricted := api.Token("viewer", api.Embedded)
	wantFound(t, search(restricted, "common"), "role common role @ embedded")
	if got := search(restricted, "common"); len(got.Incomplete) != 0 {
		t.Errorf("a broker that the token does not reach is listed: %+v", got.Incomplete)
	}
}

// slowBroker is a real broker whose list of roles never arrives.
type slowBroker struct{ broker.Broker }

func (slowBroker) ListRoles(ctx context.Context, _ broker.ListOptions[broker.Role]) (broker.Page[broker.Role], error) {
	<-ctx.Done()
	return broker.Page[broker.Role]{}, ctx.Err()
}

// TestSearchDoesNotWaitForASlowBroker has one that responds beside one that does not.
func TestSearchDoesNotWaitForASlowBroker(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Post(api.At("/roles"), object{"rolename": "pumps"}).Want(204)
	id := addBroker(t, api, object{"name": "slow", "url": "mqtt://127.0.0.1:1"})
	replaceBroker(api, id, slowBroker{api.Handlers.Brokers.Live(api.Embedded, 0)})
	api.Handlers.SearchTime = handlers.DefaultSearchTime
	got := search(api.Root, "pump")
	missing := map[string]string{}
	for _, gap := range got.Incomplete {
		missing[gap.Broker.Name] = gap.Code
	}
	if missing["slow"] != "BROKER_TIMEOUT" {
		t.Errorf("incomplete %+v, want the slow broker", got.Incomplete)
	}
	if _, late := missing["embedded"]; !late { // as it may be on a busy machine
		wantFound(t, got, "role pumps @ embedded")
	}
}

// panickingBroker is a real broker whose list of roles panics.
type panickingBroker struct{ broker.Broker }

func (panickingBroker) ListRoles(context.Context, broker.ListOptions[broker.Role]) (broker.Page[broker.Role], error) {
	panic("deliberate")
}

// TestSearchSurvivesAPanic has a broker that fails beside one that responds.
func TestSearchSurvivesAPanic(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Root.Post(api.At("/roles"), object{"rolename": "pumps"}).Want(204)
	id := addBroker(t, api, object{"name": "faulty", "url": "mqtt://127.0.0.1:1"})
	replaceBroker(api, id, panickingBroker{api.Handlers.Brokers.Live(api.Embedded, 0)})
	got := search(api.Root, "pump")
	wantFound(t, got, "role pumps @ embedded")
	if len(got.Incomplete) != 1 || got.Incomplete[0].Broker.ID != id || got.Incomplete[0].Code != "INTERNAL_ERROR" {
		t.Errorf("incomplete %+v, want the faulty broker", got.Incomplete)
	}
}

// TestSearchIsBounded refuses a search for which there is no time.
func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	api.Handlers.SearchTime = 0
	refused := api.Root.Get("/api/search?q=x")
	refused.WantError(503, "SEARCH_BUSY")
	if refused.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

// TestSearchAsksABoundedNumberOfBrokers has more connections than are asked.
func TestSearchAsksABoundedNumberOfBrokers(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for i := range 102 {
		addBroker(t, api, object{"name": fmt.Sprint("remote ", i), "url": "mqtt://127.0.0.1:1"})
	}
	if got := search(api.Root, "x"); got.NotAsked != 3 || len(got.Incomplete) != 99 {
		t.Errorf("%d not asked, %d incomplete, want 3 and 99", got.NotAsked, len(got.Incomplete))
	}
}

// TestSearchOfARemoteBroker searches the embedded broker of another service.
func TestSearchOfARemoteBroker(t *testing.T) {
	t.Parallel()
	first, second := apitest.New(t, withAdminPassword), apitest.New(t)
	id := addBroker(t, second, object{"name": "first", "url": "mqtt://" + first.MQTT, "username": mqttAdmin, "password": mqttPassword})
	waitFor(t, "the connection", func() bool { return brokerRecord(second, id).Status.Connected })
	first.Root.Post(first.At("/roles"), object{"rolename": "pumps"}).Want(204)
	first.Root.Post(first.At("/clients"), object{"username": "pump-7"}).Want(204)
	join(t, first, 5, "pump-1", asAdmin)
	wantFound(t, search(second.Root, "pump"), "client pump-7 @ first", "role pumps @ first", "session pump-1 @ first")
}
