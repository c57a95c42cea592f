package control

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

// responseWith returns a message with one response that has the data.
func responseWith(data string) []byte {
	return []byte(`{"responses":[{"command":"other","data":{},"correlationData":5},{"command":"c","data":` + data + `,"correlationData":"x"}]}`)
}

func TestRead_takes_what_brokers_write(t *testing.T) {
	t.Parallel()
	var c Client
	data := `{"clientid":"p","username":null,"numPublished":"many","lastConnect":1.76364e+12,"lastDisconnect":null,"keepalive":60.0,
		"cleanSession":1,"tls":{"version":"TLSv1.3"},"listener":{"port":8883},"will":{"topic":"t","properties":null},"queues":[],"novelty":{}}`
	if err := Read(responseWith(data), "x", &c); err != nil {
		t.Fatal(err)
	}
	want := broker.ConnectedClientDetail{ClientID: "p", LastConnect: 1763640000000, Keepalive: 60, TLS: &broker.ClientTLS{Version: "TLSv1.3"},
		Listener: &broker.ClientListener{Port: 8883}, Will: &broker.ClientWill{Topic: "t", Properties: []broker.WillProperty{}}, Subscriptions: []string{}}
	if diff := cmp.Diff(want, c.ConnectedClientDetail); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
	var list Clients
	if err := Read(responseWith(`{"clients":["a",{"clientid":"b","lastConnect":1e3,"queues":{"messagesOut":2,"bytesOut":"x"}},null,7]}`), "x", &list); err != nil {
		t.Fatal(err)
	}
	if list.Total != 4 || list.Clients[0].ClientID != "a" || list.Clients[1].LastConnect != 1000 || list.Clients[1].Queues.MessagesOut != 2 {
		t.Errorf("list: got %+v", list)
	}
}

func TestRead_takes_both_forms_of_the_topic_tree(t *testing.T) {
	t.Parallel()
	want := broker.TopicTree{
		PublishTopics: broker.PublishTopics{Count: 7, Topics: []string{"a", "b"},
			Data: []broker.PublishTopic{{Topic: "a"}, {Topic: "b"}}},
		SubscribeTopics: broker.SubscribeTopics{Count: 1, Topics: []string{"#"}, Data: []broker.SubscribeTopic{{Topic: "#"}}},
	}
	for _, data := range []string{
		`{"publishTopics":{"count":7,"topics":["a","b"]},"subscribeTopics":{"topics":["#"]}}`,
		`{"publishTopics":{"count":7,"data":[{"topic":"a"},{"topic":"b"}]},"subscribeTopics":{"count":1,"data":[{"topic":"#"}]}}`,
		`{"publishTopics":{"count":7,"topics":[{"topic":"a","qos":"x"},"b"],"data":null},"subscribeTopics":{"count":"?","topics":["#"]}}`,
	} {
		var got Topics
		if err := Read(responseWith(data), "x", &got); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if diff := cmp.Diff(want, got.TopicTree); diff != "" {
			t.Errorf("%s (-want +got):\n%s", data, diff)
		}
	}
	var none Topics
	if err := Read(responseWith(`{}`), "x", &none); err != nil || none.PublishTopics.Topics == nil || none.SubscribeTopics.Data == nil {
		t.Errorf("no lists: %+v, %v", none, err)
	}
}

func TestRead_reports_what_cannot_be_read(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]string{
		"not JSON":           `{`,
		"no responses":       `{"error":"endpoint not available"}`,
		"responses no list":  `{"responses":{}}`,
		"somebody else's":    `{"responses":[{"command":"c","data":{},"correlationData":"y"}]}`,
		"no data":            `{"responses":[{"command":"c","correlationData":"x"}]}`,
		"data of other form": `{"responses":[{"command":"c","data":[],"correlationData":"x"}]}`,
	} {
		if err := Read([]byte(payload), "x", &Client{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := Read([]byte(`{"responses":[{"command":"c","correlationData":"x"}]}`), "x", nil); err != nil {
		t.Errorf("an answer that needs no data: %v", err)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for text, want := range map[Refusal]broker.Kind{
		"Unknown command": broker.Unsupported, "Client not found": broker.NotFound, "Filter not found": broker.NotFound,
		"Invalid/missing topic": broker.Invalid, "Missing clientid": broker.Invalid, "Internal error": broker.Internal,
		"Node not found": broker.NotFound, "Node cannot be reached": broker.Unavailable, Refusal(ErrUnconfirmed): broker.Unconfirmed,
	} {
		err := text.Classify("op", broker.CapInspect)
		if broker.KindOf(err) != want {
			t.Errorf("%s: kind %d, want %d", text, broker.KindOf(err), want)
		}
	}
}

func FuzzServe(f *testing.F) {
	for _, seed := range []string{
		`{"commands":[{"command":"listClients","verbose":true,"correlationData":"x"},{"command":"getClient","clientid":"c1"}]}`,
		`{"commands":[{"command":"subscribeClient","clientid":"c1","topic":"a","qos":1,"options":{"send_retain":"new"}}]}`,
		`{"commands":[{"command":"setLimits","publishLimit":1e9},{"command":"addFilter","filter":"+/\u0000"},{"command":"setTtl","ttl":1}]}`,
		`{"commands":[{"command":"setTtl","ttl":1,"nodeid":2},{"command":"getTtl","nodeid":-1e9},{"command":"listTopics","nodeid":3}]}`,
		`{"commands":[{"command":"\ud800"},null]}`, "{\"commands\":[{\"command\":\"\xff\",\"correlationData\":\"\xfe\"}]}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		r := newFakeClients()
		for _, got := range [][]byte{
			Inspect(t.Context(), r, payload), ClientControl(t.Context(), r, payload), TopicTree(t.Context(), &tracker{}, nil, payload),
			TopicTree(t.Context(), &tracker{}, fakeNodes{ttl: map[int]int64{}}, payload),
			BrokerInfo(t.Context(), nil, nil, []byte(`{"commands":[{"command":"listPlugins"}]}`)),
		} {
			var m struct{ Responses []map[string]any }
			if err := json.Unmarshal(got, &m); err != nil || m.Responses == nil {
				t.Fatalf("%q is answered with %q", payload, got)
			}
		}
	})
}

func FuzzRead(f *testing.F) {
	f.Add(responseWith(`{"totalCount":1e3,"clients":["a",{"clientid":"b"}],"publishTopics":{"topics":["a"]}}`))
	f.Add(responseWith(`{"clientid":"b","will":{"properties":null},"keepalive":1.5,"features":["a",{"name":"b"},3]}`))
	f.Add([]byte(`{"responses":[null,{"correlationData":"x","error":"Client not found"}]}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		var tree Topics
		var client Client
		for _, into := range []any{nil, &Clients{}, &client, &tree, &License{}, &Listeners{}, &Plugins{}, &TTL{}} {
			if err := Read(payload, "x", into); err == nil && into == &client && client.Subscriptions == nil {
				t.Error("a list is nil")
			}
		}
	})
}
