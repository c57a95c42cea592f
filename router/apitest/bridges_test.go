package apitest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"signalbox/broker"
	"signalbox/router/apitest"
)

// TestBridges covers the life cycle of a bridge: operations 44 to 47 as a viewer, the
// others as an editor.
func TestBridges(t *testing.T) {
	t.Parallel()
	api, server := apitest.New(t, withAdminPassword), newHTTPTarget(t)
	viewer, editor, at := api.Token("viewer"), api.Token("editor"), func(path string) string { return bridgeAt(api, api.Embedded, path) }
	if !slices.Contains(brokerRecord(api, api.Embedded).Capabilities, broker.CapBridges) || isActive(t, api, api.Embedded) {
		t.Error("a bridge must be offered, and not active before it is configured")
	}
	config := toHTTPTarget(server.URL, bridgeSecret, nil)
	var tested []broker.BridgeTest
	editor.Post(at("/test"), config).Want(200).Decode(&tested)
	if diff := cmp.Diff([]broker.BridgeTest{{ConnectionName: "c", IsConnected: true}}, tested); diff != "" {
		t.Errorf("tested (-want +got):\n%s", diff)
	}
	viewer.Put(at("/config"), config).Want(204)
	if !isActive(t, api, api.Embedded) {
		t.Error("the bridge is not active")
	}
	p := join(t, api, 5, "writer", asAdmin)
	for i := range 3 {
		p.Publish("in/1", fmt.Sprint("payload ", i), byte(i))
	}
	p.Publish("out/1", "not for it", 1)
	server.waitReceived("payload 0", "payload 1", "payload 2")
	waitFor(t, "the queue to be empty", func() bool { return statusOf(t, api, api.Embedded).QueuedMessages == 0 })
	if s := statusOf(t, api, api.Embedded); !s.IsConnected || s.Error != "" || s.Stats.Received != 3 || s.Stats.Delivered != 3 {
		t.Errorf("status %+v, %+v", s, s.Stats)
	}
	var schema struct {
		Schema     string `json:"$schema"`
		Title      string
		Properties map[string]json.RawMessage
	}
	viewer.Get(at("/schema")).Want(200).Decode(&schema)
	if schema.Schema == "" || schema.Title == "" || schema.Properties["connections"] == nil {
		t.Errorf("schema %+v", schema)
	}
	shown := viewer.Get(at("/config")).Want(200).Body
	viewer.Put(at("/config"), apitest.Text(shown)).Want(204)
	editor.Post(at("/test"), nil).Want(200).Decode(&tested)
	if again := viewer.Get(at("/config")).Want(200).Body; string(again) != string(shown) || !tested[0].IsConnected {
		t.Errorf("a configuration that is sent back: got %s, want %s; %+v", again, shown, tested)
	}
	if s := statusOf(t, api, api.Embedded); s.Stats.Delivered != 3 { // the connection was not affected
		t.Errorf("status %+v", s.Stats)
	}
	viewer.Put(at("/config"), object{"connections": []object{}}).Want(204)
	if isActive(t, api, api.Embedded) {
		t.Error("the bridge is still active")
	}
	if got := strings.TrimSpace(string(viewer.Get(at("/status")).Want(200).Body)); got != "[]" {
		t.Errorf("status %s", got)
	}
}

// TestDeadLetters lists, retries and deletes messages that a server does not accept.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	api, server := apitest.New(t, withAdminPassword), newHTTPTarget(t)
	at := func(path string) string { return bridgeAt(api, api.Embedded, path) }
	letters := at("/connections/c/deadletters")
	api.Root.Put(at("/config"), toHTTPTarget(server.URL, "", nil)).Want(204)
	server.status.Store(422)
	p := join(t, api, 5, "writer", asAdmin)
	payloads := []string{"one", "two", "\xff\xfe", strings.Repeat("long ", 1000), "five"}
	for _, payload := range payloads {
		p.Publish("in/x", payload, 1)
	}
	waitFor(t, "all to be refused", func() bool { return len(deadLetters(api, api.Embedded, "")) == len(payloads) })
	list := deadLetters(api, api.Embedded, "")
	first, binary := list[0], list[2]
	if first.Topic != "in/x" || first.Payload != "one" || first.Mapping != "m" || first.Size != 3 || first.QoS != 1 || first.ID == "" ||
		first.ReceivedAt.IsZero() || first.RejectedAt.Before(first.ReceivedAt) || !strings.Contains(first.Reason, "422") || binary.Encoding != "base64" {
		t.Errorf("dead letters %+v, %+v", first, binary)
	}
	answer := api.Root.Get(letters + "?offset=1&count=2").Want(200)
	var page []broker.DeadLetter
	if answer.Decode(&page); answer.Header.Get("X-Total-Count") != "5" || len(page) != 2 || page[0].ID != list[1].ID {
		t.Errorf("%s in all, page %+v", answer.Header.Get("X-Total-Count"), page)
	}
	server.status.Store(200)
	count := func(a *apitest.Response) (n struct{ Count int }) {
		a.Want(200).Decode(&n)
		return n
	}
	editor := api.Token("editor")
	if n := count(editor.Post(letters+"/retry", object{"ids": []string{list[1].ID, "none"}})); n.Count != 1 {
		t.Errorf("%d are tried again, want 1", n.Count)
	}
	server.waitReceived("two")
	if n := count(editor.Delete(letters + "?ids=" + list[0].ID + "," + list[1].ID)); n.Count != 1 {
		t.Errorf("%d are deleted, want 1", n.Count)
	}
	if n := count(editor.Post(letters+"/retry", nil)); n.Count != 3 {
		t.Errorf("%d are tried again, want 3", n.Count)
	}
	server.waitReceived("two", payloads[2], payloads[3], payloads[4])
	if n := count(editor.Delete(letters)); n.Count != 0 {
		t.Errorf("%d are deleted, want 0", n.Count)
	}
	for _, c := range []struct {
		answer *apitest.Response
		field  string
	}{
		{editor.Delete(letters + "?ids="), "query.ids"}, {editor.Delete(letters + "?ids=1,"), "query.ids"},
		{editor.Post(letters+"/retry", object{"ids": []string{}}), "body.ids"}, {editor.Post(letters+"/retry", object{"ids": "1"}), "body.ids"},
		{editor.Get(letters + "?offset=-1"), "query.offset"}, {editor.Get(letters + "?count=-2"), "query.count"},
	} {
		if got := c.answer.WantError(400, "INVALID_REQUEST").Fields(); !slices.Equal(got, []string{c.field}) {
			t.Errorf("bad fields %q, want %s", got, c.field)
		}
	}
}

// TestBridgesAfterARestart still have the messages in their queues.
func TestBridgesAfterARestart(t *testing.T) {
	t.Parallel()
	dir, server := t.TempDir(), newHTTPTarget(t)
	before := apitest.New(t, withAdminPassword, apitest.In(dir))
	before.Root.Put(bridgeAt(before, before.Embedded, "/config"), toHTTPTarget(server.URL, bridgeSecret, nil)).Want(204)
	shown := string(before.Root.Get(bridgeAt(before, before.Embedded, "/config")).Want(200).Body)
	server.stop()
	p := join(t, before, 5, "writer", asAdmin)
	for i := range 5 {
		if code := p.Publish("in/1", fmt.Sprint(i), 1); code >= 0x80 {
			t.Fatalf("refused with %#x", code)
		}
	}
	if n := statusOf(t, before, before.Embedded).QueuedMessages; n != 5 {
		t.Errorf("%d messages wait, want 5", n)
	}
	before.Stop()

	after := apitest.New(t, withAdminPassword, apitest.In(dir))
	if got := string(after.Root.Get(bridgeAt(after, after.Embedded, "/config")).Want(200).Body); got != shown {
		t.Errorf("configuration %s, want %s", got, shown)
	}
	waitFor(t, "the cause to be told", func() bool { return statusOf(t, after, after.Embedded).Error != "" })
	if s := statusOf(t, after, after.Embedded); s.QueuedMessages != 5 || s.IsConnected || !strings.Contains(s.Error, "refuses connections") {
		t.Errorf("after the restart: %+v", s)
	}
	server.start()
	server.waitReceived("0", "1", "2", "3", "4")
	if want := "Bearer " + bridgeSecret; !server.gotToken(want) {
		t.Error("the secret did not survive the restart")
	}
}
