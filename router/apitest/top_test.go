package apitest_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/router/apitest"
)

func topClients(api *apitest.API, as *apitest.Caller, query string) (top broker.TopClients) {
	as.Get(api.At("/client-inspect/top" + query)).Want(200).Decode(&top)
	return top
}

// figures returns the entries of a list as "id figure".
func figures(top broker.TopClients, of func(broker.TopClient) int64) (all []string) {
	for _, c := range top.Clients {
		all = append(all, fmt.Sprint(c.ClientID, " ", of(c)))
	}
	return all
}

// TestTopClients orders sessions by every figure that is known at once.
func TestTopClients(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword, smallQueues(10, 3))
	viewer := api.Token("viewer")
	for id, filters := range map[string]int{"a": 3, "b": 1, "c": 2, "idle": 0} {
		d := join(t, api, 5, id, asAdmin, persistent)
		for i := range filters {
			d.Subscribe(1, fmt.Sprint(id, "/", i))
		}
		d.Disconnect()
	}
	here := join(t, api, 5, "here", asAdmin)
	here.Subscribe(1, "here")
	publisher := join(t, api, 5, "p", asAdmin)
	for topic, n := range map[string]int{"a/0": 4, "a/1": 1, "b/0": 14, "c/0": 5, "here": 2} {
		for range n {
			publisher.Publish(topic, payload, 1)
		}
	}
	for range 2 { // which are not acknowledged
		here.WantMessage("here", payload)
	}
	for _, c := range []struct {
		query string
		of    func(broker.TopClient) int64
		want  []string
	}{
		{"", func(c broker.TopClient) int64 { return c.Queue }, []string{"b 10", "a 5", "c 5"}},
		{"?by=queue&count=2", func(c broker.TopClient) int64 { return c.QueueBytes }, []string{"b 1020", "a 510"}},
		{"?by=dropped", func(c broker.TopClient) int64 { return *c.Dropped }, []string{"b 4"}},
		{"?by=inflight", func(c broker.TopClient) int64 { return *c.Inflight }, []string{"here 2"}},
		{"?by=subscriptions&count=100", func(c broker.TopClient) int64 { return *c.Subscriptions }, []string{"a 3", "c 2", "b 1", "here 1"}},
	} {
		waitFor(t, "the order "+c.query, func() bool {
			top := topClients(api, viewer, c.query)
			if top.Sessions != 6 || top.Examined != 6 {
				t.Fatalf("%q: %d of %d sessions, want 6", c.query, top.Examined, top.Sessions)
			}
			diff := cmp.Diff(c.want, figures(top, c.of))
			if diff != "" {
				t.Logf("%q (-want +got):\n%s", c.query, diff)
			}
			return diff == ""
		})
	}
	b := topClients(api, viewer, "").Clients[0]
	want := broker.TopClient{ClientID: "b", Username: mqttAdmin, Address: "127.0.0.1", Queue: 10, QueueBytes: b.QueueBytes,
		Dropped: new(int64(4)), Inflight: new(int64(0)), Subscriptions: new(int64(1))}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
}

// TestTopClientsByRate finds the client that publishes while the rates are measured.
func TestTopClientsByRate(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	publisher, quiet := join(t, api, 5, "p", asAdmin), join(t, api, 5, "quiet", asAdmin)
	quiet.Publish("t", "x", 1) // before the measurement
	for found := false; !found; {
		measured := make(chan broker.TopClients, 1)
		go func() { measured <- topClients(api, api.Root, "?by=rate") }()
		var top broker.TopClients
		for waiting := true; waiting; {
			publisher.Publish("t", "x", 1)
			select {
			case top = <-measured:
				waiting = false
			default:
			}
		}
		if found = len(top.Clients) > 0; found && (len(top.Clients) > 1 || top.Clients[0].ClientID != "p" || *top.Clients[0].Rate <= 0) {
			t.Errorf("got %+v, want the publisher only", top.Clients)
		}
	}
}

// TestTopClientsInvalid names every invalid parameter, and refuses what a broker without
// inspection cannot do.
func TestTopClientsInvalid(t *testing.T) {
	t.Parallel()
	api := apitest.New(t)
	for _, query := range []string{"?by=size", "?count=0", "?count=101", "?count=x"} {
		api.Root.Get(api.At("/client-inspect/top"+query)).WantError(400, "INVALID_REQUEST")
	}
	api.Anonymous().Get(api.At("/client-inspect/top")).WantError(401, "UNAUTHORIZED")
	id := addMosquitto(t, api)
	waitFor(t, "the broker to be known", func() bool {
		return api.Root.Get(api.BrokerAt(id, "/client-inspect/top")).Status == 405
	})
	api.Root.Get(api.BrokerAt(id, "/client-inspect/top?by=rate")).WantError(405, "NOT_SUPPORTED")
}
