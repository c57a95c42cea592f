package apitest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/broker/embedded"
	"signalbox/broker/embedded/engine"
	"signalbox/broker/embedded/schema"
	"signalbox/broker/embedded/store"
	"signalbox/broker/storage"
	"signalbox/router/apitest"
)

// listed reads a page of the list of clients.
func listed(t *testing.T, api *apitest.API, query string) (ids []string, total string) {
	t.Helper()
	answer := api.Root.Get(api.At("/client-inspect" + query)).Want(200)
	var list []broker.ConnectedClient
	answer.Decode(&list)
	for _, c := range list {
		ids = append(ids, c.ClientID)
	}
	return ids, answer.Header.Get("X-Total-Count")
}

// while repeats work until measure returns, at least once.
func while[T any](work func(), measure func() T) T {
	measured := make(chan T, 1)
	go func() { measured <- measure() }()
	for {
		work()
		select {
		case result := <-measured:
			return result
		default:
		}
	}
}

// TestClientRates measures the messages from and to clients, in a page and in a selection of the
// list.
func TestClientRates(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	away := join(t, api, 5, "away", asAdmin, persistent)
	away.Publish("t", "x", 1) // before the measurement
	away.Disconnect()
	wantDetail(t, api, "away", false, connected)
	publisher, reader := join(t, api, 5, "p", asAdmin), join(t, api, 5, "r", asAdmin)
	reader.Subscribe(0, "t")
	viewer := api.Token("viewer")
	read := func(query string) (list []broker.ConnectedClient) {
		viewer.Get(api.At("/client-inspect" + query)).Want(200).Decode(&list)
		return list
	}
	for _, c := range read("") {
		if c.RateIn != nil || c.RateOut != nil || c.Connected != (c.Listener != nil) {
			t.Errorf("not asked for: %+v", c)
		}
	}
	for query, want := range map[string]string{
		"?rates=true": "away: false false, p: true false, r: false true, ", "?rates=true&offset=1&count=1": "p: true false, ",
		"?rates=true&filterValue=R&state=connected": "r: false true, ", "?rates=true&count=0": "",
	} {
		for got := "none"; got != want; {
			list := while(func() {
				publisher.Publish("t", "x", 1)
				reader.WantMessage("t", "x")
			}, func() []broker.ConnectedClient { return read(query) })
			got = ""
			for _, c := range list {
				if c.RateIn == nil || c.RateOut == nil || *c.RateIn < 0 || *c.RateOut < 0 {
					t.Fatalf("%s: no rates in %+v", query, c)
				}
				got += fmt.Sprintf("%s: %t %t, ", c.ClientID, *c.RateIn > 0, *c.RateOut > 0)
			}
			if got != want {
				t.Logf("%s: got %q, want %q", query, got, want) // the publisher may not have had the time
			}
		}
	}
	api.Root.Get(api.At("/client-inspect?rates=perhaps")).WantError(400, "INVALID_REQUEST")
}

// TestInspectList pages through connected clients and sessions of others, ordered by
// the bytes of their ids.
func TestInspectList(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, withAdminPassword)
	if ids, total := listed(t, api, ""); ids != nil || total != "0" {
		t.Errorf("without clients: %q, %s in all", ids, total)
	}
	order := []string{"A", "a", "a/1", "b c&d", "z", "é"}
	for i, id := range slices.Backward(order) {
		d := join(t, api, 5, id, asAdmin, persistent)
		if i%2 == 0 {
			d.Disconnect()
			wantDetail(t, api, id, false, connected)
		}
	}
	for query, want := range map[string][]string{
		"": order, "?count=-1": order, "?count=0": nil, "?count=2": order[:2], "?offset=4": order[4:], "?offset=2&count=3": order[2:5],
		"?offset=5&count=100": order[5:], "?offset=6": nil, "?offset=1000000&count=1": nil, "?offset=9223372036854775807&count=9223372036854775807": nil,
	} {
		ids, total := listed(t, api, query)
		if !slices.Equal(ids, want) || total != "6" {
			t.Errorf("%q: got %q of %s, want %q of 6", query, ids, total, want)
		}
	}
	for _, id := range order {
		if got := detail(api, id).ClientID; got != id {
			t.Errorf("detail of %q is that of %q", id, got)
		}
	}
	api.Root.Get(api.At("/client-inspect?count=-2")).WantError(400, "INVALID_REQUEST")
	api.Root.Get(api.At("/client-inspect?offset=x")).WantError(400, "INVALID_REQUEST")
	api.Token("viewer").Get(api.At("/client-inspect?count=1")).Want(200)
	api.Anonymous().Get(api.At("/client-inspect")).WantError(401, "UNAUTHORIZED")
}

const manySessions = 20_000

func sessionID(i int) string { return fmt.Sprintf("session-%05d", i) }

// storeSessions stores many sessions in a data directory that no broker has used yet.
func storeSessions(t *testing.T, dir string) {
	t.Helper()
	f, err := schema.Open(t.Context(), filepath.Join(dir, embedded.DatabaseFile), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // a later read fails otherwise
	s, err := store.Open(t.Context(), f, store.Options{Durability: storage.Process})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	changes := &engine.Changes{}
	for i := range manySessions {
		changes.PutSessions = append(changes.PutSessions, engine.SessionRecord{
			ID: uint64(i + 1), ClientID: sessionID(i), Username: mqttAdmin, Version: 5, ExpiryInterval: engine.NeverExpires,
			CreatedAt: 1000, ConnectedAt: int64(1000 + i), DisconnectedAt: int64(2000 + i), Address: "192.0.2.1",
		})
	}
	s.Submit(changes)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestInspectManySessions reads a list of 20,000 that exceeds the buffers of a
// connection. While it is half read, the broker serves others.
func TestInspectManySessions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	storeSessions(t, dir)
	api := apitest.New(t, withAdminPassword, apitest.In(dir))
	const back = 12_345
	subscriber := join(t, api, 5, sessionID(back), asAdmin, persistent)
	subscriber.SubscribeTo(filter("t", 0))

	body := beginList(t, api)
	decoder := json.NewDecoder(body)
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	publisher := join(t, api, 5, "zz", asAdmin) // it connected after the request for the list
	publisher.Publish("t", "meanwhile", 0)
	subscriber.WantMessage("t", "meanwhile")
	if ids, total := listed(t, api, "?offset=19999&count=3"); !slices.Equal(ids, []string{sessionID(19_999), "zz"}) || total != "20001" {
		t.Errorf("another list meanwhile: %q of %s", ids, total)
	}

	n := 0
	for ; decoder.More(); n++ {
		var c broker.ConnectedClient
		if err := decoder.Decode(&c); err != nil {
			t.Fatal(err)
		}
		want := broker.ConnectedClient{Username: mqttAdmin, ClientID: sessionID(n), Address: "192.0.2.1", Protocol: "MQTT", ProtocolVersion: "v5",
			LastConnect: int64(1000 + n), LastDisconnect: new(int64(2000 + n)), Queues: c.Queues,
			NumSubscriptions: new(int64(0)), NumDropped: new(int64(0)), Inflight: &broker.ClientInflightMessages{}}
		if n == back {
			want.Connected, want.Address, want.LastConnect, want.NumSubscriptions = true, "127.0.0.1", c.LastConnect, new(int64(1))
			want.Listener = &broker.ClientListener{Port: portOf(t, api.Listeners[0]), BindAddress: "127.0.0.1"}
		}
		if diff := cmp.Diff(want, c); diff != "" {
			t.Fatalf("entry %d (-want +got):\n%s", n, diff)
		}
	}
	if n != manySessions {
		t.Errorf("%d entries, want %d", n, manySessions)
	}
	for _, offset := range []int{0, 9_950, 19_900} {
		ids, _ := listed(t, api, "?count=100&offset="+strconv.Itoa(offset))
		if len(ids) != 100 || ids[0] != sessionID(offset) || ids[99] != sessionID(offset+99) {
			t.Errorf("page at %d: %d entries from %q", offset, len(ids), ids[0])
		}
	}
}

// beginList requests the whole list and returns the body of the response, unread.
func beginList(t *testing.T, api *apitest.API) io.Reader {
	t.Helper()
	var session struct{ Token string }
	api.Anonymous().Post("/api/auth/login", object{"email": apitest.RootEmail, "password": apitest.RootPassword}).Want(200).Decode(&session)
	r, err := http.NewRequestWithContext(t.Context(), "GET", api.URL+api.At("/client-inspect?count=-1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+session.Token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if got := res.Header.Get("X-Total-Count"); res.StatusCode != 200 || got != strconv.Itoa(manySessions) {
		t.Fatalf("status %d, X-Total-Count %s", res.StatusCode, got)
	}
	return res.Body
}
