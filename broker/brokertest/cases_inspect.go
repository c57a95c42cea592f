package brokertest

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
)

func inspectCases() []testCase {
	needs := []Feature{Inspection}
	return []testCase{
		{name: "a client is shown as it is, and what it does counts", needs: needs, run: inspectClient},
		{name: "the list is in order of client ids, in parts and as a whole", needs: needs, run: inspectList},
		{name: "a client id that does not exist is not found", needs: needs, run: inspectUnknown},
		{name: "the clients with the longest queues are those with a queue", needs: needs, run: inspectTop},
	}
}

func inspectTop(t *testing.T, s *fixture) {
	s.login(t, s.client(t))
	top, err := s.Broker.TopClients(t.Context(), broker.ByQueue, broker.MaxTopClients)
	must(t, err)
	if top.By != broker.ByQueue || top.Sessions == 0 || top.Examined != top.Sessions || top.Clients == nil {
		t.Errorf("got %+v", top)
	}
	for _, c := range top.Clients {
		if c.Queue == 0 {
			t.Errorf("%s has no queue", c.ClientID)
		}
	}
}

func inspectClient(t *testing.T, s *fixture) {
	username := s.client(t, s.role(t, append(markRights(), allow(broker.PublishClientSend, "w"))...))
	d, err := s.connect(t, identity{username: username, password: password(username), will: "w"})
	must(t, err)
	d.subscribe(t, mark)
	s.passMark(t, d, d)
	c, err := s.Broker.InspectClient(t.Context(), d.clientID)
	must(t, err)
	want := broker.ConnectedClientDetail{Username: username, ClientID: d.clientID, Address: "127.0.0.1", Protocol: "MQTT", ProtocolVersion: "v3.1.1",
		NumSubscriptions: 1, NumPublished: 1, NumSubscribed: 1, BytesPublished: c.BytesPublished, BytesSubscribed: c.BytesPublished,
		Connected: true, LastConnect: c.LastConnect, Keepalive: int(keepAlive.Seconds()), CleanSession: true, Listener: c.Listener,
		Will:          &broker.ClientWill{Topic: "w", Payload: base64.StdEncoding.EncodeToString([]byte("w")), Properties: []broker.WillProperty{}},
		Subscriptions: []string{mark}, Queues: c.Queues, Inflight: c.Inflight, Dropped: c.Dropped}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("client (-want +got):\n%s", diff)
	}
	if c.BytesPublished == 0 || c.LastConnect == 0 || c.Listener == nil || !strings.HasSuffix(s.URL, fmt.Sprint(":", c.Listener.Port)) ||
		c.Queues.MessagesMax == 0 || c.Inflight.MessagesOutMax == 0 {
		t.Errorf("client: %+v, by %+v", c, c.Listener)
	}
}

// sessions returns the client ids of a page of the list.
func (s *fixture) sessions(t *testing.T, offset, count int) (ids []string, total int) {
	t.Helper()
	page, err := s.Broker.InspectClients(t.Context(), offset, count, false)
	must(t, err)
	for c, err := range page.Items {
		must(t, err)
		ids = append(ids, c.ClientID)
	}
	return ids, page.Total
}

func inspectList(t *testing.T, s *fixture) {
	var want []string
	for range 5 {
		want = append(want, s.login(t, s.client(t)).clientID)
	}
	var all []string
	var total int
	WaitFor(t, "devices of earlier cases have left", func() bool {
		all, total = s.sessions(t, 0, -1)
		return !slices.ContainsFunc(all, func(id string) bool { return strings.HasPrefix(id, "device-") && !slices.Contains(want, id) })
	})
	if middle, also := s.sessions(t, 1, len(all)-2); total != len(all) || also != total || !slices.Equal(middle, all[1:len(all)-1]) {
		t.Errorf("all are %q of %d, and all but the first and the last %q of %d", all, total, middle, also)
	}
	if !slices.IsSorted(all) {
		t.Errorf("not in order: %q", all)
	}
	for _, id := range want {
		if !slices.Contains(all, id) {
			t.Errorf("%s is missing in %q", id, all)
		}
	}
	if beyond, total := s.sessions(t, len(all)+10, 5); len(beyond) != 0 || total != len(all) {
		t.Errorf("past the end: %q of %d, want none of %d", beyond, total, len(all))
	}
}

func inspectUnknown(t *testing.T, s *fixture) {
	_, err := s.Broker.InspectClient(t.Context(), s.name("nobody"))
	wantKind(t, err, broker.NotFound)
}

func controlCases() []testCase {
	needs := []Feature{ClientControl}
	return []testCase{
		{name: "a client that is disconnected is cut off", needs: needs, run: controlDisconnect},
		{name: "what a client is subscribed to in its place arrives, until that is undone", needs: needs, run: controlSubscribe},
		{name: "who is not there can be neither disconnected nor subscribed", needs: needs, run: controlUnknown},
	}
}

func controlDisconnect(t *testing.T, s *fixture) {
	d, other := s.device(t), s.device(t)
	must(t, s.Broker.DisconnectClient(t.Context(), d.clientID))
	d.isCutOff(t)
	other.isConnected(t)
}

func controlSubscribe(t *testing.T, s *fixture) {
	admin, d := s.admin(t), s.device(t)
	d.subscribe(t, mark)
	topic := s.name("topic")
	if s.getsThrough(t, admin, d, topic) {
		t.Fatal("a message came without a subscription")
	}
	must(t, s.Broker.SubscribeClient(t.Context(), d.clientID, broker.SubscriptionSpec{Topic: topic + "/#", QoS: 1, SendRetain: broker.SendNever}))
	if !s.getsThrough(t, admin, d, topic+"/1") {
		t.Error("no message came for the subscription")
	}
	must(t, s.Broker.UnsubscribeClient(t.Context(), d.clientID, topic+"/#"))
	if s.getsThrough(t, admin, d, topic+"/1") {
		t.Error("a message came for a subscription that was undone")
	}
}

func controlUnknown(t *testing.T, s *fixture) {
	unknown := s.name("nobody")
	wantKind(t, s.Broker.DisconnectClient(t.Context(), unknown), broker.NotFound)
	wantKind(t, s.Broker.SubscribeClient(t.Context(), unknown, broker.SubscriptionSpec{Topic: "a"}), broker.NotFound)
	wantKind(t, s.Broker.UnsubscribeClient(t.Context(), unknown, "a"), broker.NotFound)
}
