package remote

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/brokertest"
	"signalbox/broker/control"
	"signalbox/broker/pages"
)

// inspectable is a scripted broker that responds on the control topics as our broker
// does, from values.
type inspectable struct {
	broker.ClientControl
	mu      sync.Mutex // guards the fields below
	clients []broker.ConnectedClientDetail
	done    []string
}

func (b *inspectable) InspectClients(_ context.Context, offset, count int, _ bool) (broker.Page[broker.ConnectedClient], error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []broker.ConnectedClient
	for i, c := range b.clients {
		if i >= offset && (count < 0 || i < offset+count) {
			all = append(all, broker.ConnectedClient{ClientID: c.ClientID, Username: c.Username,
				Queues: broker.ClientQueues{MessagesOut: c.Queues.MessagesOut, BytesOut: c.Queues.BytesOut}})
		}
	}
	return broker.Page[broker.ConnectedClient]{Total: len(b.clients), Items: pages.Of(all)}, nil
}

func (b *inspectable) InspectClient(_ context.Context, id string) (broker.ConnectedClientDetail, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.clients {
		if c.ClientID == id {
			return c, nil
		}
	}
	return broker.ConnectedClientDetail{}, &broker.Error{Kind: broker.NotFound}
}

func (b *inspectable) note(id, what string) error {
	if _, err := b.InspectClient(context.Background(), id); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = append(b.done, what)
	return nil
}

func (b *inspectable) DisconnectClient(_ context.Context, id string) error { return b.note(id, "out") }
func (b *inspectable) SubscribeClient(_ context.Context, id string, s broker.SubscriptionSpec) error {
	return b.note(id, fmt.Sprintf("%+v", s))
}
func (b *inspectable) UnsubscribeClient(_ context.Context, id, topic string) error {
	return b.note(id, "-"+topic)
}

// answer returns the response to a request.
func (b *inspectable) answer(topic string, payload []byte) []byte {
	switch topic {
	case control.InspectTopic:
		return control.Inspect(context.Background(), b, payload)
	case control.ClientControlTopic:
		return control.ClientControl(context.Background(), b, payload)
	}
	return nil
}

func serveInspectable(t *testing.T, clients ...broker.ConnectedClientDetail) (*inspectable, *Broker) {
	t.Helper()
	live := &inspectable{clients: clients}
	server := &scripted{respond: live.answer, answers: func(topic, _ string) string {
		if topic == "$CONTROL/dynamic-security/v1" {
			return anyDefaults
		}
		return ""
	}}
	return live, connected(t, server.serve(t))
}

func TestInspectClients(t *testing.T) {
	t.Parallel()
	var clients []broker.ConnectedClientDetail
	for i := range 2500 {
		clients = append(clients, broker.ConnectedClientDetail{ClientID: fmt.Sprintf("c%04d", i), Username: "u"})
	}
	_, b := serveInspectable(t, clients...)
	for _, c := range []struct{ offset, count, want int }{{0, -1, 2500}, {2498, 5, 2}, {10, 3, 3}, {0, 0, 0}, {9999, 1, 0}} {
		page, err := b.InspectClients(t.Context(), c.offset, c.count, true)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for got, err := range page.Items {
			if err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("c%04d", c.offset+n); got.ClientID != want || got.Username != "u" {
				t.Fatalf("offset %d, entry %d: got %+v", c.offset, n, got)
			}
			n++
		}
		if page.Total != 2500 || n != c.want {
			t.Errorf("offset %d, count %d: got %d of %d, want %d", c.offset, c.count, n, page.Total, c.want)
		}
	}
}

// TestTopClients ranks a list of several pages.
func TestTopClients(t *testing.T) {
	t.Parallel()
	var clients []broker.ConnectedClientDetail
	for i := range 2500 {
		c := broker.ConnectedClientDetail{ClientID: fmt.Sprintf("c%04d", i), Username: "u"}
		if i%10 == 0 {
			c.Queues.MessagesOut, c.Queues.BytesOut = int64(i/10%200), int64(i)
		}
		clients = append(clients, c)
	}
	_, b := serveInspectable(t, clients...)
	got, err := b.TopClients(t.Context(), broker.ByQueue, 3)
	if err != nil {
		t.Fatal(err)
	}
	entry := func(n, queue int64) broker.TopClient {
		return broker.TopClient{ClientID: fmt.Sprintf("c%04d", n), Username: "u", Queue: queue, QueueBytes: n}
	}
	want := broker.TopClients{By: broker.ByQueue, Sessions: 2500, Examined: 2500,
		Clients: []broker.TopClient{entry(1990, 199), entry(1980, 198), entry(1970, 197)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all, err := b.TopClients(t.Context(), broker.ByQueue, broker.MaxTopClients); err != nil || len(all.Clients) != broker.MaxTopClients {
		t.Errorf("%d clients, %v", len(all.Clients), err)
	}
	for _, by := range []broker.ClientFigure{broker.ByDropped, broker.ByRate, broker.ByInflight, broker.BySubscriptions} {
		_, err := b.TopClients(t.Context(), by, 3)
		wantUnsupported(t, err, broker.CapInspect)
	}
}

func TestInspectClient(t *testing.T) {
	t.Parallel()
	since := int64(5)
	want := broker.ConnectedClientDetail{ClientID: "p", Username: "<anonymous>", LastDisconnect: &since, Subscriptions: []string{"a/#"},
		Will: &broker.ClientWill{Topic: "w", Payload: "eA==", Properties: []broker.WillProperty{{Identifier: "user-property", Name: "k", Value: "v"}}}}
	_, b := serveInspectable(t, want)
	got, err := b.InspectClient(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
	_, err = b.InspectClient(t.Context(), "nobody")
	wantKind(t, err, broker.NotFound)
}

func TestClientControl(t *testing.T) {
	t.Parallel()
	live, b := serveInspectable(t, broker.ConnectedClientDetail{ClientID: "p"})
	spec := broker.SubscriptionSpec{Topic: "a/#", QoS: 1, NoLocal: true, SendRetain: broker.SendNever}
	for _, err := range []error{b.SubscribeClient(t.Context(), "p", spec), b.UnsubscribeClient(t.Context(), "p", "a/#"), b.DisconnectClient(t.Context(), "p")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{fmt.Sprintf("%+v", spec), "-a/#", "out"}, live.done); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
	wantKind(t, b.DisconnectClient(t.Context(), "nobody"), broker.NotFound)
	wantKind(t, b.SubscribeClient(t.Context(), "p", broker.SubscriptionSpec{Topic: "#/a"}), broker.Invalid)
}

func TestTopicTree(t *testing.T) {
	t.Parallel()
	b := connected(t, (&scripted{answers: func(topic, command string) string {
		switch command {
		case "listTopics":
			return data(command, `{"publishTopics":{"count":4,"data":[{"topic":"a","payload":"1"}]},"subscribeTopics":{"count":1,"topics":["#"]}}`)
		case "getTtl", "setTtl":
			return data(command, `{"ttl":60}`)
		}
		return rich(topic, command)
	}}).serve(t))
	trees, err := b.ListTopics(t.Context(), 0, 0, -1)
	if err != nil || len(trees) != 1 || trees[0].PublishTopics.Count != 4 || trees[0].PublishTopics.Data[0].Payload != "1" ||
		strings.Join(trees[0].SubscribeTopics.Topics, " ") != "#" {
		t.Errorf("ListTopics() = %+v, %v", trees, err)
	}
	if ttls, err := b.GetTTL(t.Context(), 0); err != nil || len(ttls) != 1 || ttls[0] != 60 {
		t.Errorf("GetTTL() = %v, %v", ttls, err)
	}
	if err := b.SetTTL(t.Context(), 0, 90); err != nil {
		t.Errorf("SetTTL() = %v", err)
	}
}

func TestWhatMosquittoLacks(t *testing.T) {
	t.Parallel()
	b := connected(t, brokertest.Mosquitto(t).Target())
	_, err := b.InspectClients(t.Context(), 0, -1, false)
	wantUnsupported(t, err, broker.CapInspect)
	_, err = b.InspectClient(t.Context(), "x")
	wantUnsupported(t, err, broker.CapInspect)
	wantUnsupported(t, b.DisconnectClient(t.Context(), "x"), broker.CapClientControl)
	_, err = b.ListSubscriptions(t.Context(), broker.SubscriptionOptions{})
	wantUnsupported(t, err, broker.CapSubscriptions)
	_, err = b.ListDenials(t.Context(), 0, -1)
	wantUnsupported(t, err, broker.CapDenials)
	wantUnsupported(t, b.AddBan(t.Context(), broker.BanSpec{}), broker.CapBans)
}
